"""CPU and memory that pods leave on nodes: what the cards of a node cannot tell of it.

A node whose CPU is spent has idle cards that no pod can use. Only a preference follows from this; that pods fit is
kube-scheduler's to know. So a pod counts from when the watch shows it bound, not from when its binding begins.
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
    """What a bound pod asks for. ``comes_with_node``: it is there wherever a node is; no node was chosen for it."""

    node: str
    amounts: Amounts
    comes_with_node: bool = False


class SpareResources:
    """What nodes offer and pods ask for. ``listen`` reports the nodes on which the difference changed."""

    def __init__(self) -> None:
        self._offered: dict[str, Amounts] = {}
        self._pods: dict[str, Taken] = {}
        self._taken: dict[str, Amounts] = {}
        self._listeners: list[Callable[[str], None]] = []

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call ``listener`` with a node's name after each change of what is left there."""
        self._listeners.append(listener)

    def offer(self, node: str, amounts: Amounts | None) -> None:
        """Say what a node offers to pods; None where it is gone. Repeatable."""
        if self._offered.get(node) == amounts:
            return
        if amounts is None:
            del self._offered[node]
        else:
            self._offered[node] = amounts
        self._tell(node)

    def take(self, uid: str, taken: Taken) -> None:
        """Say what a pod that is bound takes of its node; repeatable."""
        if self._pods.get(uid) == taken:
            return
        self.give_back(uid)
        self._pods[uid] = taken
        self._add(taken.node, taken.amounts.cpu_milli, taken.amounts.memory_mib)

    def give_back(self, uid: str) -> None:
        """Say that a pod has ended; repeatable."""
        if (held := self._pods.pop(uid, None)) is not None:
            self._add(held.node, -held.amounts.cpu_milli, -held.amounts.memory_mib)

    def left(self, node: str) -> Amounts:
        """What is left on a node, never below 0; nothing on one that is not known."""
        offered, taken = self._offered.get(node, NO_AMOUNTS), self._taken.get(node, NO_AMOUNTS)
        return Amounts(max(0, offered.cpu_milli - taken.cpu_milli), max(0, offered.memory_mib - taken.memory_mib))

    def asked_by(self, uid: str) -> Amounts:
        """What a bound pod asks for; nothing for one that is not known."""
        held = self._pods.get(uid)
        return NO_AMOUNTS if held is None else held.amounts

    @property
    def pods(self) -> frozenset[str]:
        """The uids of the pods that are counted."""
        return frozenset(self._pods)

    def all_taken(self) -> Iterator[tuple[str, Taken]]:
        """What every pod takes, by uid, as it is now."""
        return iter(list(self._pods.items()))

    def _add(self, node: str, cpu_milli: int, memory_mib: int) -> None:
        before = self._taken.get(node, NO_AMOUNTS)
        now = Amounts(before.cpu_milli + cpu_milli, before.memory_mib + memory_mib)
        if now == NO_AMOUNTS:
            self._taken.pop(node, None)
        else:
            self._taken[node] = now
        if now != before:
            self._tell(node)

    def _tell(self, node: str) -> None:
        for listener in self._listeners:
            listener(node)
