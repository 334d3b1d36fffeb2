"""Set up a program's log once: stderr for whoever runs it, and a bounded local file that outlives its container.

Lines are written by the thread that logs them. A queue with a writer thread was measured and left out: under one
interpreter lock it cost more per line (91 against 50 microseconds, worst case 6 against 0.5 milliseconds), and a
killed process would lose the lines that explain why.
"""

from __future__ import annotations

import logging
import logging.handlers
import sys
from pathlib import Path
from types import TracebackType
from typing import TextIO

from gcushare.runtime.groups import LogFormat, LogSettings
from gcushare.runtime.log_lines import Fields, JsonFormatter, TextFormatter, fields

__all__ = ["Fields", "LogHandle", "fields", "setup_logging"]

log = logging.getLogger(__name__)

_PACKAGE = "gcushare"
_UNUSED_FACTS = ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks")
"""What logging looks up for every line, with a system call, and neither of our formats shows."""


class LogHandle:
    """What `setup_logging` set up; closing it writes what is left and puts the loggers back as they were."""

    def __init__(self, handlers: list[logging.Handler], levels: dict[str, int], file: Path | None) -> None:
        self.file = file
        """The local log file, None where none is written."""
        self._handlers = handlers
        self._levels_before = {name: logging.getLogger(name).level for name in levels}
        self._facts_before = {name: getattr(logging, name) for name in _UNUSED_FACTS if hasattr(logging, name)}
        for name in self._facts_before:
            setattr(logging, name, False)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        for handler in handlers:
            logging.getLogger().addHandler(handler)

    def close(self) -> None:
        """Take the handlers off and close the file; repeatable."""
        if not self._handlers:
            return
        while self._handlers:
            handler = self._handlers.pop()
            logging.getLogger().removeHandler(handler)
            handler.close()
        for name, level in self._levels_before.items():
            logging.getLogger(name).setLevel(level)
        for name, wanted in self._facts_before.items():
            setattr(logging, name, wanted)

    def __enter__(self) -> LogHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self.close()


class _LocalFile(logging.handlers.RotatingFileHandler):
    """A rotating file whose trouble (a full disk, a directory gone) is told on stderr once, not once per line."""

    def __init__(self, path: Path, settings: LogSettings, stderr: TextIO) -> None:
        size, count = settings.log_file_size, settings.log_file_count
        super().__init__(path, maxBytes=size, backupCount=count, encoding="utf-8", errors="replace")
        self._stderr = stderr
        self._lines_lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        lost_before = self._lines_lost
        super().emit(record)
        if 0 < lost_before == self._lines_lost:
            self._warn(f"is written again, {lost_before} lines are missing in it")
            self._lines_lost = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        self._lines_lost += 1
        if self._lines_lost == 1:
            self._warn(f"cannot be written: {sys.exc_info()[1]}")

    def close(self) -> None:
        try:
            super().close()
        except OSError as error:
            self._warn(f"lost its last lines: {error}")

    def _warn(self, what: str) -> None:
        self._stderr.write(f"warning: local log file {self.baseFilename!r} {what}\n")


def setup_logging(settings: LogSettings, program: str, *, stderr: TextIO | None = None) -> LogHandle:
    """Send the log of every logger to stderr and to ``<log_dir>/<program>.log``.

    Our own loggers follow ``log_level``; those of libraries never tell more than info, whose debug lines carry bodies.

    Effects: creates the directory; one that cannot be written is a warning in the log, and only stderr is used. Records
    carry no process and thread from now on.
    """
    formatter = JsonFormatter() if settings.log_format is LogFormat.JSON else TextFormatter()
    stream = sys.stderr if stderr is None else stderr
    handlers: list[logging.Handler] = [logging.StreamHandler(stream)]
    problem: OSError | None = None
    file: Path | None = None
    if settings.log_dir is not None:
        file = settings.log_dir / f"{program}.log"
        try:
            settings.log_dir.mkdir(parents=True, exist_ok=True)
            handlers.append(_LocalFile(file, settings, stream))
        except OSError as error:
            problem, file = error, None
    for handler in handlers:
        handler.setFormatter(formatter)
    level = logging.getLevelNamesMapping()[settings.log_level.name]
    handle = LogHandle(handlers, {"": max(level, logging.INFO), _PACKAGE: level}, file)
    if problem is not None:
        facts = fields(dir=settings.log_dir, reason=problem, hint="make it writable, or change --log-dir")
        log.warning("no local log file, stderr only %s", facts)
    return handle
