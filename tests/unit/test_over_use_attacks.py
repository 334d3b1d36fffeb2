"""What a pod's author or a driver may do to have a neighbour evicted, or to stay: each is tried, and has its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcushare.core.units import GIB
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.wire.pods import MACHINE_UID, MIRROR
from tests.extender_objects import a_pod, on_card
from tests.fake_proc import cgroup_of
from tests.unit.over_use_node import NODE, OverUseNode

ATTACKER = "0f3c8e5a-1b2c-4d3e-8f90-a1b2c3d4e5f6"
NEIGHBOUR = "11111111-2222-3333-4444-555555555555"


OUTSIDE = {
    "a group below its own": f"{cgroup_of(ATTACKER).strip()}/kubepods-pod{NEIGHBOUR.replace('-', '_')}.slice/x\n",
    "no pod's group": "0::/system.slice/x.service\n",
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
    await node.poll(3)
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
    node.use({42: 4})
    await node.poll(3)
    node.proc.end(42)
    node.start("p1", 42)
    node.use({42: 40})
    await node.poll(3)
    assert set(node.watch.over) == {node.uids["p1"]}
    assert [name for name, _, _ in node.heard.pods] == ["p1"]


async def test_a_forged_mirror_that_names_a_neighbours_uid_takes_none_of_its_figures(tmp_path: Path) -> None:
    """Who names the node may write a static pod's annotations: its uid on the machine is then the neighbour's."""
    node = OverUseNode(tmp_path)
    uid = node.uids["p0"]
    forged = {MIRROR: uid, MACHINE_UID: uid}
    node.store.pod_applied(a_pod("forged", 4, node=NODE, record=on_card(0, 4), annotations=forged))
    node.start("p0", 11)
    node.use({11: 9})
    await node.poll(3)
    assert set(node.watch.over) == {uid}


def test_allocations_are_in_doubt_on_their_own_card_alone(tmp_path: Path) -> None:
    """An author may start a pod a second, whose init container asks for a unit."""
    node = OverUseNode(tmp_path)
    for number in range(5):
        node.store.on_allocate("", "", {1: 1}, float(number))
    node.store.on_allocate("", "", {0: 2}, 9.0)
    node.watch.on_poll()
    assert node.store.unconfirmed_units() == {0: 2, 1: 5}


async def test_a_pod_without_a_grant_is_an_offender_and_keeps_no_card_from_being_judged(tmp_path: Path) -> None:
    node = OverUseNode(tmp_path)
    for name in ("helper", "unreadable"):
        node.store.pod_applied(a_pod(name, 0, node=NODE, uid=f"{len(name):08d}-0000-4000-8000-000000000000"))
        node.uids[name] = f"{len(name):08d}-0000-4000-8000-000000000000"
    node.start("p0", 11)
    node.start("helper", 31)
    node.use({11: 40, 31: 0.3})
    await node.poll(2)
    assert set(node.watch.over) == {node.uids["p0"], node.uids["helper"]}
    assert node.watch.cards[0].unknown == 0
    assert node.watch.figures[node.uids["helper"], 0].granted == 0
    node.store.pod_deleted(node.uids["helper"])
    await node.poll()
    assert set(node.watch.over) == {node.uids["p0"]}
    assert node.watch.cards[0].unknown == 0, "its containers run on, and still its memory is no process of the host's"


async def test_where_others_hand_out_the_cards_too_a_pod_without_a_grant_is_not_judged(tmp_path: Path) -> None:
    node = OverUseNode(tmp_path)
    node.watch.hands_out_alone = lambda: False
    uid = "00000009-0000-4000-8000-000000000000"
    node.store.pod_applied(a_pod("other", 0, node=NODE, uid=uid))
    node.proc.start_in_pod(31, uid)
    node.use({31: 3})
    await node.poll(3)
    assert node.watch.over == {}


async def test_processes_that_end_before_their_pod_is_found_are_no_unknown_ones(tmp_path: Path) -> None:
    """An author may start one after the other that lives for some milliseconds."""
    node = OverUseNode(tmp_path)
    node.start("p0", 11)
    node.use({11: 40, 12: 5, 13: 5})
    await node.poll()
    assert (node.watch.cards[0].unknown, node.watch.cards[0].in_use) == (0, 40 * GIB)
    node.proc.start(12, "0::/system.slice/x.service\n")
    await node.poll()
    assert (node.watch.cards[0].unknown, node.watch.cards[0].in_use) == (5 * GIB, 45 * GIB)


def test_a_pod_that_needs_no_cards_and_got_some_has_what_the_kubelet_gave_it(tmp_path: Path) -> None:
    node = OverUseNode(tmp_path)
    uid = "00000009-0000-4000-8000-000000000000"
    node.store.pod_applied(a_pod("other", 0, node=NODE, uid=uid))
    node.store.on_kubelet_read(KubeletAllocations(memory={"default/other": {"main": {0: 3}}}))
    node.store.find_unrecorded(0.0)
    assert node.store.everyone[uid].units_by_card() == {0: 3}


async def test_a_card_that_the_last_poll_could_not_read_tells_nothing_of_its_pods(tmp_path: Path) -> None:
    node = OverUseNode(tmp_path)
    node.start("p0", 100)
    node.use({100: 5})
    await node.poll()
    node.source.fails = True
    await node.poll(3)
    assert node.watch.figures == {}
    assert node.heard.pods == []
    node.source.fails = False
    await node.poll()
    assert [reason for _, reason, _ in node.heard.pods] == ["OverUse"]
