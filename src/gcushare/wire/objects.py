"""Kubernetes objects, as far as this project reads or writes them.

Slim on purpose: a field that is not used here is not declared, so the decoder skips it and it never takes memory.
Every type is a frozen value; ``gc=False`` is safe because decoded JSON is a tree and cannot hold a cycle, and it keeps
tens of thousands of cached objects out of the collector's walks.

Source: the Kubernetes API reference, core/v1, coordination.k8s.io/v1 and meta/v1, read as 1.20 to 1.36 send them.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import field

from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder, Int

T = TypeVar("T")

RawQuantity: TypeAlias = str | Int | float
"""A resource quantity as it stood in the JSON; ``core.units`` gives it a meaning. The API server always sends text."""


class _Object(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of the objects: camelCase on the wire, unknown fields skipped, defaults left out when written."""


class OwnerReference(_Object, frozen=True):
    """Who made the object; enough to say "ReplicaSet web-5d8" to a person."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(_Object, frozen=True):
    """Identity and record of an object. Times stay text: their order is never decided on here."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int | None = None
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(_Object, frozen=True):
    """One condition of a pod or a node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ResourceRequirements(_Object, frozen=True):
    """What a container asks for, quantities as written."""

    limits: dict[str, RawQuantity] = field(default_factory=dict)
    requests: dict[str, RawQuantity] = field(default_factory=dict)


class Container(_Object, frozen=True):
    """One container; ``restart_policy`` is set only on init containers, where "Always" marks a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None


class PodSpec(_Object, frozen=True):
    """Where a pod runs, who schedules it and what its containers ask for."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int | None = None
    termination_grace_period_seconds: Int | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class ContainerTerminated(_Object, frozen=True):
    """How a container ended."""

    exit_code: Int = 0


class ContainerState(_Object, frozen=True):
    """What a container does now; ``terminated`` is set where it does not run, and may be started again."""

    terminated: ContainerTerminated | None = None


class ContainerStatus(_Object, frozen=True):
    """One container's state as the kubelet last wrote it."""

    name: str = ""
    restart_count: Int = 0
    state: ContainerState = ContainerState()


class PodStatus(_Object, frozen=True):
    """A pod's phase and what led to it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(_Object, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """``namespace/name``, the words people use for a pod; the identity is ``metadata.uid``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_bound(self) -> bool:
        """Whether a node was chosen."""
        return self.spec.node_name != ""

    @property
    def is_being_deleted(self) -> bool:
        """Whether its deletion was asked for; it holds its card until it is gone."""
        return self.metadata.deletion_timestamp is not None


class Taint(_Object, frozen=True):
    """A node's taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(_Object, frozen=True):
    """What an admin set on a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(_Object, frozen=True):
    """One address of a node; the types in use are Hostname, InternalIP and ExternalIP."""

    type: str = ""
    address: str = ""


class NodeInfo(_Object, frozen=True):
    """Versions of a node's software."""

    kubelet_version: str = ""


class NodeStatus(_Object, frozen=True):
    """A node's resources, addresses and conditions. Quantities are text, as the API server always writes them."""

    capacity: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, str] = field(default_factory=dict)
    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[Condition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(_Object, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def internal_ip(self) -> str | None:
        """The address other machines of the cluster reach it at, None when it has published none."""
        return next((each.address for each in self.status.addresses if each.type == "InternalIP"), None)

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet reports Ready."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class LeaseSpec(_Object, frozen=True):
    """Who holds a lease, for how long (seconds) and since when (RFC 3339 with microseconds)."""

    holder_identity: str | None = None
    lease_duration_seconds: Int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int | None = None


class Lease(_Object, frozen=True):
    """A lease of coordination.k8s.io/v1; who writes one sets kind and api_version (items of a list carry neither)."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class ObjectReference(_Object, frozen=True):
    """What an event is about."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


class EventSource(_Object, frozen=True):
    """Who reported an event; ``kubectl describe`` shows it in its From column."""

    component: str = ""
    host: str = ""


class Event(_Object, frozen=True):
    """An event of core/v1; repeated ones raise ``count`` and move ``last_timestamp``. Kind: as for a lease."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: Int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""


class ListMeta(_Object, frozen=True):
    """Where a list stands: the version to watch from and, while there is more, the token of the next page."""

    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class ListOf(_Object, Generic[T], frozen=True):
    """One page of a list; Go writes an empty list as ``[]`` or as ``null``, so use ``entries``."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None

    @property
    def entries(self) -> list[T]:
        """The items, an empty list when there are none."""
        return self.items or []


class WatchEvent(_Object, Generic[T], frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, whose object is then a ``Status``."""

    type: str
    object: T


class StatusCause(_Object, frozen=True):
    """One reason behind a refusal: the field at fault and what is wrong with it."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(_Object, frozen=True):
    """What a refusal was about, and when to come back."""

    name: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: Int | None = None


class Status(_Object, frozen=True):
    """The API server's answer where there is no object to answer with."""

    status: str = ""
    code: Int | None = None
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ObjectHead(_Object, frozen=True):
    """Only an object's metadata: what a watch needs of an object whose rest its owner decodes."""

    metadata: ObjectMeta = ObjectMeta()


NODE = BoundedJsonDecoder(Node, "a Node", limit_bytes=OBJECT_BYTES, max_depth=None)
POD = BoundedJsonDecoder(Pod, "a Pod", limit_bytes=OBJECT_BYTES, max_depth=None)
HEAD = BoundedJsonDecoder(ObjectHead, "an object's metadata", limit_bytes=OBJECT_BYTES, max_depth=None)
STATUS = BoundedJsonDecoder(Status, "a Status", limit_bytes=OBJECT_BYTES, max_depth=None)
