"""The cards of a node: how they are read and watched, by the settings, and the units of each that may be granted."""

from __future__ import annotations

import msgspec

from gcushare.cards.health import BAD_READINGS, STALE_AFTER_S, HealthPolicy
from gcushare.cards.monitor import MonitorSettings
from gcushare.cards.selection import SourceOptions
from gcushare.core.cards import InventoryCard
from gcushare.core.units import MemoryUnit
from gcushare.node.node_settings import CardSourceSettings, HealthSettings, Reserve
from gcushare.wire.nodes import is_named


def source_options(cards: CardSourceSettings, health: HealthSettings) -> SourceOptions:
    """Where the cards come from, for the package that reads them."""
    return SourceOptions(
        cards=cards.cards,
        libraries=cards.card_library,
        prefer=cards.vendor.library.name,
        extra_application_xids=health.application_xids,
        unified_memory=cards.unified_memory,
    )


def monitor_settings(cards: CardSourceSettings, *, by_uuid: bool) -> MonitorSettings:
    """How the cards are watched; ``by_uuid``: whether grants follow a card, see `grant_form.follow_cards`."""
    policy = HealthPolicy(stale_after_s=longest_silence_s(cards))
    return MonitorSettings(poll_interval_s=cards.poll_interval, policy=policy, by_uuid=by_uuid)


def longest_silence_s(cards: CardSourceSettings) -> float:
    """How long a reading holds. Polls may be an hour apart: one that is missed must not turn every card sick."""
    return max(STALE_AFTER_S, BAD_READINGS * cards.poll_interval)


def offer_card(found: InventoryCard, unit: MemoryUnit, *, reserve: Reserve, cordoned: frozenset[str]) -> InventoryCard:
    """Count a card's units; ``cordoned`` are the admin's cordons, as numbers or uuids."""
    memory_bytes = found.memory_bytes
    total = unit.units_in(memory_bytes)
    if not reserve.is_auto:
        units = total - min(total, unit.units_covering(reserve.of(memory_bytes)))
    else:
        # What fits no whole unit covers what the driver keeps, where it can.
        units = unit.units_in(max(0, memory_bytes - found.driver_bytes))
    is_cordoned = is_named(found, cordoned)
    return msgspec.structs.replace(found, units=units, reserved_units=total - units, cordoned=is_cordoned)
