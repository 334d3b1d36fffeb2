"""Bounds on what a vendor's library reports, because every program of the cluster reads it.

A library that is broken, or that belongs to another driver, returns what was in memory. A card with impossible numbers
is left out with the reason, and an impossible figure is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError
from gcushare.core.wording import counted

MAX_LISTED = 1024
"""Cards of one library. A machine has at most 16 that are shared."""
MAX_BYTES = 1 << 43
"""Memory of a card or a process: 8 TiB, some thirty times the largest card."""
MAX_INDEX = 1023
_MAX_TEXT = 256
_MAX_FIGURE = 1e6
"""Degrees, watts and percents."""


def check_count(count: int) -> int:
    """Check how many cards a library reports.

    Raises:
        DeviceError: no machine has so many.
    """
    if not 0 <= count <= MAX_LISTED:
        raise DeviceError(
            f"the library reports {counted(count, 'card')}; at most {MAX_LISTED} are accepted: does it belong to "
            "this driver?"
        )
    return count


def sanitize_card(card: Card | LeftOutCard, slot: int) -> Card | LeftOutCard:
    """The card with its texts cut; left out if its numbers are impossible."""
    uuid = card.uuid[:_MAX_TEXT]
    if isinstance(card, LeftOutCard):
        index = card.index if 0 <= card.index <= MAX_INDEX else slot
        return LeftOutCard(index=index, uuid=uuid, reason=card.reason[: 4 * _MAX_TEXT])
    if not 0 <= card.memory_bytes <= MAX_BYTES:
        return _left_out(slot, uuid, f"{card.memory_bytes} bytes of memory; at most {MAX_BYTES}")
    if not 0 <= card.driver_bytes <= card.memory_bytes:
        card = msgspec.structs.replace(card, driver_bytes=0)
    if not 0 <= card.index <= MAX_INDEX:
        return _left_out(slot, uuid, f"index {card.index}; at most {MAX_INDEX}")
    texts = {name: text[:_MAX_TEXT] for name, text in msgspec.structs.asdict(card).items() if isinstance(text, str)}
    return msgspec.structs.replace(card, **texts)


def sanitize_use(use: CardUse) -> CardUse:
    """Drop each figure that no card can have, and cut long texts.

    The rules go by a value's type, so that a new field of `CardUse` needs no edit here.
    """
    return CardUse(**{each.name: _sanitize(getattr(use, each.name)) for each in fields(use)})


def _left_out(slot: int, uuid: str, what: str) -> LeftOutCard:
    return LeftOutCard(index=slot, uuid=uuid, reason=f"the library reports {what} are accepted")


def _sanitize(value: Any) -> Any:
    match value:
        case str():
            return value[:_MAX_TEXT]
        case int():  # bytes; also bool, which is 0 or 1
            return value if 0 <= value <= MAX_BYTES else None
        case float():
            return value if abs(value) <= _MAX_FIGURE else None
        case Mapping():
            return {pid: found for pid, each in value.items() if (found := _sanitize(each)) is not None}
    return value
