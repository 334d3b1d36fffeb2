"""The inventory annotation: one node's cards as JSON, written by the plugin, read by all other programs.

The cards are `core.cards.InventoryCard` as they are: their bounds are those of a node. A reader refuses a version that
it does not know, skips fields that it does not know, so that a newer plugin may add some, and refuses an inventory
beyond the bounds as a whole: anyone with the right to patch a Node may have written it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from gcushare.core.bounds import MAX_CARDS
from gcushare.core.cards import SERVES_MEMORY, Inventory, InventoryCard, LeftOutCard, UnrecordedHolder
from gcushare.core.errors import ConfigError, Refused, RemoteContractError
from gcushare.core.units import parse_memory_unit
from gcushare.wire.kubelet.device_ids import MAX_MESSAGE_LIMIT_BYTES, check_fits_kubelet
from gcushare.wire.untrusted_json import ANNOTATION_BYTES, BoundedJsonDecoder, Int

INVENTORY_VERSION = 1
MAX_UNRECORDED = 64
"""Holders that are named one by one; the plugin adds up what more of them hold."""
MAX_LEFT_OUT = 1024
_MAX_WORD = 80
"""Characters that an error quotes of an unknown unit."""


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
_encoder = msgspec.json.Encoder()


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
    return _encoder.encode(document).decode()


def decode_inventory(text: str) -> Inventory:
    """Decode the annotation's value.

    Raises:
        RemoteContractError: not JSON, not the schema, another version, an unknown unit, or beyond a node's limits.
    """
    document = INVENTORY.read(text)
    try:
        unit = parse_memory_unit(document.unit[:_MAX_WORD])
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
