"""Resources other than cards: what a pod requests of all of them, and CPU and memory of pods and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gcushare.core.errors import RemoteContractError
from gcushare.core.other_resources import Amounts, effective_requests
from gcushare.core.quantities import parse_quantity
from gcushare.core.requests import ContainerKind, effective_request
from gcushare.wire.objects import Node, Pod, RawQuantity
from gcushare.wire.pods import init_kind

_CPU = ("cpu", 1000, 1)
_MEMORY = ("memory", 1, 1 << 20)
"""A resource name, and the multiplier and divisor that convert its quantity."""


def pod_requests(pod: Pod) -> dict[str, int]:
    """A pod's effective requests by resource, in thousandths.

    Raises:
        RemoteContractError: a quantity is malformed.
    """
    spec = pod.spec
    init = ((init_kind(each), each) for each in spec.init_containers)
    app = ((ContainerKind.APP, each) for each in spec.containers)
    # A limit without a request is the request. The API server fills it in, but not for static pods.
    asked = ((kind, {**each.resources.limits, **each.resources.requests}) for kind, each in (*init, *app))
    return effective_requests(asked, {**spec.resources.limits, **spec.resources.requests}, spec.overhead)


def pod_amounts(pod: Pod) -> Amounts:
    """What a pod requests at its peak, or as a whole, and its overhead, rounded up.

    An unreadable quantity counts as nothing.
    """
    spec = pod.spec
    requests = [(ContainerKind.APP, _asked(each.resources.requests)) for each in spec.containers]
    requests += [(init_kind(each), _asked(each.resources.requests)) for each in spec.init_containers]
    if len(requests) == 1:  # Nearly every pod; equal ones then share what they ask for.
        found = requests[0][1]
    else:
        found = Amounts(
            effective_request((kind, asked.cpu_milli) for kind, asked in requests),
            effective_request((kind, asked.memory_mib) for kind, asked in requests),
        )
    of_pod = spec.resources.requests
    if not of_pod and not spec.overhead:
        return found
    parts = zip((_CPU[0], _MEMORY[0]), found, _asked(of_pod), _asked(spec.overhead), strict=True)
    return Amounts(*((whole if name in of_pod else peak) + overhead for name, peak, whole, overhead in parts))


def node_amounts(node: Node) -> Amounts:
    """What a node offers: allocatable, or else capacity. An unreadable quantity counts as nothing."""
    offered = {**node.status.capacity, **node.status.allocatable}
    return Amounts(*(_count(offered.get(name), times, per) for name, times, per in (_CPU, _MEMORY)))


def _asked(requests: Mapping[str, RawQuantity]) -> Amounts:
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
