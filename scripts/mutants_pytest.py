"""How pytest runs the tests of a mutant: the cheap ones first, and no search for the smallest example that fails.

Only whether a test fails counts there: the first failure ends the run, and most mutants fail a test of a few
milliseconds before any property is tried. Loaded by ``scripts/mutants.py`` with ``-p``.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from types import FrameType

import pytest
from hypothesis import HealthCheck, Phase, settings

TEST_S, PROPERTY_S = 10.0, 200.0
"""Processor time after which a test is taken to be without end, which is how some mutants fail. Not the clock's time,
which a busy machine spends on others; the tests take a tenth of it at most."""


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Few examples, the same ones in every run, taken as they are."""
    settings.register_profile(
        "mutants",
        settings.get_profile("any machine"),
        max_examples=200,
        phases=(Phase.explicit, Phase.generate),
        derandomize=True,
        database=None,
        # mutmut runs the tests twice in one process, so a property in a class meets two instances of it.
        suppress_health_check=(HealthCheck.differing_executors,),
    )
    settings.load_profile("mutants")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the property tests behind the others."""
    items.sort(key=_is_property)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """End a test that does not end."""
    before = signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, PROPERTY_S if _is_property(item) else TEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class _EndlessError(BaseException):
    """No ``Exception``, which tested code may catch."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise _EndlessError


def _is_property(item: pytest.Item) -> bool:
    return item.get_closest_marker("hypothesis") is not None
