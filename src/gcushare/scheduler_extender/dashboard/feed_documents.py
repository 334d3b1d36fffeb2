"""What the page receives: one document per node and per waiting pod, from the ledger and the metadata cache.

Amounts are in the node's units; ``perGib`` units make 2**30 bytes. Fields with their default are left out. A change
carries whole documents of the nodes and pods that changed: a reader replaces documents and never adds up.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gcushare.core.assignments import Assignment
from gcushare.core.card_state import CardState
from gcushare.core.cards import Closure, Health
from gcushare.core.node_rules import NO_PLACE, NodePlace
from gcushare.core.nodes import NodeState
from gcushare.core.units import parse_memory_unit
from gcushare.scheduler_extender.state.scheduling_request import RejectedRequest, SchedulingRequest, WaitingPod
from gcushare.vendors.vendor import Vendor
from gcushare.wire.documents import Document

SNAPSHOT_VERSION = 1

MAX_LABELS = 24
"""Labels shown of one node or pod."""
_NOISE = frozenset(
    {
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
    }
)
"""Labels that controllers write for themselves, and old names of others."""


class CardDocument(Document, frozen=True):
    """One card. ``free`` is what a new pod can get here, ``used`` what pods hold; a card held whole counts in full.

    ``whole_free``: a pod can get the card whole. ``missing``: pods name this card, but the node does not have it.
    """

    index: int
    total: int
    used: int = 0
    free: int = 0
    whole_free: bool = False
    mode: str = "free"
    reserved: int = 0
    minor: int | None = None
    uuid: str = ""
    model: str = ""
    sick: bool = False
    reason: str = ""
    cordoned: bool = False
    closed: tuple[Closure, ...] = ()
    missing: bool = False


class PodMetadata(Document, frozen=True):
    """What the page shows of a pod beyond what it holds."""

    labels: Mapping[str, str] = {}
    corrected: str = ""
    over_use: str = ""
    uses: tuple[tuple[int, int], ...] = ()
    idle_since: str = ""
    owner: str = ""
    ending: bool = False
    scheduler: str = ""
    """kube-scheduler's message about a pod that waits."""


class PodDocument(PodMetadata, frozen=True, kw_only=True):
    """A pod on a node. ``grants`` are (card, units, 1 if it holds the card whole).

    ``reserved``: its Binding is being sent. ``assigned``: the node has handed the card out. ``unrecorded``: the node
    reports the grants, but the pod has no record of them. ``over_use`` says in text what it uses beyond its grant,
    ``uses`` are (card, bytes) then; ``idle_since`` since when it has not used its cards, "" if it uses them; all as its
    node reports. ``limit``: the units of all its cards that it may use while no other pod needs them.
    """

    uid: str
    ns: str
    name: str
    grants: tuple[tuple[int, int, int], ...] = ()
    created: str = ""
    priority: int = 0
    assigned: bool = False
    reserved: bool = False
    problem: str = ""
    unrecorded: bool = False
    limit: int = 0


class NodeDocument(Document, frozen=True):
    """A node of one vendor with its cards and pods. ``largest`` is the most that a new pod can get of one card.

    A node that is cordoned, not ready or ``uncounted`` gives new pods nothing; one with ``taints`` only gives to those
    that tolerate them. ``serves`` is ``memory``, ``whole`` or ``both``. ``uncounted``: the kubelet counts none of the
    cards' units.
    """

    vendor: str
    name: str
    unit: str
    per_gib: int
    total: int = 0
    used: int = 0
    largest: int = 0
    empty_cards: int = 0
    serves: str = "memory"
    uncounted: bool = False
    settling: bool = False
    assumed_unit: bool = False
    unready: bool = False
    unschedulable: bool = False
    taints: tuple[str, ...] = ()
    address: str = ""
    problem: str = ""
    labels: Mapping[str, str] = {}
    cards: tuple[CardDocument, ...] = ()
    pods: tuple[PodDocument, ...] = ()


class WaitingDocument(Document, frozen=True):
    """A pod without a node. ``problem``: why no node can grant it; ``scheduler``: kube-scheduler's message.

    ``per_gib``: how many of its units are a GiB, if its author says it; 0: as its vendor's nodes count.
    """

    vendor: str
    uid: str
    ns: str
    name: str
    created: str = ""
    priority: int = 0
    units: int = 0
    per_gib: int = 0
    cards: int = 1
    whole: bool = False
    choosy: bool = False
    problem: str = ""
    scheduler: str = ""
    owner: str = ""
    labels: Mapping[str, str] = {}


class VendorDocument(Document, frozen=True):
    """A vendor that the extender serves, its word for cards, its nodes' label and its ``kubectl inspect`` command."""

    name: str
    word: str
    label: str
    inspect: str


class ReplicaDocument(Document, frozen=True, omit_defaults=False):
    """The replica that answers. ``age_s``: seconds since its watch cache was known to be current; ``now_ms``: time."""

    leads: bool
    holder: str
    age_s: float | None
    now_ms: int


@dataclass(frozen=True, slots=True)
class NodeMetadata:
    """What the page shows of a node beyond its cards."""

    place: NodePlace = NO_PLACE
    """Its labels, taints and cordon; the states have the same object."""
    unready: bool = False
    address: str = ""
    uncounted: frozenset[str] = frozenset()
    """The vendors whose units the kubelet does not count."""


NO_NODE_METADATA, NO_POD_METADATA = NodeMetadata(), PodMetadata()


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What a node's document needs in addition to its state: metadata by name and uid, and the problems."""

    metadata: NodeMetadata
    problem: str
    pod_metadata: Mapping[str, PodMetadata]
    pod_problems: Mapping[str, str]
    reserved: frozenset[str]


def node_document(vendor: Vendor, node: NodeState, context: NodeContext) -> NodeDocument:
    """Describe a node, its pods in the order of assignment."""
    unit = node.unit or parse_memory_unit(vendor.default_unit)
    order = sorted(node.assignments.values(), key=lambda a: (a.assign_time_ns, a.pod.created, a.pod.uid))
    place, is_unready = context.metadata.place, context.metadata.unready
    is_uncounted = vendor.name in context.metadata.uncounted
    is_open = not (place.is_cordoned or is_unready or is_uncounted)
    return NodeDocument(
        vendor=vendor.name,
        name=node.name,
        unit=unit.label,
        per_gib=unit.per_gib,
        total=node.total,
        used=node.used,
        largest=node.largest_available if is_open else 0,
        empty_cards=is_open * sum(state.is_available_whole for state in node.cards.values()),
        serves="both" if len(node.modes) > 1 else "".join(node.modes),
        uncounted=is_uncounted,
        settling=node.is_unconfirmed,
        assumed_unit=node.unit is None,
        unready=is_unready,
        unschedulable=place.is_cordoned,
        taints=tuple(map(str, place.taints_keeping_off)),
        address=context.metadata.address,
        problem=context.problem,
        labels=shown_labels(place.labels),
        cards=tuple(_card(state, is_open=is_open) for state in node.cards.values()),
        pods=tuple(_pod(held, context) for held in order),
    )


def waiting_document(vendor: Vendor, waiting: WaitingPod, metadata: PodMetadata) -> WaitingDocument:
    """Describe a pod that waits for a node."""
    pod = waiting.pod
    request = waiting.cards if isinstance(waiting, SchedulingRequest) else None
    return WaitingDocument(
        vendor=vendor.name,
        uid=pod.uid,
        ns=pod.namespace,
        name=pod.name,
        created=pod.created,
        priority=pod.priority,
        units=request.units if request else 0,
        per_gib=request.per_gib if request else 0,
        cards=request.cards if request else 1,
        whole=request.whole if request else False,
        choosy=request is not None and request.excludes_cards,
        problem=waiting.problem if isinstance(waiting, RejectedRequest) else "",
        scheduler=metadata.scheduler,
        owner=metadata.owner,
        labels=metadata.labels,
    )


def _card(state: CardState, *, is_open: bool) -> CardDocument:
    offered = state.card
    if offered is None:
        return CardDocument(state.index, 0, state.held, mode=state.mode.value, missing=True)
    return CardDocument(
        index=state.index,
        total=state.total,
        used=state.held,
        free=state.available if is_open else 0,
        whole_free=is_open and state.is_available_whole,
        mode=state.mode.value,
        reserved=offered.reserved_units,
        minor=offered.minor,
        uuid=offered.uuid,
        model=offered.model,
        sick=offered.health is not Health.HEALTHY,
        reason=offered.reason,
        cordoned=offered.cordoned,
        closed=offered.closures,
    )


def _pod(held: Assignment, context: NodeContext) -> PodDocument:
    pod = held.pod
    metadata = context.pod_metadata.get(pod.uid, NO_POD_METADATA)
    return PodDocument(
        **msgspec.structs.asdict(metadata),
        uid=pod.uid,
        ns=pod.namespace,
        name=pod.name,
        grants=tuple((grant.index, grant.units, int(grant.whole)) for grant in held.grants),
        created=pod.created,
        priority=pod.priority,
        assigned=held.assigned,
        reserved=pod.uid in context.reserved,
        problem=context.pod_problems.get(pod.uid, ""),
        unrecorded=held.unrecorded,
        limit=held.limit,
    )


def shown_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Choose the labels worth showing; keys are interned, they repeat on every object."""
    kept = sorted((key, value) for key, value in labels.items() if key not in _NOISE)
    return {sys.intern(key): value for key, value in kept[:MAX_LABELS]}
