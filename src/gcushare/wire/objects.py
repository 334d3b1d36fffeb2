"""Kubernetes objects, reduced to the fields that this project reads or writes.

Unused fields are not declared, so the decoder skips them and they take no memory. All types are frozen. ``gc=False`` is
safe, because decoded JSON is a tree without cycles, and keeps tens of thousands of cached objects out of garbage
collections.

Source: the Kubernetes API reference, core/v1, coordination.k8s.io/v1 and meta/v1, read as 1.20 to 1.36 send them.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

import msgspec
from msgspec import field

from gcushare.core.node_rules import NodePlace, NodeRules, Taint, Toleration
from gcushare.wire.affinity import Affinity, TopologySpreadConstraint, soft_rules
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder, Int

T = TypeVar("T")

RawQuantity: TypeAlias = str | Int | float
"""A resource quantity as in the JSON, see ``core.quantities``. The API server always sends text."""


class KubeObject(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all objects: camelCase on the wire; unknown fields are skipped; defaults are omitted when encoding."""


class OwnerReference(KubeObject, frozen=True):
    """The owner of an object, such as ReplicaSet web-5d8."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(KubeObject, frozen=True):
    """Metadata of an object. Times stay text, because nothing here compares them."""

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


class Condition(KubeObject, frozen=True):
    """One condition of a pod or a node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ResourceRequirements(KubeObject, frozen=True):
    """What a container requests; quantities as written."""

    limits: dict[str, RawQuantity] = field(default_factory=dict)
    requests: dict[str, RawQuantity] = field(default_factory=dict)

    def asks_for(self, resource: str) -> bool:
        """Whether some of a resource is asked for. Every API server writes 0 as ``0``."""
        return any(part.get(resource, "0") not in ("0", 0) for part in (self.limits, self.requests))


class Container(KubeObject, frozen=True):
    """One container. ``restart_policy`` is set only on init containers; "Always" marks a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None


class PodResourceClaim(KubeObject, frozen=True):
    """An entry of a pod's ``resourceClaims``, or of the list of claims that Kubernetes made for it from templates."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSchedulingGate(KubeObject, frozen=True):
    """An entry of a pod's ``schedulingGates``: kube-scheduler ignores the pod until every gate is removed."""

    name: str = ""


class PodSchedulingGroup(KubeObject, frozen=True):
    """The PodGroup that a pod belongs to (alpha in Kubernetes 1.36)."""

    pod_group_name: str = ""


DEFAULT_SCHEDULER = "default-scheduler"
"""The schedulerName of pods that name none."""


class PodSpec(KubeObject, frozen=True):
    """Where a pod runs, which scheduler places it and what its containers request.

    ``resources`` is set for the pod as a whole (from Kubernetes 1.34 on), ``overhead`` by its RuntimeClass.
    """

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int | None = None
    preemption_policy: str = ""
    termination_grace_period_seconds: Int | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    resources: ResourceRequirements = ResourceRequirements()
    overhead: dict[str, RawQuantity] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()

    @property
    def is_for_default_scheduler(self) -> bool:
        return self.scheduler_name in ("", DEFAULT_SCHEDULER)

    @property
    def node_rules(self) -> NodeRules:
        """What restricts the pod's nodes."""
        required = self.affinity.node_affinity.required if self.affinity is not None else None
        terms = required.node_selector_terms if required is not None else None
        return NodeRules(tuple(sorted(self.node_selector.items())), terms, self.tolerations).bounded()

    @property
    def soft_rules(self) -> tuple[str, ...]:
        """What the pod prefers and does not require, in Kubernetes' words."""
        return tuple(soft_rules(self.affinity or Affinity(), self.topology_spread_constraints))


class ContainerTerminated(KubeObject, frozen=True):
    exit_code: Int = 0


class ContainerState(KubeObject, frozen=True):
    """A container's state: one of these, or none while it waits. A terminated one may be started again."""

    running: KubeObject | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(KubeObject, frozen=True):
    """One container's state as last reported by the kubelet."""

    name: str = ""
    restart_count: Int = 0
    state: ContainerState = ContainerState()


class PodStatus(KubeObject, frozen=True):
    """A pod's phase, conditions and container states. ``start_time`` is set once the kubelet has admitted the pod."""

    phase: str = ""
    start_time: str | None = None
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaim, ...] = ()


class Pod(KubeObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """``namespace/name``, for people. The identity is ``metadata.uid``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_bound(self) -> bool:
        """Whether the pod is bound to a node."""
        return self.spec.node_name != ""

    @property
    def is_being_deleted(self) -> bool:
        """Whether the pod's deletion was requested. It holds its card until it is gone."""
        return self.metadata.deletion_timestamp is not None


class NodeSpec(KubeObject, frozen=True):
    """A node's settings: cordon and taints."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(KubeObject, frozen=True):
    """One address of a node; the types in use are Hostname, InternalIP and ExternalIP."""

    type: str = ""
    address: str = ""


class NodeInfo(KubeObject, frozen=True):
    """Versions of a node's software."""

    kubelet_version: str = ""


class NodeStatus(KubeObject, frozen=True):
    """A node's resources, addresses and conditions. Quantities are text, as the API server always writes them."""

    capacity: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, str] = field(default_factory=dict)
    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[Condition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(KubeObject, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def internal_ip(self) -> str | None:
        """The node's address within the cluster; None if it has not published one."""
        return next((each.address for each in self.status.addresses if each.type == "InternalIP"), None)

    @property
    def place(self) -> NodePlace:
        """What pods' rules are about."""
        return NodePlace(self.metadata.name, self.metadata.labels, self.spec.taints, self.spec.unschedulable)

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet reports Ready."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class LeaseSpec(KubeObject, frozen=True):
    """A lease's holder, duration in seconds and times (RFC 3339 with microseconds)."""

    holder_identity: str | None = None
    lease_duration_seconds: Int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int | None = None


class Lease(KubeObject, frozen=True):
    """A lease of coordination.k8s.io/v1. To write one, set ``kind`` and ``api_version``, which items of a list lack."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class ObjectReference(KubeObject, frozen=True):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


class EventSource(KubeObject, frozen=True):
    """The component that reported an event; the From column of ``kubectl describe``."""

    component: str = ""
    host: str = ""


class Event(KubeObject, frozen=True):
    """An event of core/v1. Repetitions increase ``count`` and move ``last_timestamp``. For ``kind`` see `Lease`."""

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


class ListMeta(KubeObject, frozen=True):
    """A list's resource version, to watch from, and the token of the next page, if there is one."""

    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class ListOf(KubeObject, Generic[T], frozen=True):
    """One page of a list. Go encodes an empty list as ``[]`` or ``null``, so use ``entries``.

    ``items`` is required: another program's JSON must not count as a list of nothing.
    """

    items: list[T] | None
    metadata: ListMeta = ListMeta()

    @property
    def entries(self) -> list[T]:
        """The items; an empty list if there are none."""
        return self.items or []


class WatchEvent(KubeObject, Generic[T], frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR. The object of an ERROR is a ``Status``."""

    type: str
    object: T


class StatusCause(KubeObject, frozen=True):
    """One cause of an error: the invalid field and what is wrong with it."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(KubeObject, frozen=True):
    """The object and the causes of an error, and when to retry."""

    name: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: Int | None = None


class Status(KubeObject, frozen=True):
    """The API server's answer if it does not answer with an object, for example on errors."""

    status: str = ""
    code: Int | None = None
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ObjectKind(KubeObject, frozen=True):
    """What every answer of an API server has, except a page of text and ``/version``."""

    kind: str


class ObjectHead(KubeObject, frozen=True):
    """An object's metadata only, for a watch whose caller decodes the rest itself."""

    metadata: ObjectMeta = ObjectMeta()


NODE = BoundedJsonDecoder(Node, "a Node", limit_bytes=OBJECT_BYTES, max_depth=None)
POD = BoundedJsonDecoder(Pod, "a Pod", limit_bytes=OBJECT_BYTES, max_depth=None)
HEAD = BoundedJsonDecoder(ObjectHead, "an object's metadata", limit_bytes=OBJECT_BYTES, max_depth=None)
KIND = BoundedJsonDecoder(ObjectKind, "an object's kind", limit_bytes=OBJECT_BYTES, max_depth=None)
STATUS = BoundedJsonDecoder(Status, "a Status", limit_bytes=OBJECT_BYTES, max_depth=None)
