"""The inventory annotation: one node's cards as JSON, written by the plugin, read by everybody else.

A version number leads; a reader refuses a version it does not know instead of guessing. Unknown fields are skipped,
so that a newer plugin may add some.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.core.units import parse_memory_unit

INVENTORY_VERSION = 1
MAX_UNRECORDED = 64
"""Holders named one by one; the plugin adds up what more of them have."""
_MOST = 10_000_000
"""Units of one card: far more than any has, as for records."""


class _ClosureDocument(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    use: str
    pod: str
    until: int = 0


class _CardDocument(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    index: int
    uuid: str
    memory: int
    units: int
    reserved: int = 0
    health: str = "Healthy"
    reason: str = ""
    cordoned: bool = False
    model: str = ""
    serial: str = ""
    pci: str = ""
    numa: int | None = None
    link: str = ""
    closed: list[_ClosureDocument] = msgspec.field(default_factory=list)


class _LeftOutDocument(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    index: int
    uuid: str
    reason: str


class _HolderDocument(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    pod: str
    units: dict[int, int] = msgspec.field(default_factory=dict)
    whole: list[int] = msgspec.field(default_factory=list)


class _InventoryDocument(msgspec.Struct, omit_defaults=True, frozen=True):
    version: int
    unit: str
    cards: list[_CardDocument]
    driver: str = ""
    left_out: list[_LeftOutDocument] = msgspec.field(default_factory=list, name="leftOut")
    modes: list[str] = msgspec.field(default_factory=list)
    unrecorded: list[_HolderDocument] = msgspec.field(default_factory=list)


_decoder = msgspec.json.Decoder(_InventoryDocument)
_encoder = msgspec.json.Encoder()


def encode_inventory(inventory: Inventory) -> str:
    """Write an inventory as the annotation's value; equal inventories give equal text."""
    document = _InventoryDocument(
        version=INVENTORY_VERSION,
        unit=inventory.unit.name,
        cards=[_card_document(card) for card in sorted(inventory.cards, key=lambda card: card.index)],
        driver=inventory.driver,
        left_out=[_LeftOutDocument(card.index, card.uuid, card.reason) for card in inventory.left_out],
        modes=list(inventory.modes),
        unrecorded=[
            _HolderDocument(holder.pod, dict(sorted(holder.units.items())), sorted(holder.whole))
            for holder in sorted(inventory.unrecorded, key=lambda holder: holder.pod)
        ],
    )
    return _encoder.encode(document).decode()


def decode_inventory(text: str) -> Inventory:
    """Read the annotation's value.

    Raises:
        RemoteContractError: not JSON, not the schema, another version, an unknown unit, or impossible numbers.
    """
    try:
        document = _decoder.decode(text)
        unit = parse_memory_unit(document.unit)
        cards = tuple(_inventory_card(card) for card in document.cards)
    except (msgspec.DecodeError, ConfigError, ValueError) as error:
        raise RemoteContractError(f"the inventory annotation cannot be read: {error}") from error
    if document.version != INVENTORY_VERSION:
        raise RemoteContractError(
            f"the inventory annotation has version {document.version}; this program knows {INVENTORY_VERSION}: "
            "bring plugin and extender to the same release"
        )
    indexes = [card.index for card in cards]
    if len(set(indexes)) != len(indexes) or any(c.index < 0 or c.units < 0 or c.reserved_units < 0 for c in cards):
        raise RemoteContractError(f"the inventory annotation names cards twice or below zero: indexes {indexes}")
    _check_holders(document.unrecorded)
    return Inventory(
        unit=unit,
        cards=tuple(sorted(cards, key=lambda card: card.index)),
        driver=document.driver,
        left_out=tuple(LeftOutCard(index=c.index, uuid=c.uuid, reason=c.reason) for c in document.left_out),
        modes=tuple(document.modes) or (SERVES_MEMORY,),
        unrecorded=tuple(
            UnrecordedHolder(pod=holder.pod, units=holder.units, whole=tuple(holder.whole))
            for holder in document.unrecorded
        ),
    )


def _check_holders(holders: Sequence[_HolderDocument]) -> None:
    """Check what holders have.

    Raises:
        RemoteContractError: more of them than a plugin writes, or amounts that no card has.
    """
    if len(holders) > MAX_UNRECORDED:
        raise RemoteContractError(
            f"the inventory annotation names {len(holders)} holders without a record; at most {MAX_UNRECORDED}"
        )
    for holder in holders:
        indexes = (*holder.units, *holder.whole)
        wrong = [index for index in indexes if index < 0] or [u for u in holder.units.values() if not 0 <= u <= _MOST]
        if wrong:
            raise RemoteContractError(
                f"the inventory annotation gives {holder.pod[:80]!r} the impossible card or units {wrong[0]}; cards "
                f"are numbered from 0, and units are at most {_MOST}"
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
        closed=[_ClosureDocument(closure.use, closure.pod, closure.until) for closure in offered.closures],
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
        health=Health(document.health),
        reason=document.reason,
        cordoned=document.cordoned,
        closures=tuple(Closure(use=each.use, pod=each.pod, until=each.until) for each in document.closed),
    )
