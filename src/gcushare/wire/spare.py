"""CPU and memory: what a Node offers to pods, and what a Pod asks for."""

from __future__ import annotations

from functools import lru_cache

from gcushare.core.errors import RemoteContractError
from gcushare.core.packing.spare import Amounts
from gcushare.core.quantities import parse_quantity
from gcushare.core.requests import ContainerKind, effective_request
from gcushare.wire.objects import Container, Node, Pod, RawQuantity
from gcushare.wire.pods import init_kind

_CPU = ("cpu", 1000, 1)
_MEMORY = ("memory", 1, 1 << 20)
"""A resource, and what one of its units is multiplied with and divided by."""


def pod_amounts(pod: Pod) -> Amounts:
    """What a pod asks for at its peak, each rounded up; what cannot be read counts as nothing."""
    return Amounts(_peak(pod, *_CPU), _peak(pod, *_MEMORY))


def node_amounts(node: Node) -> Amounts:
    """What a node offers: allocatable, or its capacity where it says no more; what cannot be read counts as nothing."""
    offered = {**node.status.capacity, **node.status.allocatable}
    return Amounts(*(_count(offered.get(name), times, per) for name, times, per in (_CPU, _MEMORY)))


def _peak(pod: Pod, resource: str, times: int, per: int) -> int:
    def asked(container: Container) -> int:
        return -_count(container.resources.requests.get(resource), -times, per)

    amounts = [(ContainerKind.APP, asked(each)) for each in pod.spec.containers]
    amounts += [(init_kind(each), asked(each)) for each in pod.spec.init_containers]
    return effective_request(amounts)


@lru_cache(maxsize=4096)
def _count(quantity: RawQuantity | None, times: int, per: int) -> int:
    """A quantity in other units, rounded down; clusters repeat the same few, and exact fractions take microseconds."""
    if quantity is None:
        return 0
    try:
        return int(parse_quantity(quantity) * times // per)
    except RemoteContractError:
        return 0
