"""How many cards the Node's capacity shows, in a resource that pods may ask for beside memory."""

from __future__ import annotations

from enum import Enum

from gcushare.vendors import Vendor
from gcushare.wire.nodes import PODS_PER_THOUSAND


class CardCount(Enum):
    """The number on the Node: of cards, or a thousand for each, which no node's pods ever use up."""

    AUTO = "auto"
    EXACT = "exact"
    THOUSANDS = "thousands"

    def pods_per_count(self, vendor: Vendor) -> int:
        """How many pods may ask for one card each before the number keeps the next one out."""
        if self is CardCount.AUTO:
            return vendor.pods_per_count
        return PODS_PER_THOUSAND if self is CardCount.THOUSANDS else 1
