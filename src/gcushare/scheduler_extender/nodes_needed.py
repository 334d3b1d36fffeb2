"""Count the nodes that the waiting pods need: for HTTP when it is asked for, for the metrics from time to time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import islice

from gcushare.core.errors import NotFoundError, RetryableError
from gcushare.core.nodes import PodRef
from gcushare.core.other_resources import SpareResources
from gcushare.core.packing.nodes_needed import (
    ANY_AMOUNTS,
    NodeClasses,
    NodeCount,
    NodesNeeded,
    NodesNeededDocument,
    PodKind,
    describe_class,
    empty_like,
    make_nodes_needed,
    parse_class,
)
from gcushare.scheduler_extender.cooperative_yield import CooperativeYield
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState

COUNT_INTERVAL_S = 15.0
"""Between two counts for the metrics: what Prometheus scrapes more often shows no change."""
_MAX_CLASSES = 16
_MAX_CALLERS = 16
"""Callers that may wait for a count; a count of 5,000 nodes takes a fraction of a second."""
_KINDS_PER_TURN = 512
"""Kinds of pods compared with a node before other tasks get a turn, some 0.5 us each."""
_KINDS_OF_A_NAME, _KINDS_OF_A_POD = 16, 64
"""What it costs to name a node's class, and to place a pod, in the same unit."""
_EVERY_PRIORITY = PodRef("", "", "", priority=-(2**31))


class NodesNeededService:
    """Counts for one vendor, one caller after the other. ``latest`` is the last count for the metrics."""

    def __init__(self, state: VendorState, spare: SpareResources) -> None:
        self._state = state
        self._spare = spare
        self._lock = asyncio.Lock()
        self._callers = 0
        self.latest: NodesNeededDocument | None = None

    async def run(self, serves: Callable[[], bool]) -> None:
        """Count every class from time to time while this replica ``serves`` the scheduler, until cancelled.

        Only the replica that serves knows which nodes kube-scheduler asked about.
        """
        while True:
            is_serving = serves()
            self.latest = await self.count() if is_serving else None
            await asyncio.sleep(COUNT_INTERVAL_S if is_serving else 1.0)

    async def count(self, like: str = "", pods: str = "") -> NodesNeededDocument:
        """Count nodes of one class, or of every class of the present nodes.

        ``like``: a node or a class. ``pods``: a namespace, or a pod as namespace/name; empty for all waiting pods.

        Raises:
            RemoteContractError: ``like`` is neither a node nor a class.
            NotFoundError: ``pods`` names no waiting pod.
            RetryableError: too many callers wait.
        """
        if self._callers >= _MAX_CALLERS:
            raise RetryableError(f"{_MAX_CALLERS} callers wait for a count of nodes already; try again in a moment")
        self._callers += 1
        try:
            async with self._lock:
                return await self._count(like, pods)
        finally:
            self._callers -= 1

    async def _count(self, like: str, pods: str) -> NodesNeededDocument:
        nodes = self._state.ledger.nodes
        classes, turns = NodeClasses(), CooperativeYield(_KINDS_PER_TURN)
        for present in list(nodes.values()):
            classes.add(present)
            await turns.after(_KINDS_OF_A_NAME)
        chosen = dict(islice(classes.choose(like).items(), _MAX_CLASSES))
        ahead = self._state.nominations.find_ahead(_EVERY_PRIORITY)
        preemptors = [each for few in ahead.values() for each in few if not each.group]
        counted = NodeCount(self._find_waiting(pods, {each.pod.uid for each in preemptors}))
        for name in sorted(nodes.keys() - {each.node for each in preemptors}):
            if not counted.left:
                break
            if (node := nodes.get(name)) is not None:
                placed = counted.use_present(node, self._spare.left(name))
                await turns.after(len(counted.left) + _KINDS_OF_A_POD * placed)
        found = []
        for name, alike in chosen.items():
            empty = empty_like(alike[0]) if alike else parse_class(name)
            spare = self._spare.left_when_empty(alike[0].name) if alike else ANY_AMOUNTS
            need = NodesNeeded()
            for step in counted.count_new(empty, spare):
                need = step
                await asyncio.sleep(0)
            found.append(describe_class(name, need, alike))
        return make_nodes_needed(counted, found)

    def _find_waiting(self, pods: str, nominated: set[str]) -> Counter[PodKind]:
        """The pods that wait for room, by kind: not those that are being bound, or for which others are ended."""
        state, kinds = self._state, Counter[PodKind]()
        reserved = state.ledger.reserved | nominated
        for uid, waiting in state.waiting.items():
            if pods and pods not in (waiting.pod.namespace, str(waiting.pod)):
                continue
            if isinstance(waiting, SchedulingRequest) and not waiting.is_gated and uid not in reserved:
                kinds[PodKind(waiting.cards, waiting.amounts, state.asked.get(uid))] += 1
        if "/" in pods and not kinds:
            raise NotFoundError(f"no pod {pods[:80]!r} waits for {state.vendor.device_word} cards")
        return kinds
