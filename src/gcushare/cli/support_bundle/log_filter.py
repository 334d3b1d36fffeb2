"""Cuts what ``bundle`` has read: log lines and metrics of our programs, and kube-scheduler's log lines. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from gcushare.cli.support_bundle.redact import ELLIPSIS, has_foreign_tail, is_secret_name, own_words
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

MASKED_FACTS = frozenset({"user", "path", "ids", "old_status", "new_status", "old_annotations", "new_annotations"})
"""Facts whose values are masked: callers choose ``user`` and ``path``; pods' authors the others (debug level)."""
_SENTENCES = frozenset({"detail", "error", "hint", "problem", "reason", "wrong"})
"""Facts that are text: a single word of them may be anybody's."""
_SAFE_WORD = re.compile(r"[A-Z][A-Za-z]{1,60}|\d{1,9}|True|False|None")
_FACT = re.compile(r"(?:\A|(?<= ))(\w{1,40})=(?:\"((?:[^\"\\]|\\.){0,8192})\"|([^ \"'=\\]{1,2048}))(?: |\Z)")
"""As ``core.log_fields`` writes them: a value of several words stands in quotes."""

_FACT_KEY = re.compile(r"(?<![^ ])\w{1,40}=")

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
    """Cut a phrase and the facts that follow it; of what has another form nothing is kept."""
    first = _FACT_KEY.search(message)
    position = first.start() if first else len(message)
    phrase = message[:position]
    kept = [own_words(phrase, names)]
    while position < len(message) and not has_foreign_tail(phrase):
        fact = _FACT.match(message, position)
        if fact is None:
            kept.append(ELLIPSIS)
            break
        position = fact.end()
        kept.append(f"{fact[1]}={_fact_value(fact, names)}{' ' if position < len(message) else ''}")
    return "".join(kept)


def _fact_value(fact: re.Match[str], names: Collection[str]) -> str:
    key, text, word = fact[1], fact[2], fact[3]
    if key in MASKED_FACTS or is_secret_name(key):
        return ELLIPSIS
    if text is not None:
        return '"{}"'.format(own_words(re.sub(r"\\(.)", r"\1", text), names).replace('"', "'"))
    if word in names:
        return word
    return ELLIPSIS if key in _SENTENCES and not _SAFE_WORD.fullmatch(word) else own_words(word, names)


def cut_metrics(text: str) -> str:
    """Return the metrics that programs of this project serve, without comments."""
    return "".join(f"{line}\n" for line in text.splitlines() if _FIGURE.fullmatch(line))
