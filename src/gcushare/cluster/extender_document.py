"""The extender's inspect document, read back into a ledger: either vendor's form, upstream gpushare's own included."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from gcushare.cluster.snapshot import ClusterSnapshot, NodeFacts
from gcushare.core.cards import SERVES_MEMORY, Card, Closure, Health, InventoryCard
from gcushare.core.errors import RemoteContractError
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import Assignment, CardGrant, NodeState, PodRef
from gcushare.core.units import MemoryUnit
from gcushare.wire.foreign import Count, JsonDoor

MAX_DOCUMENT_BYTES = 128 * 1024 * 1024
"""Of 5,000 nodes with 50,000 pods it has some 15 MB."""


class _Pod(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    namespace: str
    uid: str = ""
    create_time: str = ""
    used_gcu: Count = msgspec.field(default=0, name="usedGCU")
    used_gpu: Count = msgspec.field(default=0, name="usedGPU")
    whole: bool = False
    unrecorded: bool = False


class _UnknownCardPod(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str
    uid: str


class _Closed(msgspec.Struct, frozen=True, gc=False):
    use: str
    pod: str
    until: Count = 0


class _Device(msgspec.Struct, frozen=True, gc=False):
    id: Count
    total_gcu: Count = msgspec.field(default=0, name="totalGCU")
    total_gpu: Count = msgspec.field(default=0, name="totalGPU")
    pods: list[_Pod] | None = None  # Go writes an empty list as null
    health: str = Health.HEALTHY.value
    cordoned: bool = False
    closed: list[_Closed] = []

    @property
    def total(self) -> int:
        return self.total_gcu or self.total_gpu


class ExtenderNode(msgspec.Struct, frozen=True, gc=False):
    """One node of the document."""

    name: str
    devices: list[_Device] | None = None
    devs: list[_Device] | None = None
    unknown_cards: list[_UnknownCardPod] = msgspec.field(default=[], name="unknownCards")

    @property
    def cards(self) -> list[_Device]:
        return self.devices or self.devs or []


class _InspectDocument(msgspec.Struct, frozen=True):
    nodes: list[ExtenderNode] | None = None
    error: str = ""


INSPECT = JsonDoor(_InspectDocument, "the extender's inspect document", limit_bytes=MAX_DOCUMENT_BYTES)


def decode_document(body: bytes) -> list[ExtenderNode]:
    """Read the document.

    Raises:
        RemoteContractError: it is none, or it says that the extender failed.
    """
    document = INSPECT.read(body)
    if document.error:
        raise RemoteContractError(f"the extender answered inspect with an error: {document.error!r}")
    return document.nodes or []


def adopt_document(snapshot: ClusterSnapshot, nodes: list[ExtenderNode]) -> None:
    """Replace the snapshot's ledger by what the extender counts; cards' details and units stay as the nodes tell them.

    A node that the extender does not show is no longer shown either, and told as a problem.
    """
    before = snapshot.ledger
    snapshot.ledger = Ledger()
    by_name = {(facts.ref.namespace, facts.ref.name): facts.ref for facts in snapshot.pods.values()}
    shown = {node.name: node for node in nodes if not snapshot.is_partial or node.name in snapshot.nodes}
    for node in shown.values():
        known = before.nodes.get(node.name)
        cards, unit = _cards_of(node, known)
        snapshot.ledger.set_node(node.name, cards, unit, known.modes if known is not None else (SERVES_MEMORY,))
        snapshot.nodes.setdefault(node.name, NodeFacts(name=node.name))
        for assignment in _assignments_of(node, by_name, known):
            snapshot.ledger.apply(assignment)
    for name in sorted(snapshot.nodes.keys() - shown.keys()):
        if not snapshot.nodes[name].problem:
            snapshot.problems.append(f"node {name} is not known to the scheduler extender (yet?): left out")
            del snapshot.nodes[name]


def _cards_of(node: ExtenderNode, known: NodeState | None) -> tuple[list[InventoryCard], MemoryUnit | None]:
    cards = []
    for device in node.cards:
        state = known.cards.get(device.id) if known is not None else None
        reported = state.card if state is not None else None
        if reported is None and not device.total:
            continue  # pods name a card that the node does not have; the ledger will know it from them
        plain = reported or InventoryCard(card=Card(index=device.id, uuid="", memory_bytes=0), units=0)
        is_healthy = device.health == Health.HEALTHY.value
        cards.append(
            InventoryCard(
                card=plain.card,
                units=device.total,
                reserved_units=plain.reserved_units,
                health=Health.HEALTHY if is_healthy else Health.UNHEALTHY,
                reason=plain.reason,
                cordoned=device.cordoned or plain.cordoned,
                closures=tuple(Closure(use=each.use, pod=each.pod, until=each.until) for each in device.closed),
            )
        )
    return cards, known.unit if known is not None else None


def _assignments_of(
    node: ExtenderNode, by_name: dict[tuple[str, str], PodRef], known: NodeState | None
) -> list[Assignment]:
    grants: dict[PodRef, list[CardGrant]] = defaultdict(list)
    unrecorded: set[PodRef] = set()
    for device in node.cards:
        for pod in device.pods or []:
            name = (pod.namespace, pod.name)
            ref = (
                PodRef(pod.uid, *name, pod.create_time) if pod.uid else by_name.get(name, PodRef("/".join(name), *name))
            )
            before = known.assignments.get(ref.uid) if known is not None else None
            is_whole = pod.whole or (before is not None and any(g.whole for g in before.grants if g.index == device.id))
            grants[ref].append(CardGrant(device.id, pod.used_gcu or pod.used_gpu, is_whole))
            if pod.unrecorded:
                unrecorded.add(ref)
    held = [Assignment(ref, node.name, tuple(given), unrecorded=ref in unrecorded) for ref, given in grants.items()]
    unknown = (PodRef(pod.uid, pod.namespace, pod.name) for pod in node.unknown_cards)
    return [*held, *(Assignment(ref, node.name, ()) for ref in unknown)]
