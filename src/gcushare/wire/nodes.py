"""Reads a node's cards from its Node object: the inventory annotation, the cordon annotation and the kubelet's count.

The inventory is JSON, written by the plugin, read by all other programs. Its cards are `core.cards.InventoryCard` as
they are: their bounds are those of a node. A reader refuses a version that it does not know, skips fields that it does
not know, so that a newer plugin may add some, and refuses an inventory beyond the bounds as a whole: anyone with the
right to patch a Node may have written it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from gcushare.core.cards import MAX_CARDS, SERVES_MEMORY, Card, Inventory, InventoryCard, LeftOutCard, UnrecordedHolder
from gcushare.core.errors import ConfigError, Refused, RemoteContractError
from gcushare.core.quantities import parse_count
from gcushare.core.units import MemoryUnit, parse_memory_unit
from gcushare.vendors import VENDORS
from gcushare.vendors.vendor import Vendor
from gcushare.wire.annotations import MAX_RECORD_UNITS
from gcushare.wire.contracts import PODS_PER_THOUSAND
from gcushare.wire.kubelet.device_ids import MAX_MESSAGE_LIMIT_BYTES, check_fits_kubelet
from gcushare.wire.objects import Node
from gcushare.wire.untrusted_json import ANNOTATION_BYTES, BoundedJsonDecoder, Int

INVENTORY_VERSION = 1
MAX_UNRECORDED = 64
"""Holders that are named one by one; the plugin adds up what more of them hold."""
MAX_LEFT_OUT = 1024
_MAX_UNIT = 80
"""Characters that an error quotes of an unknown unit."""
MAX_FALLBACK_CARDS = 64
"""The most cards that are accepted from a node's capacity, without an inventory."""


class _InventoryDocument(msgspec.Struct, omit_defaults=True, frozen=True):
    version: Int
    unit: str
    cards: Annotated[tuple[InventoryCard, ...], msgspec.Meta(max_length=MAX_CARDS)]
    driver: str = ""
    left_out: Annotated[tuple[LeftOutCard, ...], msgspec.Meta(max_length=MAX_LEFT_OUT)] = msgspec.field(
        default=(), name="leftOut"
    )
    modes: tuple[str, ...] = ()
    unrecorded: Annotated[tuple[UnrecordedHolder, ...], msgspec.Meta(max_length=MAX_UNRECORDED)] = ()


INVENTORY = BoundedJsonDecoder(_InventoryDocument, "the inventory annotation", limit_bytes=ANNOTATION_BYTES)


def encode_inventory(inventory: Inventory) -> str:
    """Encode an inventory as the annotation's value. Equal inventories give equal text."""
    document = _InventoryDocument(
        version=INVENTORY_VERSION,
        unit=inventory.unit.name,
        cards=tuple(sorted(inventory.cards, key=lambda card: card.index)),
        driver=inventory.driver,
        left_out=inventory.left_out,
        modes=inventory.modes,
        unrecorded=tuple(
            msgspec.structs.replace(holder, units=dict(sorted(holder.units.items())))
            for holder in sorted(inventory.unrecorded, key=lambda holder: holder.pod)
        ),
    )
    return msgspec.json.encode(document).decode()


def decode_inventory(text: str) -> Inventory:
    """Decode the annotation's value.

    Raises:
        RemoteContractError: not JSON, not the schema, another version, an unknown unit, or beyond a node's limits.
    """
    document = INVENTORY.read(text)
    try:
        unit = parse_memory_unit(document.unit[:_MAX_UNIT])
    except ConfigError as error:
        raise RemoteContractError(f"the inventory annotation cannot be read: {error}") from error
    if document.version != INVENTORY_VERSION:
        raise RemoteContractError(
            f"the inventory annotation has version {document.version}; this program knows {INVENTORY_VERSION}: "
            "bring plugin and extender to the same release"
        )
    indexes = [card.index for card in document.cards]
    if len(set(indexes)) != len(indexes):
        raise RemoteContractError(f"the inventory annotation names cards twice: indexes {indexes}")
    modes = document.modes or (SERVES_MEMORY,)
    if SERVES_MEMORY in modes:
        try:
            # The plugin enforces the node's own limit, which is not known here; this only bounds what others may write.
            check_fits_kubelet({card.index: card.units for card in document.cards}, MAX_MESSAGE_LIMIT_BYTES)
        except Refused as refusal:
            raise RemoteContractError(f"the inventory annotation is beyond a node's limits: {refusal}") from refusal
    return Inventory(
        unit=unit,
        cards=tuple(sorted(document.cards, key=lambda card: card.index)),
        driver=document.driver,
        left_out=document.left_out,
        modes=modes,
        unrecorded=document.unrecorded,
    )


@dataclass(frozen=True, slots=True)
class NodeCards:
    """A node's cards of one vendor. ``unit`` is None if only upstream gpushare's capacity figures are known.

    ``modes`` is what its plugin hands out; only memory without an inventory. ``unrecorded`` are the pods that hold
    cards without a record of their own. ``counted`` is the kubelet's count of memory units. ``distrust`` says why that
    is not the count of these cards; such a node takes no pods.
    """

    cards: tuple[InventoryCard, ...]
    unit: MemoryUnit | None
    modes: tuple[str, ...] = (SERVES_MEMORY,)
    unrecorded: tuple[UnrecordedHolder, ...] = ()
    counted: int = 0
    distrust: str = ""

    @property
    def offered(self) -> tuple[str, ...]:
        """What new pods may get: ``modes``, or nothing."""
        return () if self.distrust else self.modes

    @property
    def is_agreed(self) -> bool:
        """Whether the kubelet counts the units of these cards."""
        return self.counted == sum(card.units for card in self.cards)


def node_cards(
    vendor: Vendor, annotations: Mapping[str, str], capacity: Mapping[str, object], *, agreed: int = 0
) -> NodeCards | None:
    """Read a node's cards; None if it has none of this vendor.

    The inventory annotation is the source. For a node without one (with another system's plugin), the memory capacity
    is divided equally by the card count, as upstream does. ``agreed`` is the count of the kubelet when it was last that
    of the inventory: it may still be shown after the inventory has changed.

    Raises:
        RemoteContractError: the inventory or the capacity cannot be read.
    """
    text = annotations.get(vendor.inventory_annotation)
    if text is None:
        # Without an inventory, another system's plugin serves cards of equal size.
        total = parse_count(capacity.get(vendor.memory_resource, 0))
        counted = parse_count(capacity.get(vendor.count_resource, 0))
        count = cards_of_count(counted)
        if not total or not count:
            return None
        if count > MAX_FALLBACK_CARDS:
            raise RemoteContractError(
                f"{vendor.count_resource} {counted} is not accepted; at most {MAX_FALLBACK_CARDS} cards"
            )
        if total > MAX_RECORD_UNITS:
            raise RemoteContractError(
                f"{vendor.memory_resource} {total} is not accepted; at most {MAX_RECORD_UNITS} units"
            )
        units = total // count
        return NodeCards(
            tuple(InventoryCard(index=i, uuid="", memory_bytes=0, units=units) for i in range(count)), None
        )
    inventory = decode_inventory(text)
    cordoned = parse_card_names(annotations.get(vendor.cordon_annotation, ""))
    cards = tuple(
        card if card.cordoned == is_named(card, cordoned) else msgspec.structs.replace(card, cordoned=not card.cordoned)
        for card in inventory.cards
    )
    counted = parse_count(capacity.get(vendor.memory_resource, 0))
    distrust = _find_distrust(vendor, inventory, counted, agreed)
    return NodeCards(cards, inventory.unit, inventory.modes, inventory.unrecorded, counted, distrust)


def _find_distrust(vendor: Vendor, inventory: Inventory, counted: int, agreed: int) -> str:
    """Say why the kubelet's count is one of another unit, or of another system's plugin; "" if it may be ours.

    The kubelet counts late: for some seconds after cards were added or lost it shows their count of before, which is
    that of 1 to ``MAX_CARDS`` cards. Beyond that only another unit or another system explains the number.
    """
    sizes = [card.units for card in inventory.cards if card.units]
    if SERVES_MEMORY not in inventory.modes or counted in (0, agreed, sum(sizes)):
        return ""
    if sizes and min(sizes) <= counted <= MAX_CARDS * max(sizes):
        return ""
    return (
        f"the kubelet counts {counted} {vendor.memory_resource}, and the inventory has {sum(sizes)} in units of "
        f"{inventory.unit.label}: another system registered this resource, or counts it in another unit"
    )


def cards_of_count(count: int) -> int:
    """Read the number of cards from a Node's count, which is that number or a thousand times that number."""
    return count if count % PODS_PER_THOUSAND else count // PODS_PER_THOUSAND


def parse_card_names(text: str) -> frozenset[str]:
    """Read a comma-separated list of card indexes or uuids, as in the cordon annotation."""
    return frozenset(word.strip() for word in text.split(",")) - {""}


def is_named(card: Card, words: frozenset[str]) -> bool:
    """Whether a card's index or uuid is among ``words``."""
    return str(card.index) in words or bool(card.uuid and card.uuid in words)


def find_vendor(nodes: Collection[Node]) -> Vendor | None:
    """The first vendor whose plugin has left something on one of these nodes."""
    return next((vendor for vendor in VENDORS if any(has_trace(node, vendor) for node in nodes)), None)


def has_trace(node: Node, vendor: Vendor) -> bool:
    """Whether a plugin of this vendor has left something on a node."""
    names = (vendor.memory_resource, vendor.count_resource)
    return vendor.inventory_annotation in node.metadata.annotations or any(
        node.status.capacity.get(name, "0") != "0" for name in names
    )
