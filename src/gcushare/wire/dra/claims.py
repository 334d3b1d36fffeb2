"""ResourceClaims, read: which devices the scheduler allocated, and for which pods; and the claims that a pod names."""

from __future__ import annotations

from msgspec import field

from gcushare.core.claim_names import parse_template_name
from gcushare.core.requests import CardRequest, PodRequest
from gcushare.vendors.vendor import Vendor
from gcushare.wire.dra.slices import MEMORY
from gcushare.wire.objects import KubeObject, ObjectMeta, Pod, PodResourceClaim, PodSpec, PodStatus
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder


class AllocationResult(KubeObject, frozen=True):
    """One device that a request of a claim was given.

    ``request``: the request's name, followed by ``/`` and the alternative's if it names several. ``consumed_capacity``
    and ``share_id`` are set for a device that several claims share. ``admin_access``: the scheduler counts the
    device as free all the same, because an administrator only inspects it.
    """

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: dict[str, str] = field(default_factory=dict)
    admin_access: bool | None = None

    def consumed_memory(self) -> str | None:
        """The memory that this result takes of the device, as a quantity; None if it names none."""
        return self.consumed_capacity.get(MEMORY) or self.consumed_capacity.get(f"{self.driver}/{MEMORY}")


class DeviceAllocation(KubeObject, frozen=True):
    """The devices of an allocation, in the order in which the scheduler chose them."""

    results: tuple[AllocationResult, ...] = ()


class Allocation(KubeObject, frozen=True):
    """What the scheduler decided for a claim."""

    devices: DeviceAllocation = DeviceAllocation()


class ConsumerReference(KubeObject, frozen=True):
    """Who may use a claim now."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ExactRequest(KubeObject, frozen=True):
    """What a request asks for, of one device class."""

    device_class_name: str = ""


class SubRequest(KubeObject, frozen=True):
    """One alternative of a request."""

    name: str = ""
    device_class_name: str = ""


class DeviceRequest(KubeObject, frozen=True):
    """One request: exactly one thing, or the first of several alternatives that fits."""

    name: str = ""
    exactly: ExactRequest = ExactRequest()
    first_available: tuple[SubRequest, ...] = ()


class DeviceRequests(KubeObject, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()


class ClaimSpec(KubeObject, frozen=True):
    devices: DeviceRequests = DeviceRequests()


class ClaimStatus(KubeObject, frozen=True):
    """The allocation, None while there is none, and its users."""

    allocation: Allocation | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class ResourceClaim(KubeObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    def results_of(self, driver: str) -> tuple[AllocationResult, ...]:
        """What a driver's devices were allocated; empty if none, or if the claim is not allocated."""
        allocation = self.status.allocation
        return tuple(each for each in allocation.devices.results if each.driver == driver) if allocation else ()

    def class_of(self, result: AllocationResult) -> str:
        """The device class of the request that a result answers; "" if the claim has no such request."""
        name, _, alternative = result.request.partition("/")
        for request in self.spec.devices.requests:
            if request.name == name:
                found = (each.device_class_name for each in request.first_available if each.name == alternative)
                return next(found, "") if alternative else request.exactly.device_class_name
        return ""


RESOURCE_CLAIM = BoundedJsonDecoder(ResourceClaim, "a ResourceClaim", limit_bytes=OBJECT_BYTES, max_depth=None)


class _ClaimEntry(PodResourceClaim, frozen=True):
    resource_claim_name: str = ""


class _NamedClaim(KubeObject, frozen=True):
    resource_claim_name: str = ""


class _ClaimingSpec(PodSpec, frozen=True):
    resource_claims: tuple[_ClaimEntry, ...] = ()


class _ClaimingStatus(PodStatus, frozen=True):
    resource_claim_statuses: tuple[_NamedClaim, ...] = ()
    extended_resource_claim_status: _NamedClaim | None = None


class PodWithClaims(Pod, frozen=True):
    """A pod with the names of its claims: those that it names, and those that Kubernetes made for it."""

    spec: _ClaimingSpec = _ClaimingSpec()
    status: _ClaimingStatus = _ClaimingStatus()

    @property
    def claim_names(self) -> frozenset[str]:
        """The names of its claims, all in its own namespace, as far as they exist."""
        names = {each.resource_claim_name for each in self.spec.resource_claims}
        names |= {each.resource_claim_name for each in self.status.resource_claim_statuses}
        if (extended := self.status.extended_resource_claim_status) is not None:
            names.add(extended.resource_claim_name)
        return frozenset(names - {""})


POD_WITH_CLAIMS = BoundedJsonDecoder(PodWithClaims, "a pod", limit_bytes=OBJECT_BYTES, max_depth=None)


def claimed_request(pod: Pod, vendor: Vendor) -> PodRequest | None:
    """The request that a pod's template stands for, as of a pod that asks for the resource; None if it names none."""
    prefix = vendor.claims.template_prefix
    for entry in pod.spec.resource_claims:
        if entry.name == f"gcushare-{prefix}":
            size = parse_template_name(entry.resource_claim_template_name, prefix)
            if size is not None:
                return PodRequest(containers=(), cards=CardRequest(units=size.units, cards=size.cards))
    return None
