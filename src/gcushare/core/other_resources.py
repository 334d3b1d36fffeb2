"""A pod's requests other than cards, and what a node is short of: the sums of kube-scheduler's NodeResourcesFit.

Amounts are thousandths, rounded up as the scheduler rounds CPU, so that sums are integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
