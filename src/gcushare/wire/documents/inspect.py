"""The inspect documents, exactly as the manual and upstream gpushare print them, written and read back.

Source: chapter 4 of the GCUShare manual for Enflame; Aliyun's gpushare for NVIDIA. Readers of those documents exist,
so nothing is renamed or dropped. What we add (a sick or cordoned card, say) is left out while it has its default. Each
vendor writes its own ``InspectForm``; the reader takes any, upstream gpushare's too. Amounts are in the node's memory
unit.
"""

from __future__ import annotations

import functools
from types import GenericAlias
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from gcushare.core.assignments import Assignment
from gcushare.core.card_state import CardState
from gcushare.core.cards import Closure, Health
from gcushare.core.errors import RemoteContractError
from gcushare.core.nodes import NodeState
from gcushare.vendors import VENDORS
from gcushare.vendors.vendor import Vendor
from gcushare.wire.untrusted_json import BoundedJsonDecoder, Count

T = TypeVar("T", bound=msgspec.Struct)
Field = tuple[str, Any] | tuple[str, Any, Any]

MAX_DOCUMENT_BYTES = 128 * 1024 * 1024
"""The document of 5,000 nodes with 50,000 pods has some 15 MB."""


class UnknownCardPod(msgspec.Struct, frozen=True, gc=False):
    """A bound pod whose cards are unknown: its record is damaged or not written yet."""

    name: str
    namespace: str
    uid: str


class _Types(NamedTuple):
    """The structs of one vendor's document: a node, a card, and a pod on it."""

    node: type[msgspec.Struct]
    card: type[msgspec.Struct]
    pod: type[msgspec.Struct]


@functools.cache
def _types(word: str, cards: str, is_detailed: bool) -> _Types:
    """Build the structs of a vendor's device word and form. A struct is encoded in half the time of a dictionary.

    Fields without a default are the manual's and upstream gpushare's. The others are ours and left out while they have
    their default.
    """

    def struct(name: str, *fields: Field) -> type[msgspec.Struct]:
        renamed = {each[0]: each[0].replace("_device", word) for each in fields}
        return msgspec.defstruct(name, fields, rename=renamed, frozen=True, gc=False, omit_defaults=True)

    text = [("name", str), ("namespace", str)]
    identity = [("uid", str), ("createTime", str)] if is_detailed else []
    amounts = [("total_device", int), ("used_device", int), *([("available_device", int)] if is_detailed else [])]
    ours = [("whole", bool, False), ("unrecorded", bool, False), ("limit", int, 0)]
    pod = struct("Pod", *text, *identity, ("used_device", int), *ours)
    health = [("health", str, Health.HEALTHY.value), ("cordoned", bool, False), ("closed", tuple[Closure, ...], ())]
    card = struct("Card", ("id", int), *amounts, ("pods", list), *health)
    unknown = ("unknownCards", tuple[UnknownCardPod, ...], ())
    return _Types(struct("Node", ("name", str), *amounts, (cards, list), unknown), card, pod)


_Holder = tuple[Assignment, int, bool]
_encoder = msgspec.json.Encoder()


def encode_node(vendor: Vendor, node: NodeState) -> bytes:
    """Write one node as JSON in the vendor's form. Each card lists its pods, the one placed first comes first."""
    form = vendor.inspect
    make_node, make_card, make_pod = _types(vendor.device_word, form.cards, form.is_detailed)
    held: dict[int, list[_Holder]] = {index: [] for index in node.cards}
    order = sorted(
        node.assignments.values(), key=lambda a: (a.assign_time_ns, a.pod.created, a.pod.namespace, a.pod.name)
    )
    for assignment in order:
        for grant in assignment.grants:
            held[grant.index].append((assignment, node.cards[grant.index].share(grant), grant.whole))
    cards = []
    for index, state in node.cards.items():
        pods = []
        for a, units, whole in held[index]:
            identity = ("" if a.unrecorded else a.pod.uid, a.pod.created) if form.is_detailed else ()
            pods.append(make_pod(a.pod.name, a.pod.namespace, *identity, units, whole, a.unrecorded, a.limit))
        free = (state.free,) if form.is_detailed else ()
        cards.append(make_card(state.index, state.total, state.held, *free, pods, *_condition(state)))
    available = (max(0, node.total - node.used),) if form.is_detailed else ()
    reported = {str(each.pod) for each in node.assignments.values() if each.unrecorded}
    unknown = sorted(
        (each.pod for each in node.assignments.values() if not each.grants and str(each.pod) not in reported), key=str
    )
    unknown_pods = tuple(UnknownCardPod(pod.name, pod.namespace, pod.uid) for pod in unknown)
    return _encoder.encode(make_node(node.name, node.total, node.used, *available, cards, unknown_pods))


OPENING, CLOSING = b'{"nodes":[', b"]}\n"
"""The text before and after the nodes, which commas join: a large document can be sent node by node."""


def indent(document: bytes) -> bytes:
    """Indent a document for people, as the manual's inspect.sh prints it."""
    return msgspec.json.format(document, indent=4) + b"\n"


def _condition(state: CardState) -> tuple[str, bool, tuple[Closure, ...]]:
    if state.card is None:
        return Health.UNHEALTHY.value, False, ()
    return state.card.health.value, state.card.cordoned, state.card.closures


class _PodPart(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    namespace: str
    uid: str = ""
    create_time: str = ""
    whole: bool = False
    unrecorded: bool = False
    limit: Count = 0

    @property
    def used(self) -> int:
        return _amount(self, _USED)


class _DevicePart(msgspec.Struct, frozen=True, gc=False):
    id: Count
    pods: list[_PodPart] | None = None  # Go writes an empty list as null
    health: str = Health.HEALTHY.value
    cordoned: bool = False
    closed: tuple[Closure, ...] = ()

    @property
    def total(self) -> int:
        return _amount(self, _TOTAL)


class NodePart(msgspec.Struct, frozen=True, gc=False):
    """One node of the document, in the form of any vendor."""

    name: str
    unknown_cards: list[UnknownCardPod] = msgspec.field(default=[], name="unknownCards")

    @property
    def cards(self) -> list[_DevicePart]:
        return next((cards for key in _CARD_KEYS if (cards := getattr(self, key))), [])


class _InspectDocument(msgspec.Struct, frozen=True):
    nodes: list[NodePart] | None = None
    error: str = ""


_WORDS = tuple(dict.fromkeys(vendor.device_word for vendor in VENDORS))
_CARD_KEYS = tuple(dict.fromkeys(vendor.inspect.cards for vendor in VENDORS))
_USED, _TOTAL = (tuple(name + word for word in _WORDS) for name in ("used", "total"))


def _amount(part: msgspec.Struct, names: tuple[str, ...]) -> int:
    """Return an amount, which has another key with each vendor; 0 if it has none of them."""
    for name in names:
        amount: int = getattr(part, name)
        if amount:
            return amount
    return 0


def _with_words(base: type[T], names: tuple[str, ...], **lists: type[msgspec.Struct]) -> type[T]:
    """Add to a struct an amount per vendor's device word, and lists of such structs."""
    amounts = [(name, Count, 0) for name in names]
    fields = [*amounts, *((key, GenericAlias(list, (of,)) | None, None) for key, of in lists.items())]
    return cast(type[T], msgspec.defstruct(base.__name__, fields, bases=(base,), frozen=True, gc=False))


_DEVICE = _with_words(_DevicePart, _TOTAL, pods=_with_words(_PodPart, _USED))
_NODE = _with_words(NodePart, (), **dict.fromkeys(_CARD_KEYS, _DEVICE))
INSPECT = BoundedJsonDecoder(
    _with_words(_InspectDocument, (), nodes=_NODE), "the extender's inspect document", limit_bytes=MAX_DOCUMENT_BYTES
)


def decode_document(body: bytes) -> list[NodePart]:
    """Read the document.

    Raises:
        RemoteContractError: this is not an inspect document, or it says that the extender failed.
    """
    document = INSPECT.read(body)
    if document.error:
        raise RemoteContractError(f"the extender answered inspect with an error: {document.error!r}")
    return document.nodes or []
