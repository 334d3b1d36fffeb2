"""A bind service over a state that has seen a cluster, for tests of what becomes of Bindings."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest

from gcushare.core.assignments import PodRef
from gcushare.core.errors import RetryableError
from gcushare.scheduler_extender.leadership import AlwaysLeader
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.vendors import ENFLAME
from gcushare.wire.extender_api import BindArguments
from gcushare.wire.objects import Pod
from tests.extender_objects import a_node, state_of
from tests.unit.extender_cluster import Cluster, Mishap

QUICK = BindTimes(total_s=0.3, attempt_s=0.1)
REQUEST_S = 0.02
ALWAYS = 100
"""A mishap so often befalls every attempt."""


@dataclass
class Office:
    """A leadership that can be taken away, at once or after so many questions."""

    is_leader: bool = True
    is_catching_up: bool = False
    holder: str = "another"
    questions_left: int = 1_000_000
    margins: list[float] = field(default_factory=list)

    def holds(self, margin_s: float) -> bool:
        self.margins.append(margin_s)
        self.questions_left -= 1
        return self.is_leader and self.questions_left >= 0


class Rig:
    """A state that has seen a cluster, and a bind service over both."""

    def __init__(
        self, *pods: Pod, cards: tuple[int, ...] = (16, 16), office: Office | None = None, times: BindTimes = QUICK
    ) -> None:
        self.state = state_of(a_node("node-1", *cards), a_node("node-2", *cards))
        self.cluster = Cluster(*pods)
        self.cluster.tell(self.state)
        self.office = office or Office()
        self.service = BindService(
            self.state,
            self.cluster.client,
            self.office,
            times=times,
            monotonic=self.now_s,
            now_ns=lambda: 1_000 + len(self.cluster.bindings),
        )

    def now_s(self) -> float:
        """Each request takes as long as any other, however busy this machine is."""
        return REQUEST_S * (len(self.cluster.bindings) + self.cluster.reads)

    async def bind(self, name: str = "a", node: str = "node-1", uid: str | None = None) -> None:
        await self.service.bind(BindArguments(PodRef(uid or f"uid-{name}", "default", name), node))

    async def begin(self, name: str = "a") -> tuple[asyncio.Task[None], asyncio.Event]:
        """Begin a bind whose Binding stays on its way until the event is set."""
        self.cluster.bindings_travel = arrives = asyncio.Event()
        binding = asyncio.create_task(self.bind(name))
        while not self.cluster.bindings:  # noqa: ASYNC110 - a few turns of the loop
            await asyncio.sleep(0)
        return binding, arrives

    async def lose(self, name: str = "a", node: str = "node-1", *, done: bool = False) -> None:
        """Leave a pod whose Binding no one knows the outcome of; ``done`` says what became of it."""
        self.cluster.mishaps.extend([Mishap.LOST_AFTER if done else Mishap.LOST_BEFORE, *[Mishap.NOT_SENT] * ALWAYS])
        self.cluster.read_mishaps.extend([Mishap.LOST_BEFORE] * ALWAYS)
        with pytest.raises(RetryableError):
            await self.bind(name, node)
        self.cluster.mishaps.clear()
        self.cluster.read_mishaps.clear()

    def used(self, node: str = "node-1") -> list[int]:
        return [card.used for card in self.state.ledger.nodes[node].cards.values()]

    def recorded(self) -> Counter[tuple[str, str]]:
        """Units by node and card, as the records of the cluster's pods say."""
        sums: Counter[tuple[str, str]] = Counter()
        for pod in self.cluster.pods.values():
            if pod.is_bound:
                written = pod.metadata.annotations
                card = written[ENFLAME.record.card_index]
                sums[pod.spec.node_name or "", card] += int(written[ENFLAME.record.pod_units])
        return sums

    def check_truth(self) -> None:
        """No card is recorded beyond its size, and once the watch showed all, the ledger is what a fresh one would be.

        The first is read from the cluster alone: a ledger that gave a card away twice counts the same afterwards.
        """
        assert {card: units for card, units in self.recorded().items() if units > 16} == {}
        self.cluster.tell(self.state)
        fresh = state_of(a_node("node-1", 16, 16), a_node("node-2", 16, 16))
        self.cluster.tell(fresh)
        for node in ("node-1", "node-2"):
            assert self.used(node) == [card.used for card in fresh.ledger.nodes[node].cards.values()]
        assert not self.state.ledger.reserved


async def bind_once(state: VendorState, pod: Pod, node: str = "node-1") -> Pod:
    """Bind a pod of a cluster that has no other; returns it as it is then, as the watch has shown it."""
    cluster = Cluster(pod)
    meta = pod.metadata
    state.pod_applied(pod)
    service = BindService(state, cluster.client, AlwaysLeader())
    await service.bind(BindArguments(PodRef(meta.uid, meta.namespace, meta.name), node))
    bound = cluster.pods[meta.namespace, meta.name]
    state.pod_applied(bound)
    return bound
