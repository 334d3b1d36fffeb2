"""What a log line looks like: ``2022/09/06 08:33:52 INFO gcushare/kube/client.py:46 phrase key=value``, or JSON.

Whatever a pod's author, a peer or a file put into a value, one record stays one line that no one else can forge.
"""

from __future__ import annotations

import functools
import json
import logging
import re
import time
from dataclasses import dataclass
from pathlib import PurePath

# Characters of one value and of one message that are written: a pod's whole manifest in a log helps no one.
_LONGEST_VALUE = 2048
_LONGEST_MESSAGE = 16 * 1024


def escape(text: str) -> str:
    """Escape everything that a terminal or a reader of lines could take for structure: controls, breaks, bidi marks."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape_char(char) for char in text)


def _escape_char(char: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    if short is not None:
        return short
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}...(+{len(text) - limit})"


_PLAIN_WORD = re.compile(r"[!#-<>-\[\]-~]+")
"""Printable ASCII without space, quote, equals sign and backslash; any other value takes the longer way."""


def quote(value: object) -> str:
    """Write a value so that it ends where it ends: bare where it is one plain word, else in double quotes."""
    text = _cut(str(value), _LONGEST_VALUE)
    if _PLAIN_WORD.fullmatch(text) or (text and text.isprintable() and not set(text) & set(' "=\\')):
        return text
    return '"' + escape(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


@dataclass(frozen=True, slots=True)
class Fields:
    """The facts of a log line; they become text only if the line is written."""

    pairs: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        return " ".join(f"{key}={quote(value)}" for key, value in self.pairs)


def fields(**facts: object) -> Fields:
    """Name the facts of a log line, in order; None leaves one out.

    Use it as the argument of ``%s``: ``log.info("bound %s", fields(pod="ns/name", node=node, card=0))``.
    """
    return Fields(tuple((key, value) for key, value in facts.items() if value is not None))


def place_of(record: logging.LogRecord) -> str:
    """Return where a line was logged, from the package on: ``gcushare/kube/client.py:46``."""
    return f"{_shorten(record.pathname, record.name.partition('.')[0])}:{record.lineno}"


@functools.lru_cache(maxsize=1024)
def _shorten(pathname: str, package: str) -> str:
    parts = PurePath(pathname).parts
    folders = parts[:-1]
    start = len(folders) - 1 - folders[::-1].index(package) if package in folders else max(0, len(parts) - 2)
    return "/".join(parts[start:])


@functools.lru_cache(maxsize=8)
def _local_time(second: int) -> str:
    return time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(second))


class TextFormatter(logging.Formatter):
    """One line for people; a stack follows indented, so that none of its lines can pass for a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; its time is local."""
        moment = _local_time(int(record.created))
        message = _cut(escape(record.getMessage()), _LONGEST_MESSAGE)
        line = f"{moment} {record.levelname} {place_of(record)} {message}"
        stack = _stack_of(self, record)
        return line if not stack else line + "".join(f"\n    {escape(part)}" for part in stack.splitlines())


class JsonFormatter(logging.Formatter):
    """One JSON object per line; the facts stand under ``fields``, where they cannot replace the line's own keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; its time is UTC, to the millisecond."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.created % 1 * 1000):03d}Z",
            "level": record.levelname,
            "place": place_of(record),
            "logger": record.name,
            "message": _cut(record.getMessage(), _LONGEST_MESSAGE),
        }
        facts = {key: _as_json(value) for found in _find_fields(record) for key, value in found.pairs}
        if facts:
            line["fields"] = facts
        stack = _stack_of(self, record)
        if stack:
            line["stack"] = stack
        return json.dumps(line, ensure_ascii=True)


def _stack_of(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return _cut("\n".join(parts), _LONGEST_MESSAGE)


def _find_fields(record: logging.LogRecord) -> list[Fields]:
    arguments = record.args if isinstance(record.args, tuple) else ()
    return [argument for argument in arguments if isinstance(argument, Fields)]


def _as_json(value: object) -> object:
    return value if isinstance(value, int | float) else _cut(str(value), _LONGEST_VALUE)
