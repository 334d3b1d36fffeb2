"""Filters log lines and metrics of our programs, and kube-scheduler's log lines; pure.

Lines of older releases, which wrote ``error=`` values without quotes, are cut too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from gcushare.cli.support_bundle.redact import ELLIPSIS, has_foreign_tail, own_words
from gcushare.core.errors import RemoteContractError
from gcushare.core.wording import counted
from gcushare.wire.untrusted_json import ANNOTATION_BYTES, BoundedJsonDecoder

LOG_LINE = BoundedJsonDecoder(dict[str, Any], "a line of a log", limit_bytes=ANNOTATION_BYTES)

_HEAD = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\w./-]{1,200}\.py:\d{1,6} "
_OURS = re.compile(rf"({_HEAD})(.*)")
_STACK = re.compile(
    r" +(?:File \"[\w./<>-]{1,300}\", line \d{1,6}, in [\w<>]{1,100}|Traceback \(most recent call last\):)"
)
_RAISED = re.compile(r"( +((?:[A-Za-z_]\w{0,60}\.){0,6})[A-Z]\w{0,60}(?:Error|Exception|Refused|Interrupt|Exit)): (.*)")
_SCHEDULER = re.compile(
    r"([IWEF]\d{4} [\d:.]{8,18} +\d{1,10} [\w.-]{1,80}\.go:\d{1,6}\] )(\"(?:[^\"\\]|\\.){1,512}\")?(.*)"
)
"""A line of kube-scheduler: the first quotation is a phrase of its source, everything else may be foreign."""
_SCHEDULER_FACT = re.compile(r"(?<![^ ])(\w{1,40})=(?:\"((?:[^\"\\]|\\.){0,4096})\"|([^ ]{1,2048}))")

_FACT_NAMES = """
about accepted address call card card_pods card_uuid cards cert check claim claims client_ca code config_map
connections container copy count counted deadline_s delay_s deleted demands detail devices dir drain_s drifts driver
endpoint error file files
for_s found from gates generation group hint identity leader leading lease left_s level limit limit_s
look_every_s method missing ms name names node nodes objects observed peer pid pod pods problem purpose reason
recorded relist resource rest_s retry_in_s retry_s secret selection size slice slices slow source state status step
steps target task tasks template uid unit units url uuid vendor version waited_s whole wrong
"""
FACTS = frozenset(_FACT_NAMES.split())
"""Facts of log lines that are kept."""
MASKED_FACTS = frozenset({"user", "path", "ids", "old_status", "new_status", "old_annotations", "new_annotations"})
"""Facts whose values are masked: callers choose ``user`` and ``path``; pods' authors the others (debug level)."""
_SENTENCES = frozenset({"detail", "error", "hint", "problem", "reason", "wrong"})
"""Facts that are text. Programs quote them; unquoted text of several words is from an older release and masked."""
_BARE_WORD = re.compile(r"[A-Z][A-Za-z]{1,60}|\d{1,9}|True|False|None")
_ANY_KEY = re.compile(r"(?<![^ ])\w{1,40}=")
_KNOWN_KEY = re.compile(rf"(?<![^ ])(?:{'|'.join(sorted(FACTS | MASKED_FACTS))})=")
_QUOTED_VALUE = re.compile(r"\"((?:[^\"\\]|\\.){0,8192})\"(?= |\Z)")

_JSON_KEYS = ("time", "level", "place", "logger")
_JSON_HEAD = re.compile(r"[\d:.TZ-]+ [A-Z]+ [\w./-]+:\d+ [\w.]+")
_FIGURE = re.compile(
    r"((?:gcushare|process|python)_\w{1,120}(?:\{(?:\w{1,40}=\"(?:[^\"\\]|\\.){0,300}\",?){0,20}\})? [-+.\w]{1,40})|"
    r"(# TYPE (?:gcushare|process|python)_\w{1,120} [a-z]{1,12})"
)


def cut_log(text: str, names: Collection[str] = ()) -> str:
    """Return the lines of our programs and kube-scheduler. Lines of libraries and shells are only counted."""
    lines: list[str] = []
    left_out = 0
    for line in text.splitlines():
        kept = _log_line(line, names)
        if kept is None:
            left_out += 1
        else:
            lines.append(kept)
    if left_out:
        lines.append(f"({counted(left_out, 'line')} of another form left out)")
    return "".join(f"{line}\n" for line in lines)


def _log_line(line: str, names: Collection[str]) -> str | None:
    if found := _OURS.fullmatch(line):
        return found[1] + _log_message(found[2], names)
    if found := _SCHEDULER.fullmatch(line):
        facts = (fact for fact in _SCHEDULER_FACT.finditer(found[3]) if (fact[2] or fact[3]) in names)
        return found[1] + " ".join([found[2] or ELLIPSIS, *(fact[0] for fact in facts)])
    if _STACK.fullmatch(line):
        return line
    if found := _RAISED.fullmatch(line):
        # Errors of ours quote the value at fault; a library's text may be anything.
        is_ours = found[2].startswith("gcushare.")
        return f"{found[1]}: {own_words(found[3], names) if is_ours else ELLIPSIS}"
    if not line.startswith("{"):
        return None
    try:
        document = LOG_LINE.read(line)
    except RemoteContractError:
        return None
    message = document.get("message")
    head = [str(document.get(key, ""))[:200] for key in _JSON_KEYS]
    if not isinstance(message, str) or not _JSON_HEAD.fullmatch(" ".join(head)):
        return None
    return json.dumps(dict(zip(_JSON_KEYS, head, strict=True)) | {"message": _log_message(message, names)})


def _log_message(message: str, names: Collection[str]) -> str:
    """Cut a phrase and the facts that follow it."""
    first = _ANY_KEY.search(message)
    position = first.start() if first else len(message)
    phrase = message[:position]
    facts = () if has_foreign_tail(phrase) else _facts(message, position, names)
    return own_words(phrase, names) + "".join(facts)


def _facts(message: str, position: int, names: Collection[str]) -> Iterator[str]:
    """Yield the facts after a position, each with the space after it.

    A value in quotes ends at its closing quote. A bare one ends at the next known key, or with the message: it may hold
    spaces and equals signs. After one that does, ``key=`` may be part of the same text, so only names are kept.
    """
    is_loose = False
    while position < len(message):
        key, _, rest = message[position:].partition("=")
        position += len(key) + 1
        quoted = _QUOTED_VALUE.match(rest)
        if quoted is None and rest.startswith('"'):
            yield f"{key}={ELLIPSIS}"  # Cut off within its quotes: what looks like a key is part of the text.
            return
        following = _KNOWN_KEY.search(message, position + (quoted.end() if quoted else 0))
        end = following.start() if following else len(message)
        value = message[position:end].rstrip(" ")
        is_loose = is_loose or (" " in value and quoted is None)
        if key not in FACTS:
            kept = ELLIPSIS
        elif quoted is not None:
            text = own_words(re.sub(r"\\(.)", r"\1", quoted[1]), names).replace('"', "'")
            kept = f'"{text}"' + (f" {ELLIPSIS}" if len(value) > quoted.end() else "")
        elif value in names:
            kept = value
        elif is_loose or "=" in value or (key in _SENTENCES and not _BARE_WORD.fullmatch(value)):
            kept = ELLIPSIS
        else:
            kept = own_words(value, names)
        yield f"{key}={kept}{' ' if following else ''}"
        position = end


def cut_metrics(text: str) -> str:
    """Return the metrics that programs of this project serve, without comments."""
    return "".join(f"{line}\n" for line in text.splitlines() if _FIGURE.fullmatch(line))
