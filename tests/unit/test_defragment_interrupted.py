"""A plan's evictions, cut off at each and planned again at once: no pod goes beyond the plan, never two are away."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from gcushare.cli.defragment.cluster_state import ClusterState, make_state
from gcushare.cli.defragment.execute import Executed, Executor
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.nodes import PodRef
from gcushare.core.packing.defragment import plan_room
from gcushare.core.requests import CardRequest
from gcushare.kube.client import KubeClient
from gcushare.vendors import ENFLAME
from gcushare.wire.objects import Node, Pod
from tests.extender_objects import Document, node_document, on_card, pod_document
from tests.simulation.virtual_loop import run_virtually
from tests.unit.cut_off import CutOff, Ended, every_cut_off

GRACE_S, SCHEDULING_S = 2.0, 2.0
"""An evicted pod ends for so long; the one that is made in its place waits for so long before it is on a node."""

ROOM = CardRequest(16)
"""Two pods of gpu-1 have to go for it; as long as one of them ends there, three of gpu-4 could go instead."""
PODS = {
    "one": ("gpu-1", 5),
    "two": ("gpu-1", 6),
    "fixed-2": ("gpu-2", 10),
    "fixed-3": ("gpu-3", 11),
    "x": ("gpu-4", 4),
    "y": ("gpu-4", 4),
    "z": ("gpu-4", 4),
}
TARGETS = ("gpu-2", "gpu-3", "gpu-4", "gpu-1")
"""In the order in which this kube-scheduler prefers them."""


@dataclass
class Cluster:
    """API server, kubelets, controllers and scheduler in a few lines; they go on whatever becomes of the command."""

    cut_off: CutOff
    pods: dict[str, Document] = field(default_factory=dict)
    away: dict[str, float] = field(default_factory=dict)
    """Pods that were evicted and do not run again elsewhere yet, with the time of their eviction."""
    evicted: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    waits_for_room: bool = False
    """Whether the pod waits already for which room is made; it is then placed as soon as there is."""

    def __post_init__(self) -> None:
        self.nodes = [node_document(name, 16) for name in sorted(TARGETS)]
        for name, (node, units) in PODS.items():
            self._put(name, units, node, is_owned=not name.startswith("fixed"))
        if self.waits_for_room:
            self._put("large", ROOM.units, "", is_owned=False)

    async def look(self) -> ClusterState:
        self._go_on()
        nodes = [msgspec.convert(each, Node) for each in self.nodes]
        pods = [msgspec.convert(each, Pod) for each in self.pods.values()]
        return make_state(ClusterSnapshot(ENFLAME), nodes, pods, most_priority=0)

    async def evict_pod(self, pod: PodRef) -> None:
        self._go_on()
        with self.cut_off.write():
            assert not self.away, "never are two pods away"
            self.evicted.append(pod.name)
            self.away[pod.name] = asyncio.get_running_loop().time()
            self.pods[pod.name]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    def _go_on(self) -> None:
        """Catch up with the time that has passed."""
        for name, since_s in list(self.away.items()):
            passed_s = asyncio.get_running_loop().time() - since_s
            if passed_s >= GRACE_S and self.pods.pop(name, None) is not None:
                self._put(f"{name}-again", PODS[name][1], "", is_owned=True)
            if passed_s >= GRACE_S + SCHEDULING_S:
                units = PODS[name][1]
                node = next(node for node in TARGETS if self._held_on(node) + units <= 16)
                self._put(f"{name}-again", units, node, is_owned=True)
                del self.away[name]
        if self.waits_for_room and not self._held_on("gpu-1"):
            self._put("large", ROOM.units, "gpu-1", is_owned=False)

    def _held_on(self, node: str) -> int:
        held = [name for name, pod in self.pods.items() if pod["spec"].get("nodeName") == node]
        return sum(ROOM.units if name == "large" else PODS[name.removesuffix("-again")][1] for name in held)

    def _put(self, name: str, units: int, node: str, *, is_owned: bool) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
        more: dict[str, Any] = {"ownerReferences": [owner]} if is_owned else {}
        record = on_card(0, units) if node else None
        phase = "Running" if node else "Pending"
        self.pods[name] = pod_document(name, units, node=node, record=record, phase=phase, **more)

    def places(self) -> dict[str, str]:
        return {name: pod["spec"].get("nodeName", "") for name, pod in self.pods.items()}


async def make_room(cluster: Cluster) -> Executed | None:
    """What the command does: look, plan, carry out. None where there is room already."""
    executor = Executor(cast(KubeClient, cluster), cluster.look, cluster.reports.append, 300)
    state = await executor.read_when_settled()
    plan = plan_room(state.ledger, ROOM, state.found.movable, state.opened)
    assert plan is not None
    return await executor.carry_out(plan) if plan.moves else None


async def make_room_again(cluster: Cluster, after_s: float) -> Executed | None:
    """Give the command once more, so long after it was cut off."""
    try:
        return await make_room(cluster)
    except Ended:
        await asyncio.sleep(after_s)
        return await make_room(cluster)


def test_a_pod_that_waited_for_the_room_and_got_it_is_the_outcome_that_was_asked_for() -> None:
    cluster = Cluster(CutOff(), waits_for_room=True)
    done = run_virtually(make_room(cluster))
    assert done is not None
    assert (done.served, done.newcomers) == (("default/large",), ("default/large",))
    assert done.is_reached
    assert not done.has_room


def test_evictions_that_are_cut_off_at_any_of_them_end_as_undisturbed_ones() -> None:
    undisturbed = Cluster(CutOff())
    done = run_virtually(make_room(undisturbed))
    assert done is not None
    assert (done.is_reached, undisturbed.evicted) == (True, ["two", "one"])
    for cut_off in every_cut_off(undisturbed.cut_off.writes):
        for after_s in (0.0, GRACE_S, GRACE_S + SCHEDULING_S):
            cluster = Cluster(CutOff(cut_off.at, cut_off.has_effect))
            again = run_virtually(make_room_again(cluster, after_s))
            assert again is None or again.is_reached
            assert cluster.evicted == undisturbed.evicted, (cut_off, after_s)
            assert cluster.places() == undisturbed.places(), (cut_off, after_s)
