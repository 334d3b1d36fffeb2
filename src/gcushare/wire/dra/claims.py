"""ResourceClaims, the templates from which Kubernetes makes one for every pod that names one, and the pods with claims.

Fields that change what a claim asks for are declared even if we never set them, so that a template under a name of ours
that another program created differs from the wanted one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import field

from gcushare.core.assignments import CardGrant
from gcushare.core.errors import RemoteContractError
from gcushare.core.quantities import parse_count, parse_quantity
from gcushare.core.requests import CardRequest, ContainerKind, ContainerRequest, PodRequest
from gcushare.core.units import MemoryUnit
from gcushare.vendors.vendor import Vendor
from gcushare.wire.annotations import CLAIMED_UNITS
from gcushare.wire.dra.claim_names import ClaimSize, claimed_units, parse_template_name, unit_bytes
from gcushare.wire.dra.slices import API_VERSION, MEMORY, quantity
from gcushare.wire.objects import KubeObject, ObjectMeta, Pod, PodResourceClaim, PodSpec, PodStatus
from gcushare.wire.own_devices import ContainerWithVariables
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder, Int

REQUEST_NAME = "card"
"""Name of the one request of our claims; allocation results carry it."""


class AllocationResult(KubeObject, frozen=True):
    """One device that the scheduler allocated for a request of a claim.

    ``request``: the request's name, followed by ``/`` and the name of the chosen alternative if it has several.
    ``consumed_capacity`` and ``share_id`` are set for a device that several claims share. ``admin_access``: an
    administrator only inspects the device, so the scheduler still counts it as free.
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
        return self.consumed_capacity.get(MEMORY)


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


class CapacityRequests(KubeObject, frozen=True):
    """The amounts that a claim takes of a device, by the capacity's name."""

    requests: dict[str, str] = field(default_factory=dict)


class ExactRequest(KubeObject, frozen=True):
    """Devices of one class, ``count`` of them, with these amounts of each."""

    device_class_name: str = ""
    count: Int = 1
    capacity: CapacityRequests = CapacityRequests()
    allocation_mode: str = "ExactCount"
    selectors: tuple[KubeObject, ...] = ()  # These two are counted, but not read.
    tolerations: tuple[KubeObject, ...] = ()
    admin_access: bool | None = None


class SubRequest(ExactRequest, frozen=True):
    """One alternative of a request."""

    name: str = ""


class DeviceRequest(KubeObject, frozen=True):
    """One request: exactly one thing, or the first of several alternatives that fits."""

    name: str = ""
    exactly: ExactRequest = ExactRequest()
    first_available: tuple[SubRequest, ...] = ()


class DeviceConstraint(KubeObject, frozen=True):
    """What the devices of a claim must have in common, or by what they must differ."""

    distinct_attribute: str = ""
    match_attribute: str = ""


class DeviceClaim(KubeObject, frozen=True):
    """The devices that a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[KubeObject, ...] = ()  # Counted, but not read.


class ClaimSpec(KubeObject, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class ClaimStatus(KubeObject, frozen=True):
    """The allocation, None while there is none, and its users."""

    allocation: Allocation | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class ResourceClaim(KubeObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    def results_of(self, driver: str) -> tuple[AllocationResult, ...]:
        """The allocated devices of a driver; empty if it has none, or if the claim is not allocated."""
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


class TemplateSpec(KubeObject, frozen=True):
    """What claims from the template get, including labels and annotations; immutable on the API server."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()


class ResourceClaimTemplate(KubeObject, frozen=True):
    """A template; kind and API version are set on what we create."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TemplateSpec = TemplateSpec()
    api_version: str = ""
    kind: str = ""


class _ClaimingSpec(PodSpec, frozen=True):
    containers: tuple[ContainerWithVariables, ...] = ()
    init_containers: tuple[ContainerWithVariables, ...] = ()
    ephemeral_containers: tuple[ContainerWithVariables, ...] = ()


class _ClaimingStatus(PodStatus, frozen=True):
    extended_resource_claim_status: PodResourceClaim | None = None


class PodWithClaims(Pod, frozen=True):
    """A pod with its variables and the names of its claims: those that it names, and those that Kubernetes created."""

    spec: _ClaimingSpec = _ClaimingSpec()
    status: _ClaimingStatus = _ClaimingStatus()

    @property
    def claim_names(self) -> frozenset[str]:
        """The names of its claims that exist, all in its own namespace."""
        extended = self.status.extended_resource_claim_status
        return named_claims(self) | ({extended.resource_claim_name} - {""} if extended is not None else set())


RESOURCE_CLAIM = BoundedJsonDecoder(ResourceClaim, "a ResourceClaim", limit_bytes=OBJECT_BYTES, max_depth=None)
RESOURCE_CLAIM_TEMPLATE = BoundedJsonDecoder(
    ResourceClaimTemplate, "a ResourceClaimTemplate", limit_bytes=OBJECT_BYTES, max_depth=None
)
POD_WITH_CLAIMS = BoundedJsonDecoder(PodWithClaims, "a pod", limit_bytes=OBJECT_BYTES, max_depth=None)


def named_claims(pod: Pod) -> frozenset[str]:
    """The claims that a pod's ``resourceClaims`` stand for, as far as they exist, all in its own namespace."""
    entries = (*pod.spec.resource_claims, *pod.status.resource_claim_statuses)
    return frozenset(each.resource_claim_name for each in entries) - {""}


class AskedOfClaim(NamedTuple):
    """What claims ask for of a vendor's cards: so many bytes on each of so many cards, or these cards whole."""

    is_whole: bool
    memory_bytes: int
    cards: int


def asked_of_claim(spec: ClaimSpec, vendor: Vendor) -> AskedOfClaim | None:
    """What a claim asks for of a vendor's classes; None if that is nothing.

    Without an amount that can be read a request counts as whole cards. Of alternatives the one that asks for least
    counts; an administrator's look at a device asks for nothing.
    """
    names = vendor.claims

    def read(request: ExactRequest) -> AskedOfClaim:
        try:
            memory_bytes = parse_count(str(math.ceil(parse_quantity(request.capacity.requests.get(MEMORY)))))
        except RemoteContractError:
            return AskedOfClaim(True, 0, request.count)
        return AskedOfClaim(request.device_class_name == names.whole_class, memory_bytes, request.count)

    found = []
    for request in spec.devices.requests:
        alternatives = request.first_available or (request.exactly,)
        ours = [one for one in alternatives if one.device_class_name in (names.memory_class, names.whole_class)]
        if ours and not request.exactly.admin_access:
            found.append(min(map(read, ours), key=lambda each: (each[0], each[1] * each[2], each[2])))
    return _together(found)


def _together(found: Sequence[AskedOfClaim]) -> AskedOfClaim | None:
    """What requests ask for together. Shares may be of one card or of several, so only the largest is sure."""
    if len(found) < 2:
        return found[0] if found else None
    if any(each.is_whole for each in found):
        return AskedOfClaim(True, 0, sum(each.cards for each in found if each.is_whole))
    return AskedOfClaim(False, max(each.memory_bytes for each in found), 1)


def add_up_asked(found: Iterable[AskedOfClaim | None], unit: MemoryUnit) -> PodRequest | None:
    """The request of a pod with claims that ask for this; None if none of them asks for anything."""
    asked = _together([each for each in found if each is not None])
    if asked is None:
        return None
    units = 0 if asked.is_whole else claimed_units(asked.memory_bytes, unit)
    return PodRequest((), CardRequest(units, asked.cards, whole=asked.is_whole))


def problem_of_both_ways(pod: Pod, vendor: Vendor) -> str:
    """Why no node can take a pod that asks by a claim: its containers ask for memory units too; "" if they do not."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    if not any(each.resources.asks_for(vendor.memory_resource) for each in containers):
        return ""
    return (
        f"the pod asks for {vendor.memory_resource} and for cards by a claim, and every node gives out its cards in "
        "one of the two ways: take one of them out of the pod"
    )


def claimed_grants(cards: Iterable[tuple[int, int, bool]], unit: MemoryUnit) -> tuple[CardGrant, ...]:
    """What claims take of each card: from the cards' indexes, the bytes taken, and whether a card is taken whole."""
    grants: dict[int, CardGrant] = {}
    for index, memory_bytes, is_whole in cards:
        before = grants.get(index, CardGrant(index, 0))
        grants[index] = CardGrant(index, before.units + claimed_units(memory_bytes, unit), before.whole or is_whole)
    return tuple(grants[index] for index in sorted(grants))


_UNITS = re.compile("[0-9]{1,10}", re.ASCII)


def claimed_request(pod: Pod, vendor: Vendor) -> PodRequest | None:
    """The request that the template of a pod expresses; None if the pod names no template of ours."""
    prefix = vendor.claims.template_prefix
    for entry in pod.spec.resource_claims:
        if entry.name == f"gcushare-{prefix}":
            size = parse_template_name(entry.resource_claim_template_name, prefix)
            if size is not None:
                containers = tuple(_read_claimed(pod.metadata.annotations.get(CLAIMED_UNITS, "")))
                return PodRequest(containers, CardRequest(units=size.units, cards=size.cards))
    return None


def _read_claimed(text: str) -> Iterator[ContainerRequest]:
    """The containers of ``name=units,...``, as far as it can be read: an author may have written it.

    Not by one pattern for name and units, which takes minutes for an annotation that is one long word.
    """
    for part in text.split(","):
        name, _, units = part.partition("=")
        if name and _UNITS.fullmatch(units):
            yield ContainerRequest(name, ContainerKind.APP, int(units))


def template_spec(size: ClaimSize, vendor: Vendor, unit: MemoryUnit) -> TemplateSpec:
    """Write what a claim of this size asks for: so many units on each of so many different cards."""
    amount = quantity(size.units * unit_bytes(unit))
    exactly = ExactRequest(
        device_class_name=vendor.claims.memory_class,
        count=size.cards,
        capacity=CapacityRequests(requests={MEMORY: amount}),
    )
    # Without the constraint, the scheduler may take all shares of one card.
    distinct = (DeviceConstraint(distinct_attribute=f"{vendor.claims.driver}/uuid"),) if size.cards > 1 else ()
    requests = (DeviceRequest(name=REQUEST_NAME, exactly=exactly),)
    return TemplateSpec(spec=ClaimSpec(devices=DeviceClaim(requests=requests, constraints=distinct)))


def new_template(name: str, namespace: str, labels: Mapping[str, str], spec: TemplateSpec) -> ResourceClaimTemplate:
    metadata = ObjectMeta(name=name, namespace=namespace, labels=dict(labels))
    return ResourceClaimTemplate(metadata=metadata, spec=spec, api_version=API_VERSION, kind="ResourceClaimTemplate")
