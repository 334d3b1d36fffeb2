"""What is believed of a vendor's library: its answers are written into what every program of the cluster reads.

A library that is broken, or meant for another driver, answers with what stood in memory. A card that cannot be is left
out with the reason; a figure that cannot be is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError

MAX_LISTED = 1024
"""Cards of one library; a machine has at most 16 that are shared, and the rest would be left out one by one."""
MAX_BYTES = 1 << 43
"""Of memory, on a card or of a process: 8 TiB, some thirty times what there is."""
MAX_INDEX = 1023
_MAX_TEXT = 256
_MAX_FIGURE = 1e6
"""Of degrees, watts and percent."""
MAX_STATE = 15
"""Of performance states; NVML says 32 where it does not know."""


def believed_count(count: int) -> int:
    """Check how many cards a library reports.

    Raises:
        DeviceError: nothing has so many.
    """
    if not 0 <= count <= MAX_LISTED:
        raise DeviceError(
            f"the library reports {count} cards; at most {MAX_LISTED} are believed: is it of this driver?"
        )
    return count


def believed_card(card: Card, slot: int) -> Card | LeftOutCard:
    """The card with its texts cut to what people read; left out where its numbers cannot be."""
    uuid = card.uuid[:_MAX_TEXT]
    if not 0 <= card.memory_bytes <= MAX_BYTES:
        return _unbelievable(slot, uuid, f"{card.memory_bytes} bytes of memory; at most {MAX_BYTES}")
    if not 0 <= card.index <= MAX_INDEX:
        return _unbelievable(slot, uuid, f"index {card.index}; at most {MAX_INDEX}")
    return replace(
        card,
        uuid=uuid,
        model=card.model[:_MAX_TEXT],
        serial=card.serial[:_MAX_TEXT],
        pci_address=card.pci_address[:_MAX_TEXT],
        link_group=card.link_group[:_MAX_TEXT],
        limit_problem=card.limit_problem[:_MAX_TEXT],
    )


def believed_left_out(card: LeftOutCard, slot: int) -> LeftOutCard:
    """The card within the same bounds."""
    index = card.index if 0 <= card.index <= MAX_INDEX else slot
    return replace(card, index=index, uuid=card.uuid[:_MAX_TEXT], reason=card.reason[: 4 * _MAX_TEXT])


def believed_use(use: CardUse) -> CardUse:
    """The figures without those that cannot be."""
    used, state = use.memory_used_bytes, use.performance_state
    return CardUse(
        memory_used_bytes=used if used is not None and 0 <= used <= MAX_BYTES else None,
        temperature_celsius=_figure(use.temperature_celsius),
        power_watts=_figure(use.power_watts),
        utilization_percent=_figure(use.utilization_percent),
        fan_percent=_figure(use.fan_percent),
        performance_state=state if state is not None and 0 <= state <= MAX_STATE else None,
        compute_mode=use.compute_mode and use.compute_mode[:_MAX_TEXT],
        ecc=use.ecc,
        mig=use.mig,
        processes=_believed_sizes(use.processes),
        peaks=_believed_sizes(use.peaks),
    )


def _unbelievable(slot: int, uuid: str, what: str) -> LeftOutCard:
    return LeftOutCard(index=slot, uuid=uuid, reason=f"the library reports {what} are believed")


def _believed_sizes(sizes: Mapping[int, int] | None) -> dict[int, int] | None:
    """Bytes by process id, without those that cannot be."""
    if sizes is None:
        return None
    return {pid: used for pid, used in sizes.items() if pid >= 0 and 0 <= used <= MAX_BYTES}


def _figure(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and abs(value) <= _MAX_FIGURE else None
