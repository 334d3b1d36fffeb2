"""What of one card may be granted: its whole units, without the reserve."""

from __future__ import annotations

import msgspec

from gcushare.core.cards import InventoryCard
from gcushare.core.units import MemoryUnit
from gcushare.node.choices import Reserve
from gcushare.wire.nodes import is_named


def offer_card(found: InventoryCard, unit: MemoryUnit, *, reserve: Reserve, cordoned: frozenset[str]) -> InventoryCard:
    """Count a card's units; ``cordoned`` are the admin's cordons, as indexes or uuids."""
    memory_bytes = found.memory_bytes
    total = unit.units_in(memory_bytes)
    reserved = min(total, unit.units_covering(reserve.of(memory_bytes)))
    is_cordoned = is_named(found, cordoned)
    return msgspec.structs.replace(found, units=total - reserved, reserved_units=reserved, cordoned=is_cordoned)
