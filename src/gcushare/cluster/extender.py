"""The scheduler extender, asked through the API server's proxy or at an address, and its inspect document read back.

Any vendor's form of the document is read, upstream gpushare's own included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import GenericAlias
from typing import TypeVar, cast
from urllib.parse import quote

import msgspec

from gcushare.cluster.endpoints import Endpoint, at_address, named_service
from gcushare.cluster.settings import SourceFlags
from gcushare.cluster.snapshot import ClusterSnapshot, NodeFacts
from gcushare.core.cards import SERVES_MEMORY, Card, Closure, Health, InventoryCard
from gcushare.core.errors import RemoteContractError, RetryableError
from gcushare.core.nodes import Assignment, CardGrant, NodeState, PodRef
from gcushare.kube.client import KubeClient
from gcushare.vendors import VENDORS, Vendor
from gcushare.wire.documents.explain import EXPLANATION, ExplainDocument
from gcushare.wire.foreign import BoundedJsonDecoder, Count

T = TypeVar("T", bound=msgspec.Struct)

QUICK_S = 1.0
"""How long the extender is waited for where the API server can answer as well; it answers in milliseconds."""

MAX_DOCUMENT_BYTES = 128 * 1024 * 1024
"""Of 5,000 nodes with 50,000 pods it has some 15 MB."""


@dataclass(frozen=True, slots=True)
class Extender:
    """The extender as one vendor's pods see it. ``endpoints`` are tried in turn until one answers."""

    vendor: Vendor
    words: str
    endpoints: tuple[Endpoint, ...]
    timeout_s: float | None = None

    async def inspect(self, node: str | None) -> list[ExtenderNode]:
        """Fetch who uses what, everywhere or on one node.

        Raises:
            GcushareError: it does not answer, or not with its document.
        """
        path = "/inspect" if node is None else f"/inspect/{quote(node, safe='')}"
        return decode_document(await self._get(path))

    async def explain(self, namespace: str, name: str) -> ExplainDocument:
        """Fetch why a pod has no card, or which it has.

        Raises:
            NotFoundError: no such pod asks for cards.
            GcushareError: it does not answer, or not with its document.
        """
        body = await self._get(f"/explain/{quote(namespace, safe='')}/{quote(name, safe='')}")
        return EXPLANATION.read(body)

    async def _get(self, path: str) -> bytes:
        path = f"{self.vendor.url_prefix}{path}"
        *first, last = self.endpoints
        for endpoint in first:
            try:
                return await endpoint.get(path, timeout_s=self.timeout_s)
            except (RetryableError, RemoteContractError) as error:
                # It may speak TLS, as the next endpoint does; but then it would have closed the connection at once.
                if isinstance(error.__cause__, TimeoutError):
                    raise
        return await last.get(path, timeout_s=self.timeout_s)


@asynccontextmanager
async def open_extender(
    flags: SourceFlags, vendor: Vendor, api: KubeClient, *, timeout_s: float | None
) -> AsyncIterator[Extender]:
    """Yield the way to the extender; nothing is asked yet."""
    if flags.extender_url is not None:
        async with at_address(flags.extender_url) as endpoint:
            yield Extender(
                vendor, f"the scheduler extender at {flags.extender_url.rstrip('/')}", (endpoint,), timeout_s
            )
        return
    namespace, _, service = flags.extender_service.partition("/")
    ways = (service,) if service.startswith("https:") else (f"http:{service}", f"https:{service}")
    endpoints = tuple(named_service(api, namespace, way) for way in ways)
    yield Extender(vendor, f"the scheduler extender ({flags.extender_service})", endpoints, timeout_s)


class _Pod(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    namespace: str
    uid: str = ""
    create_time: str = ""
    whole: bool = False
    unrecorded: bool = False

    @property
    def used(self) -> int:
        return _amount(self, _USED)


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
    pods: list[_Pod] | None = None  # Go writes an empty list as null
    health: str = Health.HEALTHY.value
    cordoned: bool = False
    closed: list[_Closed] = []

    @property
    def total(self) -> int:
        return _amount(self, _TOTAL)


class ExtenderNode(msgspec.Struct, frozen=True, gc=False):
    """One node of the document."""

    name: str
    unknown_cards: list[_UnknownCardPod] = msgspec.field(default=[], name="unknownCards")

    @property
    def cards(self) -> list[_Device]:
        return next((cards for key in _CARD_KEYS if (cards := getattr(self, key))), [])


class _InspectDocument(msgspec.Struct, frozen=True):
    nodes: list[ExtenderNode] | None = None
    error: str = ""


_WORDS = tuple(dict.fromkeys(vendor.device_word for vendor in VENDORS))
_CARD_KEYS = tuple(dict.fromkeys(vendor.inspect.cards for vendor in VENDORS))
_USED, _TOTAL = (tuple(name + word for word in _WORDS) for name in ("used", "total"))


def _amount(part: msgspec.Struct, names: tuple[str, ...]) -> int:
    """An amount under whichever vendor's word it stands; 0 where it stands under none."""
    for name in names:
        amount: int = getattr(part, name)
        if amount:
            return amount
    return 0


def _with_words(base: type[T], names: tuple[str, ...], **lists: type[msgspec.Struct]) -> type[T]:
    """The struct with an amount under the word of each vendor, and with lists that hold such structs."""
    amounts = [(name, Count, 0) for name in names]
    fields = [*amounts, *((key, GenericAlias(list, (of,)) | None, None) for key, of in lists.items())]
    return cast(type[T], msgspec.defstruct(base.__name__, fields, bases=(base,), frozen=True, gc=False))


_DEVICE = _with_words(_Device, _TOTAL, pods=_with_words(_Pod, _USED))
_NODE = _with_words(ExtenderNode, (), **dict.fromkeys(_CARD_KEYS, _DEVICE))
INSPECT = BoundedJsonDecoder(
    _with_words(_InspectDocument, (), nodes=_NODE), "the extender's inspect document", limit_bytes=MAX_DOCUMENT_BYTES
)


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
    """Take what the extender counts into a snapshot that knows nodes and pods, but not yet what pods hold.

    Cards' details and units are those of the Node objects. A node that the extender does not know is shown no more,
    and reported as a problem.
    """
    by_name = {(facts.ref.namespace, facts.ref.name): facts.ref for facts in snapshot.pods.values()}
    shown = {node.name: node for node in nodes if not snapshot.is_partial or node.name in snapshot.nodes}
    ledger = snapshot.ledger
    for node in shown.values():
        known = ledger.nodes.get(node.name)
        ledger.set_node(
            node.name,
            _cards_of(node, known),
            known.unit if known is not None else None,
            known.modes if known is not None else (SERVES_MEMORY,),
        )
        snapshot.nodes.setdefault(node.name, NodeFacts(name=node.name))
        for assignment in _assignments_of(node, by_name):
            ledger.apply(assignment)
    for name in sorted(snapshot.nodes.keys() - shown.keys()):
        if not snapshot.nodes[name].problem:
            snapshot.problems.append(f"node {name} is not known to the scheduler extender (yet?): left out")
            snapshot.lose_node(name)


def _cards_of(node: ExtenderNode, known: NodeState | None) -> list[InventoryCard]:
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
    return cards


def _assignments_of(node: ExtenderNode, by_name: dict[tuple[str, str], PodRef]) -> list[Assignment]:
    grants: dict[PodRef, list[CardGrant]] = defaultdict(list)
    unrecorded: set[PodRef] = set()
    for device in node.cards:
        for pod in device.pods or []:
            name = (pod.namespace, pod.name)
            # Upstream gpushare's form has no uid.
            ref = by_name.get(name) or PodRef("/".join(name), *name)
            if pod.uid:
                ref = PodRef(pod.uid, *name, pod.create_time)
            grants[ref].append(CardGrant(device.id, pod.used, pod.whole))
            if pod.unrecorded:
                unrecorded.add(ref)
    held = [Assignment(ref, node.name, tuple(given), unrecorded=ref in unrecorded) for ref, given in grants.items()]
    unknown = (PodRef(pod.uid, pod.namespace, pod.name) for pod in node.unknown_cards)
    return [*held, *(Assignment(ref, node.name, ()) for ref in unknown)]
