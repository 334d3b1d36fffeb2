"""What a pod asks for, resource by resource: of its containers, of the pod as a whole, and of its RuntimeClass."""

from __future__ import annotations

import msgspec
from msgspec import field

from gcushare.core.other_resources import effective_requests
from gcushare.core.requests import ContainerKind
from gcushare.wire.objects import Container, RawQuantity, ResourceRequirements
from gcushare.wire.pods import init_kind
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder


class DemandSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a pod's spec that is added up."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, RawQuantity] = field(default_factory=dict)
    resources: ResourceRequirements = ResourceRequirements()


class PodDemand(msgspec.Struct, frozen=True, gc=False):
    """A pod, as far as it takes something of a node."""

    spec: DemandSpec = DemandSpec()

    def requests(self) -> dict[str, int]:
        """In thousandths, by resource.

        Raises:
            RemoteContractError: a quantity is malformed.
        """
        init = ((init_kind(each), each) for each in self.spec.init_containers)
        app = ((ContainerKind.APP, each) for each in self.spec.containers)
        # What has a limit and no request asks for the limit; the API server writes it so, a static pod need not.
        asked = ((kind, {**each.resources.limits, **each.resources.requests}) for kind, each in (*init, *app))
        whole = self.spec.resources
        return effective_requests(asked, {**whole.limits, **whole.requests}, self.spec.overhead)


POD_DEMAND = BoundedJsonDecoder(PodDemand, "a Pod", limit_bytes=OBJECT_BYTES, max_depth=None)
