"""What the tests rely on of the tools that run them."""

from __future__ import annotations

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process has every group: run with -n 2")
@pytest.mark.xdist_group("whoever shares a cluster")
def test_a_group_of_tests_stays_on_one_worker(request: pytest.FixtureRequest) -> None:
    """Lost once to a new pytest without a word: every shared cluster was then started by every worker."""
    assert request.node.nodeid.endswith("@whoever shares a cluster")
