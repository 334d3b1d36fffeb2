"""What a pod's author or a driver may do to have a neighbour evicted, or to stay: each is tried, and has its bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gcushare.cards.process_owners import ProcessOwners
from gcushare.core.nodes import PodRef
from gcushare.core.over_use.eviction import CardReading, Offender, When, decide
from gcushare.core.over_use.tracking import Figures, OverUseTracker
from gcushare.core.units import GIB
from gcushare.device_plugin.pods.pod import MIRROR, STATIC_POD_UID
from tests.builders import TOLERANCE
from tests.extender_objects import a_pod, on_card
from tests.fake_proc import FakeProc, cgroup_of
from tests.unit.over_use_node import NODE, OverUseNode

ATTACKER = "0f3c8e5a-1b2c-4d3e-8f90-a1b2c3d4e5f6"
NEIGHBOUR = "11111111-2222-3333-4444-555555555555"
PLACE = (ATTACKER, 0)


def test_a_process_in_a_group_named_like_a_neighbours_pod_stays_the_pods_own(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    own = cgroup_of(ATTACKER).strip()
    for pid, forged in enumerate((f"pod{NEIGHBOUR}", f"kubepods-pod{NEIGHBOUR.replace('-', '_')}.slice"), 42):
        proc.start(pid, f"{own}/{forged}/x\n")
    assert ProcessOwners(proc.root).find([42, 43]) == {42: ATTACKER, 43: ATTACKER}


def test_a_process_that_moves_to_a_neighbours_group_stays_whose_it_was(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    owners = ProcessOwners(proc.root)
    proc.start_in_pod(42, ATTACKER)
    owners.find([42])
    (proc.root / "42" / "cgroup").write_text(cgroup_of(NEIGHBOUR))
    assert owners.find([42]) == {42: ATTACKER}


OUTSIDE = {
    "a group below its own": f"{cgroup_of(ATTACKER).strip()}/kubepods-pod{NEIGHBOUR.replace('-', '_')}.slice/x\n",
    "no pod's group": "0::/system.slice/x.service\n",
    "the root": "0::/\n",
    "a removed pod's": "0::/kubepods/burstable/pod99999999-2222-3333-4444-555555555555/x (deleted)\n",
    "two pods' at once": f"3:cpu:/kubepods/pod{ATTACKER}/x\n2:memory:/kubepods/pod{NEIGHBOUR}/x\n",
}


@pytest.mark.parametrize("group", OUTSIDE.values(), ids=OUTSIDE)
async def test_a_process_that_changes_its_group_before_the_first_poll_is_never_counted_to_a_neighbour(
    tmp_path: Path, group: str
) -> None:
    """The kernel lets no process into the neighbour's own group without a writable host: root on the node."""
    node = OverUseNode(tmp_path)
    node.start("p1", 21)
    node.proc.start(11, group.replace(ATTACKER, node.uids["p0"]).replace(NEIGHBOUR, node.uids["p1"]))
    node.use({11: 40, 21: 4})
    for _ in range(3):
        await node.poll()
    assert node.uids["p1"] not in node.watch.over
    found = node.pod_use.latest
    assert found is not None
    own = found.by_pod.get(node.uids["p0"], {}).get(0, 0)
    assert own + found.unattributed[0] == 40 * GIB


async def test_a_process_that_takes_a_neighbours_id_between_two_polls_brings_its_memory_to_its_own_pod(
    tmp_path: Path,
) -> None:
    """A pod with hostPID sees the ids, and forks until it has the one of a process that just ended."""
    node = OverUseNode(tmp_path)
    node.start("p0", 42)
    node.use({42: 4}, peaks={42: 4})
    for _ in range(3):
        await node.poll()
    node.proc.end(42)
    node.start("p1", 42)
    node.use({42: 40}, peaks={42: 40})
    for _ in range(3):
        await node.poll()
    assert set(node.watch.over) == {node.uids["p1"]}
    assert [name for _, _, name in node.events.posted] == ["p1"]


async def test_a_forged_mirror_that_names_a_neighbours_uid_takes_none_of_its_figures(tmp_path: Path) -> None:
    """Who names the node may write a static pod's annotations: its uid on the machine is then the neighbour's."""
    node = OverUseNode(tmp_path)
    uid = node.uids["p0"]
    forged = {MIRROR: uid, STATIC_POD_UID: uid}
    node.store.on_pod_update(a_pod("forged", 4, node=NODE, record=on_card(0, 4), annotations=forged))
    node.start("p0", 11)
    node.use({11: 9})
    for _ in range(3):
        await node.poll()
    assert set(node.watch.over) == {uid}


@pytest.mark.parametrize("polls", [2, 3])
def test_memory_that_is_freed_before_every_second_poll_is_never_an_over_use(polls: int) -> None:
    """It is the known limit of polling: fewer polls in a row (overUse.looks: 1) report it."""
    over, within = Figures(8 * GIB, 4 * GIB), Figures(GIB, 4 * GIB)
    tracker, strict = OverUseTracker(TOLERANCE, polls=polls), OverUseTracker(TOLERANCE, polls=1)
    began = 0
    for number in range(100):
        figures = {PLACE: over if number % 2 else within}
        assert tracker.take(figures, {ATTACKER}, float(number)) == []
        began += bool(strict.take(figures, {ATTACKER}, float(number)))
    assert began == 99, "with one poll every change is reported"


def test_where_the_library_keeps_accounts_what_was_freed_before_the_poll_is_reported() -> None:
    tracker = OverUseTracker(TOLERANCE, polls=2)
    for number in range(2):
        tracker.take({PLACE: Figures(GIB, 4 * GIB, peak=8 * GIB)}, {ATTACKER}, float(number))
    assert PLACE in tracker.over


def _refused(name: str, used: int) -> Offender:
    return Offender(PodRef(f"uid-{name}", "default", name), 0, Figures(used * GIB, 4 * GIB))


def _card(*offenders: Offender) -> CardReading:
    figures = {each.pod.uid: each.figures for each in offenders} | {"n": Figures(0, 8 * GIB)}
    return CardReading(0, 16 * GIB, sum(each.used for each in figures.values()), 0, figures)


def test_a_pod_whose_eviction_is_refused_for_ever_does_not_protect_the_next_one() -> None:
    worst, next_worst = replace(_refused("worst", 8), refused_lately="a budget refuses"), _refused("next", 6)
    found = decide([worst, next_worst], {0: _card(worst, next_worst)}, When.DANGER)
    assert found.victim == next_worst
    assert found.passed_over["default/worst"] == "a budget refuses"


def test_a_pod_within_its_grant_is_never_chosen_for_the_shortage_that_another_makes() -> None:
    worst = replace(_refused("worst", 14), refused_lately="a budget refuses")
    modest = Offender(PodRef("uid-modest", "default", "modest"), 0, Figures(4 * GIB, 4 * GIB, peak=9 * GIB))
    assert decide([worst, modest], {0: _card(worst, modest)}, When.ALWAYS).victim is None


@pytest.mark.parametrize("when", list(When))
def test_no_pod_is_evicted_if_the_driver_reports_more_for_processes_than_for_the_card(when: When) -> None:
    greedy = _refused("greedy", 9)
    card = _card(greedy)
    assert decide([greedy], {0: card}, When.ALWAYS).victim == greedy
    found = decide([greedy], {0: replace(card, in_use=8 * GIB)}, when)
    assert found.victim is None
    assert "1.00 GiB more than it has in use" in found.passed_over["default/greedy"]
