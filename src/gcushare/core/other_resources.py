"""Resources other than cards: what pods request of a node, what it is short of, and what is left on it.

For a person's question ``find_shortages`` has the sums of kube-scheduler's NodeResourcesFit, in thousandths, rounded up
as the scheduler rounds CPU, so that sums are integers.

For policies, ``SpareResources`` follows CPU and memory: a node without free CPU has idle cards that no pod can use. Its
figures only influence preferences, because kube-scheduler decides whether pods fit. So it is enough to count a pod once
the watch shows it as bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gcushare.core.quantities import parse_quantity
from gcushare.core.requests import ContainerKind, effective_request

PODS = "pods"
"""The resource that counts pods: every pod takes one."""

_BYTES = frozenset({"memory", "ephemeral-storage"})
_STEPS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource that a node is short of: requested, free and allocatable, in thousandths."""

    resource: str
    asked: int
    free: int
    total: int

    def __str__(self) -> str:
        asked, free, total = (show_amount(self.resource, each) for each in (self.asked, self.free, self.total))
        return f"{self.resource}: {asked} asked for, {free} of {total} free"


def thousandths(quantity: object) -> int:
    """Read a quantity as thousandths, rounded up.

    Raises:
        RemoteContractError: it is not a quantity.
    """
    return -int(-parse_quantity(quantity) * 1000 // 1)


def effective_requests(
    containers: Iterable[tuple[ContainerKind, Mapping[str, object]]],
    of_pod: Mapping[str, object],
    overhead: Mapping[str, object],
) -> dict[str, int]:
    """What a pod takes of each resource: the peak of its containers, or the amount set for the pod as a whole.

    ``overhead`` is what its RuntimeClass adds.

    Raises:
        RemoteContractError: a quantity is malformed.
    """
    rows = [(kind, {name: thousandths(amount) for name, amount in asked.items()}) for kind, asked in containers]
    names = {name for _, asked in rows for name in asked}
    found = {name: effective_request((kind, asked.get(name, 0)) for kind, asked in rows) for name in names}
    found |= {name: thousandths(amount) for name, amount in of_pod.items()}
    for name, amount in overhead.items():
        found[name] = found.get(name, 0) + thousandths(amount)
    return found | {PODS: 1000}


def find_shortages(
    asked: Mapping[str, int], allocatable: Mapping[str, object], taken: Iterable[Mapping[str, int]]
) -> tuple[Shortage, ...]:
    """Find what a node is short of for a pod, given what its other pods take. Ordered by resource name.

    Raises:
        RemoteContractError: a quantity of the node is malformed.
    """
    others = list(taken)
    found = []
    for name, amount in sorted(asked.items()):
        total = thousandths(allocatable.get(name, 0))
        free = total - sum(each.get(name, 0) for each in others)
        if amount > free and amount:
            found.append(Shortage(name, amount, max(free, 0), total))
    return tuple(found)


def show_amount(resource: str, amount: int) -> str:
    """Format thousandths as people write the resource: CPUs as a number, bytes with a suffix."""
    if resource in _BYTES or resource.startswith("hugepages-"):
        value, step = amount / 1000, 0
        while value >= 1024 and step + 1 < len(_STEPS):
            value, step = value / 1024, step + 1
        return f"{value:.4g}{_STEPS[step]}"
    return f"{amount / 1000:g}" if amount < 1_000_000_000 else str(amount // 1000)


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
        self.turnover = 0
        """How many pods came or left so far; one that changed did both."""

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call ``listener`` with a node's name after each change of what is left there."""
        self._listeners.append(listener)

    def update(self, node: str, amounts: Amounts | None) -> None:
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
        self.turnover += 1
        self._pods[uid] = taken
        self._add(taken.node, taken.amounts.cpu_milli, taken.amounts.memory_mib)

    def give_back(self, uid: str) -> None:
        """Stop counting a pod that has ended. Repeatable."""
        if (held := self._pods.pop(uid, None)) is not None:
            self.turnover += 1
            self._add(held.node, -held.amounts.cpu_milli, -held.amounts.memory_mib)

    def left(self, node: str) -> Amounts:
        """What is free on a node, never below 0; nothing if the node is unknown."""
        offered, taken = self._offered.get(node, NO_AMOUNTS), self._taken.get(node, NO_AMOUNTS)
        return Amounts(max(0, offered.cpu_milli - taken.cpu_milli), max(0, offered.memory_mib - taken.memory_mib))

    def asked_by(self, uid: str) -> Amounts:
        """What a bound pod requests; nothing if the pod is unknown."""
        held = self._pods.get(uid)
        return NO_AMOUNTS if held is None else held.amounts

    def was_scheduled(self, uid: str) -> bool:
        """Whether a scheduler chose the node of a bound pod."""
        held = self._pods.get(uid)
        return held is not None and not held.comes_with_node

    @property
    def pod_count(self) -> int:
        return len(self._pods)

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
