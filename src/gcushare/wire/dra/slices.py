"""ResourceSlices: their form; ``device_plugin/claims/slice_plan`` says what a node's one holds.

Only fields that we write are declared. Fields that the API server adds (the time of a taint) are skipped on reading, so
that a slice read back equals the written one. Quantities must be written with ``quantity``: the API server
returns that form unchanged.
"""

from __future__ import annotations

from msgspec import field

from gcushare.wire.objects import KubeObject, ObjectMeta
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder, Int

API_VERSION = "resource.k8s.io/v1"
"""Also of claims and templates. The paths that belong to it are in ``kube.resources``."""

MAX_TEXT = 64
"""Characters of a string attribute. Source: ``DeviceAttributeMaxValueLength``."""

MEMORY = "memory"
"""Name of the capacity that shares consume, in the driver's own domain."""
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
"""The standard attribute by which claims ask for devices below one PCIe root. Source: ``deviceattribute`` of k8s.io."""

NO_SCHEDULE = "NoSchedule"


class Attribute(KubeObject, frozen=True):
    """One attribute of a device; exactly one field is set."""

    int: Int | None = None
    string: str | None = None


class ValidRange(KubeObject, frozen=True):
    """Amounts that a claim may consume: ``min`` plus any number of ``step``; others are rounded up."""

    min: str
    step: str | None = None


class RequestPolicy(KubeObject, frozen=True):
    """How claims consume a capacity; ``default`` is for a request that names no amount."""

    default: str
    valid_range: ValidRange


class Capacity(KubeObject, frozen=True):
    """An amount that a device has. Only a device that several claims may share has a policy."""

    value: str
    request_policy: RequestPolicy | None = None


class DeviceTaint(KubeObject, frozen=True):
    """Keeps claims that do not tolerate it off a device."""

    key: str
    effect: str  # without a default, which would be left out when it is written
    value: str = ""


class Device(KubeObject, frozen=True):
    """One device that a claim may get."""

    name: str
    attributes: dict[str, Attribute] = field(default_factory=dict)
    capacity: dict[str, Capacity] = field(default_factory=dict)
    taints: tuple[DeviceTaint, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(KubeObject, frozen=True):
    """The pool that a slice belongs to. The scheduler ignores slices of an older ``generation`` than the newest."""

    name: str
    generation: Int = 0
    resource_slice_count: Int = 0


class SliceSpec(KubeObject, frozen=True):
    """What a slice says; ``driver``, ``node_name`` and the pool's name never change."""

    driver: str
    pool: ResourcePool
    node_name: str = ""
    devices: tuple[Device, ...] = ()


class ResourceSlice(KubeObject, frozen=True):
    """A slice; kind and API version are set on what we create."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SliceSpec = SliceSpec(driver="", pool=ResourcePool(name=""))
    api_version: str = ""
    kind: str = ""


RESOURCE_SLICE = BoundedJsonDecoder(ResourceSlice, "a ResourceSlice", limit_bytes=OBJECT_BYTES, max_depth=None)


def new_slice(metadata: ObjectMeta, spec: SliceSpec) -> ResourceSlice:
    return ResourceSlice(metadata=metadata, spec=spec, api_version=API_VERSION, kind="ResourceSlice")


def quantity(amount: int) -> str:
    """Write an amount as the API server does: with the largest suffix that leaves a whole number.

    Powers of 1024 come first, as for ``resource.BinarySI``; what none of them divides is a decimal quantity.
    """
    for base, suffixes in (
        (1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")),
        (1000, ("", "k", "M", "G", "T", "P", "E")),
    ):
        power = 0
        rest = amount
        while rest and rest % base == 0 and power < len(suffixes) - 1:
            rest //= base
            power += 1
        if power:
            return f"{rest}{suffixes[power]}"
    return str(amount)


def text_attribute(text: str) -> Attribute:
    """Write a string attribute, cut to what the API server takes."""
    return Attribute(string=text[:MAX_TEXT])
