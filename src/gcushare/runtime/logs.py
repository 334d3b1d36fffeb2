"""Sets up a program's log: stderr, and a bounded local file that outlives the program's container.

The thread that logs a line writes it. A queue with a writer thread was measured and rejected: under one interpreter
lock it costs more per line (91 instead of 50 microseconds, worst case 6 instead of 0.5 milliseconds), and a killed
process would lose its last lines, which explain why.
"""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from types import TracebackType
from typing import TextIO

from gcushare.core.log_fields import fields
from gcushare.runtime.log_file import LocalLogFile
from gcushare.runtime.log_level import follow_signals
from gcushare.runtime.log_lines import JsonFormatter, TextFormatter
from gcushare.runtime.safe_directory import UnsafePathError
from gcushare.runtime.settings.log import LogFormat, LogSettings

logger = logging.getLogger(__name__)

_PACKAGE = "gcushare"
_UNUSED_FACTS = ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks")
"""Facts that ``logging`` collects for every line, some with a system call, and that neither of our formats shows."""


class LogHandle:
    """The log of a program. SIGUSR1 and SIGUSR2 change its level; closing restores the previous state."""

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
        """Switch our own loggers to debug, or back to the configured level."""
        level = logging.DEBUG if is_debug else self._levels[_PACKAGE]
        if level == logging.getLogger(_PACKAGE).level:
            return
        # Logged at the finer of both levels, so that the log shows each change.
        logging.getLogger(_PACKAGE).setLevel(min(level, logging.INFO))
        logger.info("log level changed %s", fields(level=logging.getLevelName(level).lower()))
        logging.getLogger(_PACKAGE).setLevel(level)

    def close(self) -> None:
        """Remove the handlers and close the file. Repeatable."""
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
    """Send the lines of all loggers to stderr and to ``<log_dir>/<program>.log``.

    Our own loggers follow ``log_level``. Those of libraries stay at info or above, because their debug lines contain
    bodies of requests.

    Effects: creates the directory. If it is not writable, or writable by others, logs a warning and writes the file
    once that is corrected. Log records no longer have their process and thread.
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
