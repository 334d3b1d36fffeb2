"""What one container is given: its cards, its share of their memory, and the variables that say so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gcushare.core.cards import InventoryCard
from gcushare.core.units import MemoryUnit
from gcushare.core.wording import index_text
from gcushare.node.node_settings import Strategy
from gcushare.vendors import Vendor

CONTAINER_BYTES = "GCUSHARE_CONTAINER_USABLE_GLOBAL_MEM"
"""The bytes of memory that the container may use, of all its cards together."""
CARD_BYTES = "GCUSHARE_CARD_MEMORY_BYTES"
"""The whole memory of the container's card (the first of several): what a framework takes a fraction of."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container was given: ``units`` of memory, or its cards whole. ``pod_units``: None if they are ambiguous.

    ``shares_threads``: its pod asked for compute in proportion to its memory. ``limit``: the units that the container
    may use while no other pod needs them; 0 if only those that it was granted.
    """

    cards: tuple[InventoryCard, ...]
    units: int
    pod_units: int | None = None
    whole: bool = False
    shares_threads: bool = False
    limit: int = 0

    @property
    def usable_units(self) -> int:
        """The units that the container's processes are limited to."""
        return max(self.units, self.limit)


def container_variables(
    vendor: Vendor, strategies: Collection[Strategy], grant: Grant, unit: MemoryUnit
) -> Mapping[str, str]:
    """The variables of one container, by name."""
    names = vendor.environment
    variables: dict[str, str] = {}
    if Strategy.ENV in strategies:
        variables[names.visible] = ",".join(
            card.uuid if vendor.visible_by_uuid and card.uuid else str(card.minor_number) for card in grant.cards
        )
    elif names.hidden:
        # The cards come another way, and an image's own value would add all of them where the toolkit reads it.
        variables[names.visible] = names.hidden
    if not grant.whole:
        pod_units = grant.units if grant.pod_units is None else grant.pod_units
        variables[names.card_index] = index_text(card.index for card in grant.cards)
        variables[names.card_units] = str(grant.cards[0].units)
        variables[names.pod_units] = str(pod_units)
        variables[names.container_units] = str(grant.units)
        variables[CONTAINER_BYTES] = str(unit.bytes_of(grant.usable_units))
        variables[CARD_BYTES] = str(max(card.memory_bytes for card in grant.cards))
    return variables


def device_paths(vendor: Vendor, grant: Grant) -> tuple[str, ...]:
    """The device nodes of one container: its cards' and those that every container needs."""
    nodes = vendor.device_nodes
    return (*(nodes.card.format(index=card.minor_number) for card in grant.cards), *nodes.control)
