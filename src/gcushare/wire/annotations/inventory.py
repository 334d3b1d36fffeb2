"""The inventory annotation: a node's cards as JSON, written by the plugin and read by all other programs.

A reader refuses an unknown version. It skips unknown fields, so that a newer plugin may add some. Anyone with the right
to patch Nodes may have written the annotation, so an inventory beyond the documented limits of a node is refused.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from gcushare.core.cards import (
    SERVES_MEMORY,
    Card,
    Closure,
    Health,
    Inventory,
    InventoryCard,
    LeftOutCard,
    UnrecordedHolder,
)
from gcushare.core.errors import ConfigError, Refused, RemoteContractError
from gcushare.core.units import parse_memory_unit
from gcushare.wire.kubelet.device_ids import MAX_CARDS, MAX_MESSAGE_LIMIT_BYTES, check_fits_kubelet
from gcushare.wire.untrusted_json import ANNOTATION_BYTES, BoundedJsonDecoder, Count, Int

INVENTORY_VERSION = 1
MAX_UNRECORDED = 64
"""Holders listed one by one. The plugin sums up the rest."""

MAX_INVENTORY_UNITS = 10_000_000
"""Units of a card on a node that serves only whole cards. They are for display; the kubelet's limit does not apply."""
MAX_LEFT_OUT = 1024

_Units: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_INVENTORY_UNITS)]
_MAX_WORD = 80
"""Characters of an unknown value that an error quotes."""
_CardIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MAX_CARDS)]


class ClosureDocument(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """A `Closure` as JSON, here and in documents. ``until`` is omitted while no time is known."""

    use: str
    pod: str
    until: Count = 0

    @classmethod
    def of(cls, closure: Closure) -> ClosureDocument:
        """Convert a closure to its document."""
        return cls(closure.use, closure.pod, closure.until)

    def read(self) -> Closure:
        """Convert the document to a closure."""
        return Closure(use=self.use, pod=self.pod, until=self.until)


class _CardDocument(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    index: _CardIndex
    uuid: str
    memory: Count
    units: _Units
    reserved: _Units = 0
    health: str = "Healthy"
    reason: str = ""
    cordoned: bool = False
    model: str = ""
    serial: str = ""
    pci: str = ""
    numa: Count | None = None
    link: str = ""
    closed: list[ClosureDocument] = msgspec.field(default_factory=list)


class LeftOutDocument(msgspec.Struct, frozen=True, gc=False):
    """A `LeftOutCard` as JSON."""

    index: Count
    uuid: str
    reason: str

    @classmethod
    def of(cls, card: LeftOutCard) -> LeftOutDocument:
        """Convert a card to its document."""
        return cls(card.index, card.uuid, card.reason)


class _HolderDocument(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    pod: str
    units: dict[_CardIndex, _Units] = msgspec.field(default_factory=dict)
    whole: list[_CardIndex] = msgspec.field(default_factory=list)


class _InventoryDocument(msgspec.Struct, omit_defaults=True, frozen=True):
    version: Int
    unit: str
    cards: Annotated[list[_CardDocument], msgspec.Meta(max_length=MAX_CARDS)]
    driver: str = ""
    left_out: Annotated[list[LeftOutDocument], msgspec.Meta(max_length=MAX_LEFT_OUT)] = msgspec.field(
        default_factory=list, name="leftOut"
    )
    modes: list[str] = msgspec.field(default_factory=list)
    unrecorded: Annotated[list[_HolderDocument], msgspec.Meta(max_length=MAX_UNRECORDED)] = msgspec.field(
        default_factory=list
    )


INVENTORY = BoundedJsonDecoder(_InventoryDocument, "the inventory annotation", limit_bytes=ANNOTATION_BYTES)
_encoder = msgspec.json.Encoder()


def encode_inventory(inventory: Inventory) -> str:
    """Encode an inventory as the annotation's value. Equal inventories give equal text."""
    document = _InventoryDocument(
        version=INVENTORY_VERSION,
        unit=inventory.unit.name,
        cards=[_card_document(card) for card in sorted(inventory.cards, key=lambda card: card.index)],
        driver=inventory.driver,
        left_out=[LeftOutDocument.of(card) for card in inventory.left_out],
        modes=list(inventory.modes),
        unrecorded=[
            _HolderDocument(holder.pod, dict(sorted(holder.units.items())), sorted(holder.whole))
            for holder in sorted(inventory.unrecorded, key=lambda holder: holder.pod)
        ],
    )
    return _encoder.encode(document).decode()


def decode_inventory(text: str) -> Inventory:
    """Decode the annotation's value.

    Raises:
        RemoteContractError: not JSON, not the schema, another version, an unknown unit, or beyond a node's limits.
    """
    document = INVENTORY.read(text)
    try:
        unit = parse_memory_unit(document.unit[:_MAX_WORD])
        cards = tuple(_inventory_card(card) for card in document.cards)
    except (ConfigError, ValueError) as error:
        raise RemoteContractError(f"the inventory annotation cannot be read: {error}") from error
    if document.version != INVENTORY_VERSION:
        raise RemoteContractError(
            f"the inventory annotation has version {document.version}; this program knows {INVENTORY_VERSION}: "
            "bring plugin and extender to the same release"
        )
    indexes = [card.index for card in cards]
    if len(set(indexes)) != len(indexes):
        raise RemoteContractError(f"the inventory annotation names cards twice: indexes {indexes}")
    modes = tuple(document.modes) or (SERVES_MEMORY,)
    if SERVES_MEMORY in modes:
        try:
            # The node's own message limit is unknown here and checked by its plugin. This is only an upper bound.
            check_fits_kubelet({card.index: card.units for card in cards}, MAX_MESSAGE_LIMIT_BYTES)
        except Refused as refusal:
            raise RemoteContractError(f"the inventory annotation is beyond a node's limits: {refusal}") from refusal
    return Inventory(
        unit=unit,
        cards=tuple(sorted(cards, key=lambda card: card.index)),
        driver=document.driver,
        left_out=tuple(LeftOutCard(index=c.index, uuid=c.uuid, reason=c.reason) for c in document.left_out),
        modes=modes,
        unrecorded=tuple(
            UnrecordedHolder(pod=holder.pod, units=holder.units, whole=tuple(holder.whole))
            for holder in document.unrecorded
        ),
    )


def _card_document(offered: InventoryCard) -> _CardDocument:
    card = offered.card
    return _CardDocument(
        index=card.index,
        uuid=card.uuid,
        memory=card.memory_bytes,
        units=offered.units,
        reserved=offered.reserved_units,
        health=offered.health.value,
        reason=offered.reason,
        cordoned=offered.cordoned,
        model=card.model,
        serial=card.serial,
        pci=card.pci_address,
        numa=card.numa_node,
        link=card.link_group,
        closed=[ClosureDocument.of(closure) for closure in offered.closures],
    )


def _inventory_card(document: _CardDocument) -> InventoryCard:
    return InventoryCard(
        card=Card(
            index=document.index,
            uuid=document.uuid,
            memory_bytes=document.memory,
            model=document.model,
            serial=document.serial,
            pci_address=document.pci,
            numa_node=document.numa,
            link_group=document.link,
        ),
        units=document.units,
        reserved_units=document.reserved,
        health=Health(document.health[:_MAX_WORD]),
        reason=document.reason,
        cordoned=document.cordoned,
        closures=tuple(each.read() for each in document.closed),
    )
