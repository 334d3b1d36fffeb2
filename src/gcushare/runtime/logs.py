"""Set up a program's log once: stderr, and a bounded local file that outlives the program's container.

Lines are written by the thread that logs them. A queue with a writer thread was measured and left out: under one
interpreter lock it cost more per line (91 against 50 microseconds, worst case 6 against 0.5 milliseconds), and a
killed process would lose the lines that explain why.
"""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from types import TracebackType
from typing import TextIO

from gcushare.runtime.log_file import LocalLogFile
from gcushare.runtime.log_level import follow_signals
from gcushare.runtime.log_lines import Fields, JsonFormatter, TextFormatter, fields
from gcushare.runtime.safe_directory import UnsafePathError
from gcushare.runtime.settings.log import LogFormat, LogSettings

__all__ = ["Fields", "LogHandle", "fields", "setup_logging"]

logger = logging.getLogger(__name__)

_PACKAGE = "gcushare"
_UNUSED_FACTS = ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks")
"""What logging looks up for every line, with a system call, and neither of our formats shows."""


class LogHandle:
    """What `setup_logging` set up. SIGUSR1 and SIGUSR2 change the level; closing puts everything back as it was."""

    def __init__(self, handlers: list[logging.Handler], levels: dict[str, int]) -> None:
        self._handlers = handlers
        self._levels_before = {name: logging.getLogger(name).level for name in levels}
        self._facts_before = {name: getattr(logging, name) for name in _UNUSED_FACTS if hasattr(logging, name)}
        for name in self._facts_before:
            setattr(logging, name, False)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        for handler in handlers:
            logging.getLogger().addHandler(handler)
        self._levels = levels
        self._signals = ExitStack()
        self._signals.enter_context(follow_signals(self._set_debug))

    def _set_debug(self, is_debug: bool) -> None:
        """Write debug lines of our own, or again what the settings ask for."""
        level = logging.DEBUG if is_debug else self._levels[_PACKAGE]
        if level == logging.getLogger(_PACKAGE).level:
            return
        # Written under the finer of both levels, so that each change stands in the log.
        logging.getLogger(_PACKAGE).setLevel(min(level, logging.INFO))
        logger.info("log level changed %s", fields(level=logging.getLevelName(level).lower()))
        logging.getLogger(_PACKAGE).setLevel(level)

    def close(self) -> None:
        """Take the handlers off and close the file; repeatable."""
        if not self._handlers:
            return
        self._signals.close()
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


def setup_logging(settings: LogSettings, program: str, *, stderr: TextIO | None = None) -> LogHandle:
    """Send the log of every logger to stderr and to ``<log_dir>/<program>.log``.

    Our own loggers follow ``log_level``; those of libraries stay at info or above: their debug lines have bodies.

    Effects: creates the directory; one that cannot be written, or in which others can, is a warning in the log, and
    lines go to the file once that is no longer so. Records carry no process and thread from now on.
    """
    formatter = JsonFormatter() if settings.log_format is LogFormat.JSON else TextFormatter()
    stream = sys.stderr if stderr is None else stderr
    handlers: list[logging.Handler] = [logging.StreamHandler(stream)]
    problem: OSError | UnsafePathError | None = None
    if settings.log_dir is not None:
        file = settings.log_dir / f"{program}.log"
        local = LocalLogFile(file, settings.log_file_size, settings.log_file_count, stream)
        handlers.append(local)
        try:
            local.open()
        except (OSError, UnsafePathError) as error:
            problem = error
    for handler in handlers:
        handler.setFormatter(formatter)
    level = logging.getLevelNamesMapping()[settings.log_level.name]
    handle = LogHandle(handlers, {"": max(level, logging.INFO), _PACKAGE: level})
    if problem is not None:
        facts = fields(dir=settings.log_dir, reason=problem, hint="correct that, or change --log-dir")
        logger.warning("no local log file, stderr only %s", facts)
    return handle
