"""ResourceClaimTemplates, from which Kubernetes makes a claim for every pod that names one; and the pods that do.

Fields that change what a claim asks for are declared even where we never set them, so that a template of ours that
another program made differs from the one that is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from gcushare.core.claim_names import ClaimSize, unit_bytes
from gcushare.core.units import MemoryUnit
from gcushare.vendors import Vendor
from gcushare.wire.dra.slices import API_VERSION, MEMORY, quantity
from gcushare.wire.objects import KubeObject, ObjectMeta, PodResourceClaim
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder, Int

REQUEST_NAME = "card"
"""Name of the one request of our claims; allocation results carry it."""


class CapacityRequests(KubeObject, frozen=True):
    """The amounts that a claim takes of a device, by the capacity's name."""

    requests: dict[str, str] = field(default_factory=dict)


class ExactRequest(KubeObject, frozen=True):
    """Devices of one class, ``count`` of them, with these amounts of each."""

    device_class_name: str = ""
    count: Int = 1
    capacity: CapacityRequests = CapacityRequests()
    allocation_mode: str = "ExactCount"
    selectors: tuple[object, ...] = ()
    tolerations: tuple[object, ...] = ()
    admin_access: bool | None = None


class DeviceRequest(KubeObject, frozen=True):
    name: str
    exactly: ExactRequest = ExactRequest()


class DeviceConstraint(KubeObject, frozen=True):
    """What the devices of a claim must have in common, or by what they must differ."""

    distinct_attribute: str = ""
    match_attribute: str = ""


class DeviceClaim(KubeObject, frozen=True):
    """The devices that a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[object, ...] = ()


class ClaimSpec(KubeObject, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class TemplateSpec(KubeObject, frozen=True):
    """What claims made from the template get, labels and annotations among it; immutable on the API server."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()


class ResourceClaimTemplate(KubeObject, frozen=True):
    """A template; kind and API version are set on what we create."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TemplateSpec = TemplateSpec()
    api_version: str = ""
    kind: str = ""


class ClaimingPodSpec(KubeObject, frozen=True):
    resource_claims: tuple[PodResourceClaim, ...] = ()


class ClaimingPod(KubeObject, frozen=True):
    """A pod, as far as its claims go."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimingPodSpec = ClaimingPodSpec()


CLAIMING_POD = BoundedJsonDecoder(ClaimingPod, "a pod", limit_bytes=OBJECT_BYTES, max_depth=None)
RESOURCE_CLAIM_TEMPLATE = BoundedJsonDecoder(
    ResourceClaimTemplate, "a ResourceClaimTemplate", limit_bytes=OBJECT_BYTES, max_depth=None
)


def template_spec(size: ClaimSize, vendor: Vendor, unit: MemoryUnit) -> TemplateSpec:
    """Write what a claim of this size asks for: the units of each of so many different cards."""
    amount = quantity(size.units * unit_bytes(unit))
    exactly = ExactRequest(
        device_class_name=vendor.claims.memory_class,
        count=size.cards,
        capacity=CapacityRequests(requests={MEMORY: amount}),
    )
    # Without it the scheduler may take all shares of one card.
    distinct = (DeviceConstraint(distinct_attribute=f"{vendor.claims.driver}/uuid"),) if size.cards > 1 else ()
    requests = (DeviceRequest(name=REQUEST_NAME, exactly=exactly),)
    return TemplateSpec(spec=ClaimSpec(devices=DeviceClaim(requests=requests, constraints=distinct)))


def new_template(name: str, namespace: str, labels: Mapping[str, str], spec: TemplateSpec) -> ResourceClaimTemplate:
    metadata = ObjectMeta(name=name, namespace=namespace, labels=dict(labels))
    return ResourceClaimTemplate(metadata=metadata, spec=spec, api_version=API_VERSION, kind="ResourceClaimTemplate")
