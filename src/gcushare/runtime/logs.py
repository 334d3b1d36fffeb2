"""A program's log: the format of its lines, stderr, and a bounded local file that outlives the program's container.

A line is ``2022/09/06 08:33:52 INFO gcushare/kube/client.py:46 phrase key=value``, or JSON. One log record is one line,
even if a pod, a client or a file puts control characters into a value. So none of them can forge a line.

The thread that logs a line writes it. A queue with a writer thread was measured and rejected: under one interpreter
lock it costs more per line (91 instead of 50 microseconds, worst case 6 instead of 0.5 milliseconds), and a killed
process would lose its last lines, which explain why.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TextIO

from gcushare.core.log_fields import MAX_VALUE_CHARS, Fields, cut_text, escape, fields
from gcushare.runtime.log_file import LocalLogFile
from gcushare.runtime.log_level import follow_signals
from gcushare.runtime.safe_directory import UnsafePathError
from gcushare.runtime.settings.log import LogFormat, LogSettings

logger = logging.getLogger(__name__)

_MAX_MESSAGE_CHARS = 16 * 1024
_PACKAGE = "gcushare"
_UNUSED_FACTS = ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks")
"""Facts that ``logging`` collects for every line, some with a system call, and that neither of our formats shows."""


@contextmanager
def setup_logging(settings: LogSettings, program: str, *, stderr: TextIO | None = None) -> Iterator[None]:
    """Send the lines of all loggers to stderr and to ``<log_dir>/<program>.log`` while the block runs.

    Our own loggers follow ``log_level``. Those of libraries stay at info or above, because their debug lines contain
    bodies of requests. SIGUSR1 and SIGUSR2 change the level of ours.

    Effects: creates the directory. If it is not writable, or writable by others, logs a warning and writes the file
    once that is corrected. Log records no longer have their process and thread. The end of the block restores all else.
    """
    formatter = JsonFormatter() if settings.log_format is LogFormat.JSON else TextFormatter()
    stream = sys.stderr if stderr is None else stderr
    handlers: list[logging.Handler] = [logging.StreamHandler(stream)]
    problem: OSError | UnsafePathError | None = None
    if settings.log_dir is not None:
        file = settings.log_dir.absolute() / f"{program}.log"
        local = LocalLogFile(file, settings.log_file_size, settings.log_file_count, stream)
        handlers.append(local)
        try:
            local.open()
        except (OSError, UnsafePathError) as error:
            problem = error
    root, ours = logging.getLogger(), logging.getLogger(_PACKAGE)
    level = logging.getLevelNamesMapping()[settings.log_level.name]
    levels_before = (root.level, ours.level)
    facts_before = {name: getattr(logging, name) for name in _UNUSED_FACTS if hasattr(logging, name)}

    def set_debug(is_debug: bool) -> None:
        """Switch our own loggers to debug, or back to the configured level."""
        wanted = logging.DEBUG if is_debug else level
        if wanted == ours.level:
            return
        # Logged at the finer of both levels, so that the log shows each change.
        ours.setLevel(min(wanted, logging.INFO))
        logger.info("log level changed %s", fields(level=logging.getLevelName(wanted).lower()))
        ours.setLevel(wanted)

    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    for name in facts_before:
        setattr(logging, name, False)
    root.setLevel(max(level, logging.INFO))
    ours.setLevel(level)
    try:
        with follow_signals(set_debug):
            if problem is not None:
                facts = fields(dir=settings.log_dir, reason=problem, hint="correct that, or change --log-dir")
                logger.warning("no local log file, stderr only %s", facts)
            yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(levels_before[0])
        ours.setLevel(levels_before[1])
        for name, wanted in facts_before.items():
            setattr(logging, name, wanted)


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
