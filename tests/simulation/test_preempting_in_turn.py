"""Pods preempt: one after the other, while the first one's victim is proposed again, and while one is spared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulation.run import run
from simulation.schedule import Action

from tests.simulation.planted_storms import create, planned

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
GRACE_S = 20
RUNS = ("node-0 runs default/first", "node-0 runs default/second")


def pod(at_s: float, name: str, priority: int) -> Action:
    """One that needs a whole card of the node's two."""
    action = create(at_s, name, 8, GRACE_S)
    return replace(action, args={**action.args, "priority": priority})


def test_each_preemptor_has_a_victim_of_its_own_and_neither_waits_for_the_others() -> None:
    storm = (pod(30.0, "low-0", 0), pod(31.0, "low-1", 0), pod(50.0, "first", 100), pod(53.0, "second", 100))
    outcome = run(planned(storm), keeps_history=True)

    assert outcome.violation is None
    assert outcome.counts["preemptions"] == 2
    happened = [line.strip().partition("  ") for line in outcome.history]
    ran_s = [float(at_s) for at_s, _, words in happened if words.startswith(RUNS)]
    assert len(ran_s) == 2
    assert max(ran_s) < 53 + GRACE_S + 5, "not one grace period after the other"


def test_the_older_of_two_that_are_equal_is_spared_if_the_sums_let_it() -> None:
    storm = (pod(30.0, "older", 0), pod(31.0, "younger", 0), pod(50.0, "first", 100))
    outcome = run(planned(storm), keeps_history=True)

    assert outcome.violation is None
    assert any("default/first preempts 1 pods" in line for line in outcome.history)
    deleted = [line.split()[-5] for line in outcome.history if "api: deleted pods" in line]
    assert deleted[0] == "default/younger"
