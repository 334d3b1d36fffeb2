"""ResourceClaims, read: which devices the scheduler allocated, and for which pods."""

from __future__ import annotations

from msgspec import field

from gcushare.wire.dra import DraObject
from gcushare.wire.dra.slices import MEMORY
from gcushare.wire.objects import ObjectMeta
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder


class AllocationResult(DraObject, frozen=True):
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


class DeviceAllocation(DraObject, frozen=True):
    """The devices of an allocation, in the order in which the scheduler chose them."""

    results: tuple[AllocationResult, ...] = ()


class Allocation(DraObject, frozen=True):
    """What the scheduler decided for a claim."""

    devices: DeviceAllocation = DeviceAllocation()


class ConsumerReference(DraObject, frozen=True):
    """Who may use a claim now."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ExactRequest(DraObject, frozen=True):
    """What a request asks for, of one device class."""

    device_class_name: str = ""


class SubRequest(DraObject, frozen=True):
    """One alternative of a request."""

    name: str = ""
    device_class_name: str = ""


class DeviceRequest(DraObject, frozen=True):
    """One request: exactly one thing, or the first of several alternatives that fits."""

    name: str = ""
    exactly: ExactRequest = ExactRequest()
    first_available: tuple[SubRequest, ...] = ()


class DeviceRequests(DraObject, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()


class ClaimSpec(DraObject, frozen=True):
    devices: DeviceRequests = DeviceRequests()


class ClaimStatus(DraObject, frozen=True):
    """The allocation, None while there is none, and its users."""

    allocation: Allocation | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class ResourceClaim(DraObject, frozen=True):
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
