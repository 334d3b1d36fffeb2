"""Cuts what programs of this project said: their sentences stay, what they quote of others does not; pure.

An error of ours names the value at fault, and quotes it. A quotation stays only where it is a name of this cluster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from gcushare.core.errors import RemoteContractError
from gcushare.wire.untrusted_json import ANNOTATION_BYTES, BoundedJsonDecoder

LOG_LINE = BoundedJsonDecoder(dict[str, Any], "a line of a log", limit_bytes=ANNOTATION_BYTES)

ELLIPSIS = "…"
_LONGEST = 2048
# An apostrophe within a word opens and closes nothing.
_QUOTED = re.compile(
    r"(?<!\w)'((?:[^'\\]|\\.){0,2048})'(?!\w)|\"((?:[^\"\\]|\\.){0,2048})\"|(?<![\w'\"])['\"](?=[^'\"]*\Z)(.*)\Z",
    re.DOTALL,
)
_HEAD = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\w./-]{1,200}\.py:\d{1,6} "
_OURS = re.compile(rf"({_HEAD})(.*)")
_STACK = re.compile(
    r" +(?:File \"[\w./<>-]{1,300}\", line \d{1,6}, in [\w<>]{1,100}|Traceback \(most recent call last\):)"
)
_RAISED = re.compile(r"( +(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Refused|Interrupt|Exit)): (.*)")
_SCHEDULER = re.compile(
    r"([IWEF]\d{4} [\d:.]{8,18} +\d{1,10} [\w.-]{1,80}\.go:\d{1,6}\] )(\"(?:[^\"\\]|\\.){1,512}\")?(.*)"
)
"""kube-scheduler's: what it quotes first is a phrase of its source, everything else may be of others."""
_FACT = re.compile(r"(?<![^ ])(\w{1,40})=(?:\"((?:[^\"\\]|\\.){0,4096})\"|([^ ]{1,2048}))")
_FACT_NAMES = """
about accepted address call card card_pods card_uuid cards cert check client_ca code config_map connections container
count counted deadline_s delay_s demands detail devices dir drain_s drifts driver endpoint error file for_s found
gates hint identity leader leading lease left_s level limit limit_s look_every_s method missing ms name names node
nodes objects observed peer pid pod pods problem purpose reason recorded relist resource rest_s retry_in_s secret
selection size slow source state status step target task tasks uid unit units url uuid vendor version waited_s whole
wrong
"""
FACTS = frozenset(_FACT_NAMES.split())
"""Facts of log lines that go in. Not among them: whoever calls chooses ``user`` and ``path``, and what
pods say of themselves at debug."""
_JSON_KEYS = ("time", "level", "place", "logger")
_FIGURE = re.compile(
    r"((?:gcushare|process|python)_\w{1,120}(?:\{(?:\w{1,40}=\"(?:[^\"\\]|\\.){0,300}\",?){0,20}\})? [-+.\w]{1,40})|"
    r"(# TYPE (?:gcushare|process|python)_\w{1,120} [a-z]{1,12})"
)


def own_words(text: str, names: Collection[str] = ()) -> str:
    """A sentence of ours without what it quotes, ``names`` aside."""

    def cut(found: re.Match[str]) -> str:
        quoted = next((part for part in found.groups() if part is not None), "")
        return found.group() if quoted in names else f"{found.group()[0]}{ELLIPSIS}{found.group()[0]}"

    short = _QUOTED.sub(cut, text[:_LONGEST])
    return short if len(text) <= _LONGEST else f"{short}{ELLIPSIS}"


def own_document(value: Any, names: Collection[str] = ()) -> Any:
    """A JSON value whose texts are all of ours."""
    match value:
        case str():
            return own_words(value, names)
        case dict():
            return {own_words(str(key), names): own_document(inner, names) for key, inner in value.items()}
        case list() | tuple():
            return [own_document(inner, names) for inner in value]
        case _:
            return value


def cut_log(text: str, names: Collection[str] = ()) -> str:
    """The lines that our programs or kube-scheduler wrote; what a library or a shell printed is counted."""
    lines: list[str] = []
    left_out = 0
    for line in text.splitlines():
        kept = _log_line(line, names)
        if kept is None:
            left_out += 1
        else:
            lines.append(kept)
    if left_out:
        lines.append(f"({left_out} lines of another form left out)")
    return "".join(f"{line}\n" for line in lines)


def _log_line(line: str, names: Collection[str]) -> str | None:
    if found := _OURS.fullmatch(line):
        return found[1] + _log_message(found[2], names)
    if found := _SCHEDULER.fullmatch(line):
        facts = (fact for fact in _FACT.finditer(found[3]) if (fact[2] or fact[3]) in names)
        return found[1] + " ".join([found[2] or ELLIPSIS, *(fact[0] for fact in facts)])
    if _STACK.fullmatch(line):
        return line
    if found := _RAISED.fullmatch(line):
        return f"{found[1]}: {own_words(found[2], names)}"
    return _json_line(line, names) if line.startswith("{") else None


def _log_message(message: str, names: Collection[str]) -> str:
    """A phrase and its facts; quotes around a whole fact are the log's own."""

    def cut(found: re.Match[str]) -> str:
        key, quoted, bare = found.groups()
        if key not in FACTS:
            return f"{key}={ELLIPSIS}"
        if quoted is None:
            return f"{key}={own_words(bare, names)}"
        said = own_words(re.sub(r"\\(.)", r"\1", quoted), names).replace('"', "'")
        return f'{key}="{said}"'

    first = _FACT.search(message)
    start = first.start() if first else len(message)
    rest = _FACT.sub(cut, message[start:])
    return own_words(message[:start], names) + rest


def _json_line(line: str, names: Collection[str]) -> str | None:
    try:
        document = LOG_LINE.read(line)
    except RemoteContractError:
        return None
    if not isinstance(document.get("message"), str):
        return None
    head = [str(document.get(key, ""))[:200] for key in _JSON_KEYS]
    if not re.fullmatch(r"[\d:.TZ-]+ [A-Z]+ [\w./-]+:\d+ [\w.]+", " ".join(head)):
        return None
    return json.dumps(dict(zip(_JSON_KEYS, head, strict=True)) | {"message": _log_message(document["message"], names)})


def cut_metrics(text: str) -> str:
    """The figures that programs of this project serve, without comments."""
    return "".join(f"{line}\n" for line in _figures(text))


def _figures(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if _FIGURE.fullmatch(line))
