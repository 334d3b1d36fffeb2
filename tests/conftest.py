"""What every test run needs, wherever it was started from."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# A property holds however slow the machine is: hypothesis's own limits, 200 ms an example and a second for making ten,
# fail on busy ones. 25 examples each time find what 50 would find one run later; a night tries 200. What decides
# whether a change lands tries the same examples each time: it judges the change, and a failure is repeated by running
# it again.
ANY_MACHINE = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
TIMES = int(os.environ.get("TIMES") or 1)
settings.register_profile("any machine", ANY_MACHINE, derandomize="CI" in os.environ)
settings.register_profile("deep", ANY_MACHINE, derandomize=False, max_examples=200)
settings.register_profile("fuzz", ANY_MACHINE, derandomize=False, max_examples=TIMES, print_blob=True)
settings.load_profile("any machine")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts jobs in the background deaf to Ctrl-C, and programs under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs refuse directories that a group can write, which a umask of 0002 makes of those that tests make.
os.umask(0o022)


# Six thousand tests are many objects that live to the end: looking through them again and again for garbage takes a
# tenth of the processor time of a run.
gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a file's tests to one worker, but for slow ones: a message for each test takes longer than most tests."""
    for item in items:
        if not (item.get_closest_marker("xdist_group") or item.get_closest_marker("slow")):
            item.add_marker(pytest.mark.xdist_group(item.path.name))


def pytest_collection_finish() -> None:
    """Look for garbage again from here on, among what the tests make."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """Two workers for each processor: many tests wait for a process or for a deadline."""
    return 2 * len(os.sched_getaffinity(0))
