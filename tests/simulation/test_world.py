"""The simulated world: fixed seeds hold, a seed repeats, each invariant bites, and what fails is shrunk."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from simulation.hosts import HostsWorld
from simulation.run import run
from simulation.schedule import ADMINS, FAULTS, OUR_LEASE, USERS, Action, Schedule, make_schedule
from simulation.shrink import shrink

from gcushare.device_plugin.choices import Mode

SEEDS = (2, 31)
MORE_SEEDS = (0, 1, 3, *range(4, 31), *range(32, 40))
REPOSITORY = Path(__file__).parents[2]

CREATE = {"whole": 0, "init": 0, "priority": 0, "grace": 1, "zone": ""}
STORMS: dict[str, tuple[str, list[Action]]] = {
    "leads too long": (
        "one leader serves",
        [Action(40.0 + 30 * n, "pause", {"process": f"extender-{n}", "for_s": 14.0}) for n in range(3)],
    ),
    "dies of a name": (
        "no process ends by any input",
        [Action(30.0, "create", {"name": "p7", "units": [1], **CREATE})],
    ),
    "leaks tasks": (
        "nothing leaks",
        [Action(30.0 + n, "create", {"name": f"p{n}", "units": [1], **CREATE}) for n in range(16)],
    ),
    "gives twice": (
        "an id is given once",
        [Action(30.0 + n, "create", {"name": f"p{n}", "units": [4], **CREATE}) for n in range(4)],
    ),
    "refuses without reasons": (
        "every refused pod has a reason",
        [Action(30.0 + n, "create", {"name": f"p{n}", "units": [5], **CREATE}) for n in range(3)],
    ),
    "never corrects": (
        "what a kubelet holds is in the ledger",
        [
            Action(30.0, "ignore preference", {"node": 0, "for_s": 60.0}),
            Action(31.0, "create", {"name": "p1", "units": [2], **CREATE}),
        ],
    ),
    "refuses all": (
        "a pod that fits is bound within a bound",
        [Action(30.0, "create", {"name": "p1", "units": [8], **CREATE})],
    ),
    "keeps the dead": (
        "the ledger equals the API server's truth within a bounded lag",
        [
            *(Action(30.0 + n, "create", {"name": f"p{n}", "units": [2], **CREATE}) for n in range(6)),
            *(Action(60.0 + n, "force", {"which": 0.0}) for n in range(6)),
        ],
    ),
}
"""By the bug that is put in: what it violates, and the storm in which it does."""

PRINT_DIGEST = """
from simulation.run import run
from simulation.schedule import make_schedule
print(run(make_schedule(2, rounds=1)).digest)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.slow) for seed in MORE_SEEDS)])
def test_a_storm_leaves_every_invariant_standing(seed: int) -> None:
    outcome = run(make_schedule(seed, rounds=1))
    assert outcome.violation is None
    assert outcome.steps > 1_000


def planned(actions: list[Action], planted: str = "") -> Schedule:
    """One node with two cards of 8 units, and only these actions."""
    drawn = make_schedule(0, rounds=1, planted=planted)
    settings = replace(
        drawn.settings,
        nodes=((8, 8),),
        vendor="enflame",
        mode=Mode.MEMORY,
        old_scheduler=True,
        clock_drift=0.0,
        replicas=3,
        lease=OUR_LEASE,
    )
    return replace(drawn, settings=settings, actions=tuple(actions), rounds=((140.0, 270.0),))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", STORMS)
def test_an_invariant_bites(bug: str) -> None:
    invariant, actions = STORMS[bug]
    outcome = run(planned(actions, bug))
    assert outcome.violation is not None
    assert outcome.violation.invariant == invariant


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", STORMS)
def test_without_the_bug_the_same_storm_leaves_all_invariants_standing(bug: str) -> None:
    assert run(planned(STORMS[bug][1])).violation is None


@pytest.mark.timeout(300)
def test_a_seed_repeats_in_a_process_whose_hashes_differ() -> None:
    # This process has a hash seed of its own, drawn at its start.
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    program = [sys.executable, "-c", PRINT_DIGEST]
    done = subprocess.run(program, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == run(make_schedule(2, rounds=1)).digest


@pytest.mark.timeout(300)
def test_a_failing_schedule_is_cut_to_what_fails_and_its_history_can_be_read() -> None:
    others = [Action(25.0 + n, "create", {"name": f"a{n}", "units": [1], **CREATE}) for n in range(4)]
    schedule = planned(
        [*others, *STORMS["dies of a name"][1], Action(35.0, "delete", {"which": 0.5})], "dies of a name"
    )
    outcome = run(schedule)
    assert outcome.violation is not None
    short, _ = shrink(schedule, outcome.violation)
    assert [action.kind for action in short.actions] == ["create"]
    again = run(short, keeps_history=True)
    assert again.violation is not None
    assert any("VIOLATION" in line for line in again.history)
    assert any("> create name=p7" in line for line in again.history)


def test_every_kind_of_action_can_be_drawn_and_left_out() -> None:
    drawn = {action.kind for seed in range(60) for action in make_schedule(seed).actions}
    assert drawn == {*USERS, *ADMINS, *FAULTS}
    assert run(planned([])).violation is None


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))])
def test_schedulers_of_hosts_whose_disks_fail_are_as_wanted_after_calm(seed: int) -> None:
    world = HostsWorld(seed)
    world.run(rounds=1, storm_s=300.0)
    assert world.violations == []
    assert sum(world.faults.values()) > 5


def test_a_manifest_before_its_configuration_is_noticed() -> None:
    world = HostsWorld(0, unsafe_order=True)
    world.run(rounds=1)
    assert world.violations[0].startswith("every prefix leaves a scheduler that can start")
