"""What every test run needs, wherever it was started from."""

from __future__ import annotations

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts jobs in the background deaf to Ctrl-C, and programs under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs refuse directories that a group can write, which a umask of 0002 makes of those that tests make.
os.umask(0o022)


def pytest_xdist_auto_num_workers() -> int:
    """Half as many workers again as there are processors: many tests wait for a process or for a deadline."""
    processors = len(os.sched_getaffinity(0))
    return processors + processors // 2
