"""Enums of settings, separate from the modules that use them, so that ``--help`` does not import those."""

from __future__ import annotations

import enum

from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE
from gcushare.vendors import Vendor
from gcushare.wire.contracts import PODS_PER_THOUSAND


class Mode(enum.Enum):
    """What a node's cards are granted as: memory units, whole cards, or both from one ledger."""

    MEMORY = SERVES_MEMORY
    WHOLE = SERVES_WHOLE
    BOTH = "both"

    @property
    def parts(self) -> tuple[str, ...]:
        """The modes as in the inventory."""
        return BOTH_MODES if self is Mode.BOTH else (self.value,)


class Bursts(enum.Enum):
    """Whether a pod may use more than its grant, up to its annotation gcushare.io/memory-limit.

    ``AUTO``: unless MPS limits memory and nothing evicts pods. Its author could then raise a limit that the admin set,
    and nothing would take the memory back.
    """

    AUTO = "auto"
    ALLOW = "allow"
    IGNORE = "ignore"


class CardCount(enum.Enum):
    """The count on the Node: one per card, or a thousand per card, which a node's pods can never use up."""

    AUTO = "auto"
    EXACT = "exact"
    THOUSANDS = "thousands"

    def pods_per_count(self, vendor: Vendor) -> int:
        """The count per card: how many pods that request a count of 1 fit on each card."""
        if self is CardCount.AUTO:
            return vendor.pods_per_count
        return PODS_PER_THOUSAND if self is CardCount.THOUSANDS else 1
