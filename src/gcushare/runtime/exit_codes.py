"""The exit codes of all programs: one table for ``--help``, and the code of each error."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from gcushare.core.errors import ConfigError, GcushareError, RetryableError

DONE = 0
FAILED = 1
MISUSED = 2
# The two codes of sysexits.h that scripts and supervisors already know.
INTERNAL_ERROR = os.EX_SOFTWARE
TRY_AGAIN = os.EX_TEMPFAIL
SIGNALLED = 128
CLOSED_PIPE = SIGNALLED + signal.SIGPIPE

EXIT_STATUS: Mapping[int | str, str] = {
    DONE: "Done.",
    FAILED: "Refused, not found, or failed; the reason is on stderr.",
    MISUSED: "Wrong arguments, settings or files; every problem is on stderr.",
    INTERNAL_ERROR: "A defect of the program; the stack is on stderr.",
    TRY_AGAIN: "A peer did not answer or asked to wait; the same call may succeed later.",
    "128+N": "Ended by signal N before it could finish: 130 by Ctrl-C, 141 if the reader of its output has gone.",
}

# The first match wins, so a subclass comes before its base class.
_BY_ERROR: tuple[tuple[type[GcushareError], int], ...] = (
    (ConfigError, MISUSED),
    (RetryableError, TRY_AGAIN),
    (GcushareError, FAILED),
)


def exit_code_for(error: BaseException) -> int:
    return next((code for family, code in _BY_ERROR if isinstance(error, family)), INTERNAL_ERROR)
