"""What an admin chooses by settings: apart from the modules that act on it, so that ``--help`` does not load those."""

from __future__ import annotations

import enum

from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE
from gcushare.vendors import Vendor
from gcushare.wire.contracts import PODS_PER_THOUSAND

DEFAULT_LONGEST_WAIT_S = 600.0
"""What an author's time to end counts at most: a training that writes a checkpoint at its end takes minutes."""


class Mode(enum.Enum):
    """What a node's cards are granted by: units of memory, whole cards, or both on one ledger."""

    MEMORY = SERVES_MEMORY
    WHOLE = SERVES_WHOLE
    BOTH = "both"

    @property
    def parts(self) -> tuple[str, ...]:
        """The ways, as the inventory names them."""
        return BOTH_MODES if self is Mode.BOTH else (self.value,)


class CardCount(enum.Enum):
    """The number on the Node: of cards, or a thousand for each, which no node's pods ever use up."""

    AUTO = "auto"
    EXACT = "exact"
    THOUSANDS = "thousands"

    def pods_per_count(self, vendor: Vendor) -> int:
        """How many pods may ask for one card each before the number keeps the next one out."""
        if self is CardCount.AUTO:
            return vendor.pods_per_count
        return PODS_PER_THOUSAND if self is CardCount.THOUSANDS else 1
