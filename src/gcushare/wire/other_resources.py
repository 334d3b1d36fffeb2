"""Resources other than cards: what a pod requests of all of them, and CPU and memory of pods and nodes."""

from __future__ import annotations

from functools import lru_cache

from msgspec import field

from gcushare.core.errors import RemoteContractError
from gcushare.core.other_resources import Amounts, effective_requests
from gcushare.core.quantities import parse_quantity
from gcushare.core.requests import ContainerKind, effective_request
from gcushare.wire.objects import Container, KubeObject, Node, Pod, PodSpec, RawQuantity, ResourceRequirements
from gcushare.wire.pods import init_kind
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder

_CPU = ("cpu", 1000, 1)
_MEMORY = ("memory", 1, 1 << 20)
"""A resource name, and the multiplier and divisor that convert its quantity."""


class DemandSpec(PodSpec, frozen=True):
    """A pod's spec with all of its resource requests."""

    overhead: dict[str, RawQuantity] = field(default_factory=dict)
    resources: ResourceRequirements = ResourceRequirements()


class PodDemand(KubeObject, frozen=True):
    """A pod, reduced to its resource requests."""

    spec: DemandSpec = DemandSpec()

    def requests(self) -> dict[str, int]:
        """The pod's effective requests by resource, in thousandths.

        Raises:
            RemoteContractError: a quantity is malformed.
        """
        init = ((init_kind(each), each) for each in self.spec.init_containers)
        app = ((ContainerKind.APP, each) for each in self.spec.containers)
        # A limit without a request is the request. The API server fills it in, but not for static pods.
        asked = ((kind, {**each.resources.limits, **each.resources.requests}) for kind, each in (*init, *app))
        whole = self.spec.resources
        return effective_requests(asked, {**whole.limits, **whole.requests}, self.spec.overhead)


POD_DEMAND = BoundedJsonDecoder(PodDemand, "a Pod", limit_bytes=OBJECT_BYTES, max_depth=None)


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
