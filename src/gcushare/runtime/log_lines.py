"""The format of a log line: ``2022/09/06 08:33:52 INFO gcushare/kube/client.py:46 phrase key=value``, or JSON.

One log record is one line, even if a pod, a client or a file puts control characters into a value. So none of them can
forge a line.
"""

from __future__ import annotations

import functools
import json
import logging
import time
from pathlib import PurePath

from gcushare.core.log_fields import MAX_VALUE_CHARS, Fields, cut_text, escape

_MAX_MESSAGE_CHARS = 16 * 1024


def place_of(record: logging.LogRecord) -> str:
    """Return the source file and line of a log line, from the package on: ``gcushare/kube/client.py:46``."""
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
    """One line for people. A stack follows indented, so that it cannot pass for log lines."""

    def format(self, record: logging.LogRecord) -> str:
        moment = _local_time(int(record.created))
        message = cut_text(escape(record.getMessage()), _MAX_MESSAGE_CHARS)
        line = f"{moment} {record.levelname} {place_of(record)} {message}"
        stack = _stack_of(self, record)
        return line if not stack else line + "".join(f"\n    {escape(part)}" for part in stack.splitlines())


class JsonFormatter(logging.Formatter):
    """One JSON object per line. The fields are under ``fields``, so that they cannot replace the line's own keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record with its time in UTC, to the millisecond."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.created % 1 * 1000):03d}Z",
            "level": record.levelname,
            "place": place_of(record),
            "logger": record.name,
            "message": cut_text(record.getMessage(), _MAX_MESSAGE_CHARS),
        }
        found = [each for each in record.args if isinstance(each, Fields)] if isinstance(record.args, tuple) else []
        values = {
            key: value if isinstance(value, int | float) else cut_text(str(value), MAX_VALUE_CHARS)
            for each in found
            for key, value in each.pairs
        }
        if values:
            line["fields"] = values
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
    return cut_text("\n".join(parts), _MAX_MESSAGE_CHARS)
