"""CPU and memory that pods leave free on nodes, for policies that prefer nodes where both cards and CPU are left.

A node without free CPU has idle cards that no pod can use. The figures only influence preferences: kube-scheduler
decides whether pods fit. So it is enough to count a pod once the watch shows it as bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Amounts(NamedTuple):
    """CPU in thousandths of a core, and memory in MiB."""

    cpu_milli: int = 0
    memory_mib: int = 0


NO_AMOUNTS = Amounts()


class Taken(NamedTuple):
    """What a bound pod requests. ``comes_with_node``: no scheduler chose the node.

    It runs on every node (a DaemonSet's pod or a static pod), or its author named the node and no kubelet has accepted
    it. It takes room, but is not typical of what pods ask for.
    """

    node: str
    amounts: Amounts
    comes_with_node: bool = False


class SpareResources:
    """What nodes offer and what their pods request. ``listen`` reports nodes whose free amounts changed."""

    def __init__(self) -> None:
        self._offered: dict[str, Amounts] = {}
        self._pods: dict[str, Taken] = {}
        self._taken: dict[str, Amounts] = {}
        self._listeners: list[Callable[[str], None]] = []

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call ``listener`` with a node's name after each change of what is left there."""
        self._listeners.append(listener)

    def offer(self, node: str, amounts: Amounts | None) -> None:
        """Set what a node offers to pods; None removes the node. Repeatable."""
        if self._offered.get(node) == amounts:
            return
        if amounts is None:
            del self._offered[node]
        else:
            self._offered[node] = amounts
        self._notify(node)

    def take(self, uid: str, taken: Taken) -> None:
        """Count a bound pod, in place of its previous amounts. Repeatable."""
        if self._pods.get(uid) == taken:
            return
        self.give_back(uid)
        self._pods[uid] = taken
        self._add(taken.node, taken.amounts.cpu_milli, taken.amounts.memory_mib)

    def give_back(self, uid: str) -> None:
        """Stop counting a pod that has ended. Repeatable."""
        if (held := self._pods.pop(uid, None)) is not None:
            self._add(held.node, -held.amounts.cpu_milli, -held.amounts.memory_mib)

    def left(self, node: str) -> Amounts:
        """What is free on a node, never below 0; nothing if the node is unknown."""
        offered, taken = self._offered.get(node, NO_AMOUNTS), self._taken.get(node, NO_AMOUNTS)
        return Amounts(max(0, offered.cpu_milli - taken.cpu_milli), max(0, offered.memory_mib - taken.memory_mib))

    def left_when_empty(self, node: str) -> Amounts:
        """What is free on a node on which only those pods run that come with it. Walks over all pods."""
        offered = self._offered.get(node, NO_AMOUNTS)
        staying = [each.amounts for each in self._pods.values() if each.node == node and each.comes_with_node]
        cpu_milli, memory_mib = (sum(amounts) for amounts in zip(NO_AMOUNTS, *staying, strict=True))
        return Amounts(max(0, offered.cpu_milli - cpu_milli), max(0, offered.memory_mib - memory_mib))

    def asked_by(self, uid: str) -> Amounts:
        """What a bound pod requests; nothing if the pod is unknown."""
        held = self._pods.get(uid)
        return NO_AMOUNTS if held is None else held.amounts

    def was_scheduled(self, uid: str) -> bool:
        """Whether a scheduler chose the node of a bound pod."""
        held = self._pods.get(uid)
        return held is not None and not held.comes_with_node

    @property
    def pods(self) -> frozenset[str]:
        """The uids of the pods that are counted."""
        return frozenset(self._pods)

    def all_taken(self) -> Iterator[tuple[str, Taken]]:
        """A snapshot of all pods with their amounts, by uid."""
        return iter(list(self._pods.items()))

    def _add(self, node: str, cpu_milli: int, memory_mib: int) -> None:
        before = self._taken.get(node, NO_AMOUNTS)
        now = Amounts(before.cpu_milli + cpu_milli, before.memory_mib + memory_mib)
        if now == NO_AMOUNTS:
            self._taken.pop(node, None)
        else:
            self._taken[node] = now
        if now != before:
            self._notify(node)

    def _notify(self, node: str) -> None:
        for listener in self._listeners:
            listener(node)
