"""What the tests rely on of the tools that run them."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("tests of one cluster")
def test_a_group_of_tests_stays_on_one_worker(request: pytest.FixtureRequest) -> None:
    """Lost once to a new pytest without a word: every shared cluster was then started by every worker."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("tests are not distributed by groups: run with -n 2 --dist loadgroup, as make test does")
    assert request.node.nodeid.endswith("@tests of one cluster")
