"""The pods of this node that have cards, as use per pod, over-use, limits and reports need them.

The device plugin's pod store and the claims driver's pods fit; each learns of its pods in its own way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from gcushare.core.nodes import PodRef

CardCounts = Mapping[int, int]
"""Units (ids) per card index; 1 per card that is held whole."""
NO_SIZES: CardCounts = {}


class PodWithCards(Protocol):
    """One bound pod that was granted cards, or for which cards are kept."""

    @property
    def ref(self) -> PodRef: ...

    @property
    def annotations(self) -> Mapping[str, str]: ...

    @property
    def machine_uid(self) -> str:
        """The uid in its processes' control groups if that is not the one of ``ref``, else ""."""

    @property
    def is_static(self) -> bool: ...

    @property
    def is_whole(self) -> bool:
        """Whether it has its cards whole."""

    @property
    def limit(self) -> int:
        """The units of each card that it may use while no other pod needs them; 0 if only those it was granted."""

    @property
    def taken_cards(self) -> tuple[int, ...]:
        """The cards that it holds."""

    @property
    def placed_s(self) -> float:
        """When it was given its cards, in seconds since the epoch; not later than that."""

    @property
    def ends_at_s(self) -> float | None:
        """When its containers have to end, in seconds since the epoch; None if its deletion was not requested."""

    def overdue_since_s(self, longest_wait_s: float) -> float | None:
        """When a pod that is being deleted should have ended, given at most this time; None if it is not deleted."""

    def units_by_card(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """The units of each card that it holds; of a whole card as many as ``sizes`` has."""

    def entitled_units(self) -> Mapping[int, int]:
        """Units that it may use beyond those that it is known to hold already, by card."""


class NodePods(Protocol):
    """All of them."""

    @property
    def entries(self) -> Mapping[str, PodWithCards]:
        """The pods by uid."""

    def held_units(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """Units per card that are given out; ``sizes`` are the units of whole cards."""

    def unrecorded_units(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """Those of them that no pod's record names."""

    def promised(self) -> Mapping[int, int]:
        """Units per card that are kept for pods that hold nothing yet."""

    def promised_whole(self) -> Collection[int]:
        """The cards that are kept whole for such pods."""

    def doubt_of(self, index: int) -> str:
        """Why it is uncertain what pods hold of a card; "" if it is certain."""
