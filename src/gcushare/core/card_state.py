"""The state of one card in the ledger: its two uses, what pods hold of it, and what a request may get of it."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from typing import NamedTuple

from gcushare.core.assignments import ApartGroup, CardGrant
from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY, SERVES_WHOLE, InventoryCard
from gcushare.core.requests import CardRequest, CardSelection
from gcushare.core.whole_cards import LINKED, closeness


class CardMode(enum.Enum):
    """How a card is used. Shared and whole use exclude each other."""

    FREE = "free"
    SHARED = "shared"
    WHOLE = "whole"


class Use(NamedTuple):
    """One of a card's two uses, memory or whole.

    ``is_offered`` by the node's plugin, ``is_open`` to new pods of the extender, ``is_shown_open`` also to those that
    get it by a claim. Room is what is left of an open card: ``grantable``, or ``is_empty``.
    """

    is_offered: bool = True
    is_open: bool = False
    is_shown_open: bool = False

    @classmethod
    def of(cls, use: str, card: InventoryCard | None, modes: Collection[str]) -> Use:
        is_offered, takes = use in modes, card is not None and card.units > 0 and card.takes(use)
        return cls(is_offered, is_offered and takes, takes and (is_offered or SERVES_CLAIMS in modes))


class CardState:
    """One card of a node and what pods hold of it. ``card`` is None if pods name a card that the node does not have."""

    __slots__ = (
        "as_memory",
        "as_whole",
        "card",
        "groups",
        "index",
        "is_unconfirmed",
        "kept",
        "pods",
        "unplaced_groups",
        "used",
        "whole",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.card: InventoryCard | None = None
        self.used = 0
        self.whole = 0
        self.pods = 0
        self.kept = 0
        """Units reserved here for pods of this node whose card is unknown: it may turn out to be this one."""
        self.groups: list[ApartGroup] = []
        """Of each pod here that asks to be kept apart, the pods with which it shares no card."""
        self.unplaced_groups: tuple[ApartGroup, ...] = ()
        """The same of the pods for which ``kept`` is reserved."""
        self.is_unconfirmed = False
        """Whether a pod of this node may hold another card than its record says yet: free units may be that pod's."""
        self.as_memory = self.as_whole = Use()

    def update(self, card: InventoryCard | None, modes: Collection[str]) -> None:
        """Set the card's present state (None: the node no longer has it) and what the node offers."""
        self.card = card
        self.as_memory, self.as_whole = (Use.of(use, card, modes) for use in (SERVES_MEMORY, SERVES_WHOLE))

    @property
    def total(self) -> int:
        return self.card.units if self.card else 0

    @property
    def mode(self) -> CardMode:
        if self.whole:
            return CardMode.WHOLE
        return CardMode.SHARED if self.pods else CardMode.FREE

    @property
    def free(self) -> int:
        """Units that no pod holds, healthy or not; 0 if a pod holds the whole card."""
        return 0 if self.whole else max(0, self.total - self.used)

    @property
    def held(self) -> int:
        """Units that pods hold; all units if one pod holds the card whole. May exceed ``total`` after a card shrank."""
        if self.whole and self.pods == 1 and self.card is not None:
            return self.total
        return max(self.used, self.total) if self.whole else self.used

    def share(self, grant: CardGrant) -> int:
        """Units of this card that a grant takes. A whole grant takes them all, whatever its record says.

        A record of several whole cards has one size for all of them: the largest.
        """
        return self.total if grant.whole and self.card is not None else grant.units

    @property
    def grantable(self) -> int:
        """Units that the extender may grant here; 0 if the card takes no new pods or the node is unconfirmed."""
        return 0 if self.is_unconfirmed or not self.as_memory.is_open else max(0, self.room_without())

    @property
    def available(self) -> int:
        """Units that a new pod may get here, also by a claim, which the extender does not grant. For what is shown."""
        return 0 if self.is_unconfirmed or not self.as_memory.is_shown_open else max(0, self.room_without())

    @property
    def is_available_whole(self) -> bool:
        """Whether a new pod may get this card whole, also by a claim. For what is shown."""
        return self.as_whole.is_shown_open and not (self.pods or self.kept or self.is_unconfirmed)

    def room_without(self, units: int = 0, wholes: int = 0) -> int:
        """Units for a new pod once pods have left that held ``units`` here, and ``wholes`` of them the whole card.

        0 while another pod holds the card whole; negative if the card shrank below what its pods hold. Units reserved
        for pods whose card is unknown stay reserved.
        """
        return 0 if self.whole > wholes else self.total - self.used + units - self.kept

    def grant(self, request: CardRequest) -> CardGrant:
        """What a pod gets of this card if the card is chosen for its request."""
        return CardGrant(self.index, self.total if request.whole else request.units, request.whole)

    @property
    def is_empty(self) -> bool:
        """Whether the extender may grant this card whole."""
        return self.as_whole.is_open and not (self.pods or self.kept or self.is_unconfirmed)

    def serves(self, request: CardRequest) -> bool:
        """Whether the node's plugin offers this card for the request's use, regardless of the pods that hold it now."""
        return (self.as_whole if request.whole else self.as_memory).is_offered

    def takes(self, request: CardRequest) -> bool:
        """Whether the card takes new pods of this use, provided it has room."""
        return (self.as_whole if request.whole else self.as_memory).is_open

    def could_hold(self, request: CardRequest) -> bool:
        """Whether this card could serve the request once every pod has ended and every closure has expired."""
        card = self.card
        return card is not None and card.is_usable and card.units >= max(1, request.units) and request.allows(card)

    def can_hold(self, request: CardRequest) -> bool:
        """Whether this card can serve the request now."""
        if not (self.is_empty if request.whole else self.grantable >= request.units):
            return False
        selection = request.selection
        return selection is None or self.card is None or (selection.allows(self.card) and self.is_open_to(selection))

    def is_open_to(self, selection: CardSelection) -> bool:
        """Whether no pod is here with which the pod must not share a card."""
        group = selection.apart
        return group is None or not (group in self.groups or group in self.unplaced_groups)


def suffice(able: Iterable[CardState], request: CardRequest) -> bool:
    """Whether some of these cards are enough for the request together; each can hold its part."""
    if not request.linked:
        return sum(1 for _ in able) >= request.cards
    cards = [state.card for state in able if state.card is not None]
    return closeness(cards, request.cards) == LINKED
