"""Pods that are bound, or being bound, and that the kubelet has not admitted yet: its calls for them still come.

These calls name no pod (see ``core.matching``). So of two pods whose calls are alike and whose answers are not, the
second may be bound to a node only once the first has started there.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from gcushare.core.assignments import PodRef
from gcushare.core.ledger import Ledger
from gcushare.core.matching import KubeletCalls
from gcushare.core.nodes import NodeState


class StartingPods:
    """The starting pods of one vendor by node, those that came first first.

    The ledger says when a pod stops to be one: it is assigned, or its reservation is gone. ``forget`` is for what the
    ledger does not show.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._of_node: dict[str, dict[str, KubeletCalls]] = {}
        self._nodes: dict[KubeletCalls, Counter[str]] = {}
        """The pods per node, by their calls: most pods of a cluster have equal ones."""
        self._of_amount: dict[tuple[bool, int], set[KubeletCalls]] = {}
        self._changed = asyncio.Event()
        ledger.listen(self._on_ledger_change)

    def add(self, uid: str, node: str, calls: KubeletCalls) -> None:
        """Add a pod that has an assignment in the ledger; a known one keeps its place."""
        pods = self._of_node.setdefault(node, {})
        if pods.get(uid) == calls:
            return
        self._count(pods.get(uid), node, -1)
        pods[uid] = calls
        self._count(calls, node, 1)

    def forget(self, uid: str, node: str) -> None:
        """Remove a pod that the kubelet has admitted; repeatable."""
        pods = self._of_node.get(node, {})
        calls = pods.pop(uid, None)
        if calls is None:
            return
        self._count(calls, node, -1)
        if not pods:
            del self._of_node[node]
        self._changed.set()
        self._changed = asyncio.Event()

    def busy_nodes(self, calls: KubeletCalls) -> frozenset[str]:
        """The nodes on which a pod with such calls would have to wait for another one to start. Mostly none."""
        others = {each for key in calls.amounts for each in self._of_amount.get(key, ()) if each != calls}
        return frozenset(node for each in others for node in self._nodes[each])

    def find_ahead(self, uid: str, node: str) -> PodRef | None:
        """The pod for whose start this one has to wait; None if there is none."""
        pods = self._of_node.get(node, {})
        calls = pods.get(uid)
        for other, its in pods.items():
            if calls is None or other == uid:
                return None
            if its.is_mistakable_for(calls) and (held := self._ledger.assignment(other)) is not None:
                return held.pod
        return None

    async def wait_turn(self, uid: str, node: str, within_s: float) -> PodRef | None:
        """Wait until no pod is ahead of this one; returns the one that still is after ``within_s``."""
        deadline = asyncio.get_running_loop().time() + within_s
        while (ahead := self.find_ahead(uid, node)) is not None:
            changed = self._changed
            try:
                async with asyncio.timeout_at(deadline):
                    await changed.wait()
            except TimeoutError:
                return ahead
        return None

    def _count(self, calls: KubeletCalls | None, node: str, change: int) -> None:
        if calls is None:
            return
        nodes = self._nodes.setdefault(calls, Counter())
        nodes[node] += change
        if not nodes[node]:
            del nodes[node]
        for key in calls.amounts:
            if nodes:
                self._of_amount.setdefault(key, set()).add(calls)
            else:
                self._of_amount[key].discard(calls)
                if not self._of_amount[key]:
                    del self._of_amount[key]
        if not nodes:
            del self._nodes[calls]

    def _on_ledger_change(self, node: NodeState) -> None:
        for uid in list(self._of_node.get(node.name, ())):
            held = node.assignments.get(uid)
            if held is None or held.assigned:
                self.forget(uid, node.name)
