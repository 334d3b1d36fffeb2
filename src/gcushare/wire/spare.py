"""CPU and memory: what a Node offers to pods, and what a Pod requests."""

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
"""A resource name, and the multiplier and divisor that convert its quantity."""


def pod_amounts(pod: Pod) -> Amounts:
    """What a pod requests at its peak, rounded up. An unreadable quantity counts as nothing."""
    requests = [(ContainerKind.APP, _asked(each)) for each in pod.spec.containers]
    requests += [(init_kind(each), _asked(each)) for each in pod.spec.init_containers]
    if len(requests) == 1:  # Nearly every pod; equal ones then share what they ask for.
        return requests[0][1]
    return Amounts(
        effective_request((kind, asked.cpu_milli) for kind, asked in requests),
        effective_request((kind, asked.memory_mib) for kind, asked in requests),
    )


def node_amounts(node: Node) -> Amounts:
    """What a node offers: allocatable, or else capacity. An unreadable quantity counts as nothing."""
    offered = {**node.status.capacity, **node.status.allocatable}
    return Amounts(*(_count(offered.get(name), times, per) for name, times, per in (_CPU, _MEMORY)))


def _asked(container: Container) -> Amounts:
    requests = container.resources.requests
    return _rounded_up(requests.get(_CPU[0]), requests.get(_MEMORY[0]))


@lru_cache(maxsize=4096)
def _rounded_up(cpu: RawQuantity | None, memory: RawQuantity | None) -> Amounts:
    """Convert a container's requests. Cached, because clusters repeat few values and fractions take microseconds."""
    return Amounts(*(-_count(asked, -times, per) for asked, (_, times, per) in ((cpu, _CPU), (memory, _MEMORY))))


def _count(quantity: RawQuantity | None, times: int, per: int) -> int:
    """Convert a quantity, rounded down."""
    if quantity is None:
        return 0
    try:
        return int(parse_quantity(quantity) * times // per)
    except RemoteContractError:
        return 0
