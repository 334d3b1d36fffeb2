"""Pods that are bound, or being bound, and that the kubelet has not admitted yet: its calls for them still come.

These calls name no pod (see ``core.matching``). So of two pods whose calls are alike and whose answers are not, the
second may be bound to a node only once the first has started there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from gcushare.core.ledger import Ledger
from gcushare.core.matching import KubeletCalls
from gcushare.core.nodes import NodeState, PodRef


class StartingPods:
    """The starting pods of one vendor by node, those that came first first.

    The ledger says when a pod stops to be one: it is assigned, or its reservation is gone. ``forget`` is for what the
    ledger does not show.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._of_node: dict[str, dict[str, KubeletCalls]] = {}
        self._changed = asyncio.Event()
        ledger.listen(self._on_ledger_change)

    def add(self, uid: str, node: str, calls: KubeletCalls) -> None:
        """Add a pod that has an assignment in the ledger; a known one keeps its place."""
        self._of_node.setdefault(node, {})[uid] = calls

    def forget(self, uid: str, node: str) -> None:
        """Remove a pod that the kubelet has admitted; repeatable."""
        pods = self._of_node.get(node)
        if pods is None or pods.pop(uid, None) is None:
            return
        if not pods:
            del self._of_node[node]
        self._changed.set()
        self._changed = asyncio.Event()

    def busy_nodes(self, calls: KubeletCalls) -> frozenset[str]:
        """The nodes on which a pod with such calls would have to wait for another one to start. Mostly none."""
        return frozenset(
            node for node, pods in self._of_node.items() if any(each.is_mistakable_for(calls) for each in pods.values())
        )

    def find_ahead(self, uid: str, node: str) -> PodRef | None:
        """The pod for whose start this one has to wait; None if there is none."""
        for other in self._before(uid, node):
            held = self._ledger.assignment(other)
            if held is not None:
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

    def _before(self, uid: str, node: str) -> Iterator[str]:
        pods = self._of_node.get(node, {})
        calls = pods.get(uid)
        for other, its in pods.items():
            if calls is None or other == uid:
                return
            if its.is_mistakable_for(calls):
                yield other

    def _on_ledger_change(self, node: NodeState) -> None:
        for uid in list(self._of_node.get(node.name, ())):
            held = node.assignments.get(uid)
            if held is None or held.assigned:
                self.forget(uid, node.name)
