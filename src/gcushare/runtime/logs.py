"""Sets up a program's log: stderr, and a bounded local file that outlives the program's container.

The thread that logs a line writes it. A queue with a writer thread was measured and rejected: under one interpreter
lock it costs more per line (91 instead of 50 microseconds, worst case 6 instead of 0.5 milliseconds), and a killed
process would lose its last lines, which explain why.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
        file = settings.log_dir / f"{program}.log"
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
