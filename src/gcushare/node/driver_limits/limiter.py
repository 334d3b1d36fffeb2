"""Decide on which cards the driver keeps limits, and what containers get so that their programs see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gcushare.core.cards import Card, InventoryCard
from gcushare.core.units import MemoryUnit
from gcushare.node.memory_limiter import NO_LIMITS, ContainerLimits, MemoryLimiter
from gcushare.node.node_settings import Fallback

LIMIT_VARIABLE = "NVIDIA_GPU_MEMORY_LIMIT"
"""Whole MiB: NVIDIA's container toolkit sets them as the hard limit of the container's own group. Its sister with
REQUEST in place of LIMIT would set a soft limit, which the driver adds to all groups above."""
_MIB = 1 << 20


class DriverLimiter(MemoryLimiter):
    """Limits memory by the driver. `DriverLimits` keeps the fields up to date."""

    def __init__(self, fallback: Fallback) -> None:
        super().__init__(fallback)
        self.node_problem = "it was not checked yet whether the driver keeps memory limits"
        self.card_problems: dict[str, str] = {}
        """By uuid, why the driver keeps no limits on that card."""
        self.is_hierarchical = False
        """Whether the kernel's controller keeps them: only then a container's own limit stays within its pod's."""

    def problem_of(self, card: Card) -> str:
        return self.node_problem or self.card_problems.get(card.uuid, "")

    def limit(
        self,
        cards: Sequence[InventoryCard],
        units: Mapping[int, int],
        unit: MemoryUnit,
        *,
        usable: Mapping[int, int] | None = None,
        by_memory: bool = False,
    ) -> ContainerLimits:
        if not self.is_hierarchical or any(map(self.problem_of, cards)):
            return NO_LIMITS
        usable = usable or units
        least = min(unit.bytes_of(usable[card.index]) for card in cards)  # the variable has one amount for all cards
        return ContainerLimits({LIMIT_VARIABLE: str(max(1, least // _MIB))}, {})
