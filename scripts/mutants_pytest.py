"""How pytest runs the tests of a mutant: the cheap ones first, and no search for the smallest example that fails.

Only whether a test fails counts there: the first failure ends the run, and most mutants fail a test of a few
milliseconds before any property is tried. Loaded by ``scripts/mutants.py`` with ``-p``.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Few examples, the same ones in every run, taken as they are."""
    settings.register_profile(
        "mutants",
        settings.get_profile("any machine"),
        max_examples=30,
        phases=(Phase.explicit, Phase.generate),
        derandomize=True,
        database=None,
    )
    settings.load_profile("mutants")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the property tests behind the others."""
    items.sort(key=lambda item: item.get_closest_marker("hypothesis") is not None)
