"""All resources that a pod requests: by its containers, for the pod as a whole, and through its RuntimeClass."""

from __future__ import annotations

import msgspec
from msgspec import field

from gcushare.core.other_resources import effective_requests
from gcushare.core.requests import ContainerKind
from gcushare.wire.objects import Container, RawQuantity, ResourceRequirements
from gcushare.wire.pods import init_kind
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder


class DemandSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a pod's spec with resource requests."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, RawQuantity] = field(default_factory=dict)
    resources: ResourceRequirements = ResourceRequirements()


class PodDemand(msgspec.Struct, frozen=True, gc=False):
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
