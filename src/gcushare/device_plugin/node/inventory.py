"""Plans the units that a node offers of its cards: unit, reserve, cordons, and the kubelet's message limit. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import msgspec

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import SERVES_MEMORY, Health, Inventory
from gcushare.core.errors import Refused
from gcushare.core.units import MEMORY_UNIT_NAMES, MemoryUnit, parse_memory_unit
from gcushare.core.wording import counted, some_names
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.node.cards import offer_card
from gcushare.node.node_settings import AUTO_UNIT, NO_RESERVE, Reserve
from gcushare.vendors import Vendor
from gcushare.wire.kubelet.device_ids import (
    KUBELET_MESSAGE_LIMIT_BYTES,
    check_fits_kubelet,
    finest_fitting_unit,
    list_bytes,
)
from gcushare.wire.nodes import is_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """How a node offers its cards: the unit's name or ``auto``, the reserve, the admin's cordons (indexes, uuids).

    ``is_leaving``: the node is to serve claims, so every card counts as cordoned. ``most_units``: above these the
    kubelet is slow, so ``auto`` chooses no unit with more if a coarser one fits.
    """

    vendor: Vendor
    unit: str
    reserve: Reserve = NO_RESERVE
    cordoned: frozenset[str] = frozenset()
    is_leaving: bool = False
    mode: GrantMode = GrantMode.MEMORY
    message_limit_bytes: int = KUBELET_MESSAGE_LIMIT_BYTES
    most_units: int | None = None


def plan_inventory(found: CardsSnapshot, offer: Offer) -> Inventory:
    """Compute what the node offers.

    Raises:
        ConfigError: the unit is not known.
        Refused: no card has a unit; or the units cannot be listed to the kubelet: names unit, cards, bytes, limit and
            the finest unit that fits.
    """
    memory = {each.index: each.memory_bytes for each in found.cards}
    if offer.unit != AUTO_UNIT:
        unit = parse_memory_unit(offer.unit)
    else:
        names = offer.vendor.auto_units
        limit = offer.message_limit_bytes
        finest = finest_fitting_unit(memory, names, limit, offer.most_units)
        finest = finest or finest_fitting_unit(memory, names[:1], limit)  # the coarsest
        if finest is None:
            why = f"none of the units {', '.join(names)} fits"
            raise Refused(_explain(memory, parse_memory_unit(names[0]), offer, why))
        unit = finest
    cordoned = frozenset(each.uuid for each in found.cards) if offer.is_leaving else offer.cordoned
    cards = tuple(offer_card(each, unit, reserve=offer.reserve, cordoned=cordoned) for each in found.cards)
    if offer.mode is GrantMode.MEMORY and cards and not any(card.units for card in cards):
        raise Refused(
            f"no card has as much as one unit, {unit.name!r}, after the reserve: choose a smaller --reserve or a "
            f"finer --memory-unit; card {cards[0].index} has {cards[0].memory_bytes} bytes"
        )
    if SERVES_MEMORY in offer.mode.parts:
        try:
            check_fits_kubelet({card.index: card.units for card in cards}, offer.message_limit_bytes)
        except Refused as refusal:
            raise Refused(_explain(memory, unit, offer, str(refusal))) from refusal
    else:
        check_fits_kubelet({card.index: 0 for card in cards})
    return Inventory(unit=unit, cards=cards, driver=found.driver, left_out=found.left_out, modes=offer.mode.parts)


def keep_inventory(before: Inventory, found: CardsSnapshot, offer: Offer) -> Inventory:
    """Plan the inventory if none of all cards is possible: the cards that are offered already, in their present state.

    Their units stay. A card that was replaced or removed is unhealthy; a card that was added is not offered.
    """
    now = {(each.index, each.uuid): each for each in found.cards}
    cards = []
    for each in before.cards:
        if (card := now.get((each.index, each.uuid))) is None:
            reason = "the card was replaced, or is not listed any more"
            cards.append(msgspec.structs.replace(each, health=Health.UNHEALTHY, reason=reason))
        else:
            is_cordoned = offer.is_leaving or is_named(each, offer.cordoned)
            cards.append(msgspec.structs.replace(each, health=card.health, reason=card.reason, cordoned=is_cordoned))
    return replace(before, cards=tuple(cards), driver=found.driver, left_out=found.left_out)


def _explain(memory: Mapping[int, int], unit: MemoryUnit, offer: Offer, why: str) -> str:
    units_by_card = {index: unit.units_in(size) for index, size in memory.items()}
    total, size = sum(units_by_card.values()), list_bytes(units_by_card)
    fitting = finest_fitting_unit(memory, MEMORY_UNIT_NAMES, offer.message_limit_bytes)
    remedy = f"the finest unit that fits is {fitting.name}" if fitting else "no unit fits: share fewer cards"
    return (
        f"memory unit {unit.name!r} with {counted(len(memory), 'card')} gives {counted(total, 'unit')}, a message "
        f"of {size} bytes of {offer.message_limit_bytes}: {why}; {remedy} (--memory-unit)"
    )


MAX_NAMES = 10
"""Pods named in one message."""


@dataclass(frozen=True, slots=True)
class Holders:
    """The pods that hold units of memory; None if that is not known, and why."""

    pods: Collection[str] | None
    unknown: str = ""


def check_unit_change(before: str | None, now: str, holders: Holders) -> None:
    """Refuse another unit while pods hold units of the old one, and while it is unknown whether any do.

    Raises:
        Refused: names the pods, and what to do.
    """
    if before is None or is_same_unit(before, now):
        return
    change = f"the memory unit changes from {before!r} to {now!r} while"
    if holders.pods is None:
        raise Refused(
            f"{change} it is not known which pods hold units of the old one: {holders.unknown}; solve that, or set "
            f"--memory-unit {before}"
        )
    if holders.pods:
        names = some_names(sorted(holders.pods), MAX_NAMES)
        raise Refused(
            f"{change} pods hold units of the old one ({names}): delete these pods, or set --memory-unit {before}"
        )


def is_same_unit(before: str, now: str) -> bool:
    """Whether two names of units stand for the same amount."""
    return parse_memory_unit(before).per_gib == parse_memory_unit(now).per_gib
