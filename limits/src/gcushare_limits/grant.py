"""Reads the container's grant from its environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

_BYTES = "GCUSHARE_CONTAINER_USABLE_GLOBAL_MEM"
"""The bytes that the container may use, of all its cards together."""
_CARD_BYTES = "GCUSHARE_CARD_MEMORY_BYTES"
"""The whole memory of one of its cards."""
_UNITS = (
    ("ALIYUN_COM_GPU_MEM_CONTAINER", "ALIYUN_COM_GPU_MEM_DEV", "ALIYUN_COM_GPU_MEM_IDX"),
    ("ENFLAME_COM_GCU_MEM_CONTAINER", "ENFLAME_COM_GCU_MEM_DEV", "ENFLAME_COM_GCU_MEM_IDX"),
)
"""Units granted, units of one card, and the cards' indexes with commas."""


@dataclass(frozen=True)
class Grant:
    """``bytes_per_card`` of each of ``cards`` cards, which is ``fraction`` of its memory."""

    bytes_per_card: int
    cards: int
    fraction: float


def share_text(fraction: float) -> str:
    """Format a share with four decimals, rounded down, so that it never exceeds the grant."""
    return f"{int(fraction * 10_000) / 10_000:.4f}"


def read_grant(environ: Mapping[str, str] = os.environ) -> Grant | None:
    """Read the grant; None if the variables are missing or malformed."""
    words = next((names for names in _UNITS if names[0] in environ), None)
    if words is None:
        return None
    try:
        total, card_units, units = int(environ[_BYTES]), int(environ[words[1]]), int(environ[words[0]])
        cards = len(environ[words[2]].split(","))
        card_bytes = int(environ.get(_CARD_BYTES, "0"))
    except (KeyError, ValueError):
        return None
    if min(total, card_units, units) <= 0:
        return None
    per_card = total // cards
    # A plugin of an older release does not set the card's size. Then its units are used, which exclude a reserve.
    share = per_card / card_bytes if card_bytes > 0 else units / cards / card_units
    return Grant(per_card, cards, min(1.0, share))
