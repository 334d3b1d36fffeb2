"""The simulated nodes that serve claims: fixed seeds hold, a seed repeats, and each invariant bites."""

from __future__ import annotations

import pytest
from simulation.claims_schedule import CLAIM_BUGS, KINDS, NUMBER_KINDS, make_claims_schedule
from simulation.run import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
BITES = {
    "counts no pod": (1, "no card is given beyond its size"),
    "forgets what it prepared": (0, "what runs has its share"),
    "leaves files": (0, "no card is given beyond its size"),
    "keeps templates": (0, "everything settles"),
    "leads without a lease": (0, "one replica leads"),
    "keeps orphans": (4, "no share without a claim"),
    "trusts late answers": (0, "the deleted stay deleted"),
    "mixes up names": (1, "no process ends by any input"),
}


def test_a_storm_leaves_every_invariant_standing() -> None:
    """Its driver numbers the cards differently while its library answers late."""
    outcome = run(make_claims_schedule(2, rounds=2))
    assert outcome.violation is None
    assert outcome.counts["pods run"] > 10
    assert outcome.counts["NodeUnprepareResources ok"] > 10


@pytest.mark.parametrize("bug", CLAIM_BUGS)
def test_an_invariant_bites(bug: str) -> None:
    seed, invariant = BITES[bug]
    outcome = run(make_claims_schedule(seed, rounds=1, planted=bug))
    assert outcome.violation is not None
    assert outcome.violation.invariant == invariant


def test_a_seed_repeats_and_every_kind_of_action_is_drawn() -> None:
    first, second = (run(make_claims_schedule(7, rounds=1)) for _ in range(2))
    assert first == second
    assert first.violation is None
    drawn = {action.kind for seed in range(5) for action in make_claims_schedule(seed).actions}
    assert drawn == KINDS.keys() | NUMBER_KINDS
