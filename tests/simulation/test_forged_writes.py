"""Forged writes and a damaged Secret in the simulated world: refused where policies are, and made good where not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from simulation.forgeries import SECRET_FAULTS
from simulation.run import Outcome, run
from simulation.schedule import Action, Schedule

from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import ROOM_FOUND
from tests.simulation.planted_storms import KUBELETS_ARE_RECORDED, create, planned

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
RECORD = {ENFLAME.record.card_index: "1"}
"""Of a pod that is on card 0."""


def forged(by: int | None, changes: dict[str, str], planted: str = "", *, has_policies: bool) -> Outcome:
    """A run with one pod, whose annotations are changed while it runs; ``by`` is whose token does it."""
    forges = Action(60.0, "forge record", {"node": by, "which": 0.0, "changes": changes})
    return run(of_policies((create(30.0, "p0", 2), forges), planted, has_policies=has_policies))


def of_policies(actions: tuple[Action, ...], planted: str = "", *, has_policies: bool) -> Schedule:
    schedule = planned(actions, planted)
    return replace(schedule, settings=replace(schedule.settings, has_policies=has_policies))


@pytest.mark.parametrize(
    ("by", "changes", "has_policies", "is_written"),
    [
        pytest.param(None, RECORD, True, False, id="an author, with policies"),
        pytest.param(None, RECORD, False, True, id="an author, without"),
        pytest.param(0, RECORD, True, True, id="the node's own token"),
        pytest.param(1, RECORD, True, False, id="another node's token, with policies"),
        pytest.param(1, RECORD, False, True, id="another node's token, without"),
        pytest.param(None, {ROOM_FOUND: "now"}, True, True, id="a note of room by an author"),
    ],
)
def test_forged_annotations_are_refused_or_corrected(
    by: int | None, changes: dict[str, str], *, has_policies: bool, is_written: bool
) -> None:
    outcome = forged(by, changes, has_policies=has_policies)
    assert outcome.violation is None
    assert (outcome.counts["forged writes"], outcome.counts["forged writes refused"]) == (is_written, not is_written)


def test_a_forged_record_that_no_program_corrects_is_noticed() -> None:
    violation = forged(None, RECORD, "never corrects", has_policies=False).violation
    assert violation is not None
    assert violation.invariant == KUBELETS_ARE_RECORDED


@pytest.mark.parametrize("text", [None, "x", '{"version":1,"unit":"1","cards":[]}'])
def test_a_forged_inventory_is_published_again(text: str | None) -> None:
    forges = Action(60.0, "forge inventory", {"node": 0, "of": 0, "text": text})
    later = create(100.0, "p1", 4)
    outcome = run(of_policies((create(30.0, "p0", 2), forges, later), has_policies=True), keeps_history=True)
    assert outcome.violation is None
    assert any("node-0 runs default/p1" in line for line in outcome.history)


@pytest.mark.parametrize("how", SECRET_FAULTS)
def test_a_damaged_secret_is_whole_after_calm(how: str) -> None:
    args: dict[str, Any] = {"how": how, "for_s": 30.0}
    outcome = run(of_policies((Action(60.0, "secret", args),), has_policies=True))
    assert outcome.violation is None


def test_a_secret_that_is_not_whole_is_noticed() -> None:
    damaged = of_policies((Action(69.9, "secret", {"how": "half written", "for_s": 30.0}),), has_policies=True)
    violation = run(replace(damaged, rounds=((70.0, 71.0),))).violation  # replicas check once a minute
    assert violation is not None
    assert violation.invariant == "the scheduler's certificates are whole after calm"
