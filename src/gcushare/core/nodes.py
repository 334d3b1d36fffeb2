"""The state of one node in the ledger: its cards, what pods hold of them, and cached sums for fast answers."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from typing import NamedTuple

from gcushare.core.assignments import ApartGroup, Assignment, CardGrant
from gcushare.core.cards import BOTH_MODES, SERVES_CLAIMS, SERVES_MEMORY, SERVES_WHOLE, InventoryCard
from gcushare.core.requests import CardRequest, CardSelection
from gcushare.core.units import MemoryUnit
from gcushare.core.whole_cards import LINKED, closeness

_NOTHING = (0, 0, 0)


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


class NodeState:
    """One node's cards by index, its assignments by pod uid, and cached sums.

    ``largest_free`` is the most units that one card can grant, ``largest_shared_free`` the same among cards in shared
    use, ``empty_cards`` the number of cards that can be granted whole. Every change updates them, so reading them costs
    a lookup. ``serves_memory`` and ``serves_whole`` say what the node's plugin offers; a node that ``serves_claims``
    offers neither. A pod that got its cards under another mode stays counted. A node ``is_odd`` if it counts memory in
    another unit than the cluster: it is for pods whose author names that unit.
    """

    __slots__ = (
        "assignments",
        "cards",
        "empty_cards",
        "is_odd",
        "is_unconfirmed",
        "known",
        "largest_free",
        "largest_shared_free",
        "name",
        "serves_claims",
        "serves_memory",
        "serves_whole",
        "total",
        "unit",
        "unplaced",
        "used",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.known = False
        self.is_odd = False
        self.is_unconfirmed = False
        self.serves_memory = self.serves_whole = True
        self.serves_claims = False
        self.unit: MemoryUnit | None = None
        self.cards: dict[int, CardState] = {}
        self.assignments: dict[str, Assignment] = {}
        self.largest_free = self.largest_shared_free = self.empty_cards = self.total = self.used = 0
        self.unplaced: dict[str, int] = {}
        """Units of the pods whose card is unknown, by uid. Each may turn out to hold them on any card."""

    def set_cards(
        self, cards: Iterable[InventoryCard], unit: MemoryUnit | None, modes: Collection[str] = BOTH_MODES
    ) -> None:
        """Replace the node's cards. What pods hold stays counted, even on cards that are gone."""
        self.serves_memory, self.serves_whole = SERVES_MEMORY in modes, SERVES_WHOLE in modes
        self.serves_claims = SERVES_CLAIMS in modes
        offered = {card.index: card for card in cards}
        for index in offered.keys() - self.cards.keys():
            self.cards[index] = CardState(index)
        for index, state in self.cards.items():
            state.update(offered.get(index), modes)
        self.known, self.unit = True, unit
        self._refresh()

    def drop_cards(self) -> None:
        """Remove the node's cards because the node is gone. Pods that still name it stay counted."""
        self.set_cards((), None, self.modes)
        self.known = False

    def add(self, assignment: Assignment) -> None:
        """Count an assignment of a pod that is not counted here yet."""
        self.assignments[assignment.pod.uid] = assignment
        if assignment.unplaced:
            self.unplaced[assignment.pod.uid] = assignment.unplaced
        self._count(assignment)
        self._refresh()

    def remove(self, uid: str) -> Assignment | None:
        """Return an assignment's units. None if the pod holds nothing here."""
        assignment = self.assignments.pop(uid, None)
        if assignment is None:
            return None
        self.unplaced.pop(uid, None)
        for grant in assignment.grants:
            state = self.cards[grant.index]
            state.used -= grant.units
            state.whole -= grant.whole
            state.pods -= 1
            if assignment.apart is not None:
                state.groups.remove(assignment.apart)
        self._refresh()
        return assignment

    def share(self, assignment: Assignment) -> int:
        """Units that a pod holds here on all its cards; see `CardState.share`."""
        return sum(self.cards[grant.index].share(grant) for grant in assignment.grants)

    def fits(self, request: CardRequest) -> bool:
        """Whether enough cards can hold the request. Costs one comparison unless the pod selects cards."""
        if (self.is_odd or request.per_gib) and not self.counts_as(request):
            return False
        if request.selection is not None or (request.cards > 1 and not request.whole):
            return suffice((state for state in self.cards.values() if state.can_hold(request)), request)
        if request.whole:
            return self.empty_cards >= request.cards
        return self.largest_free >= request.units > 0

    @property
    def largest_available(self) -> int:
        """The most units that a new pod may get of one card, also by a claim. For what is shown."""
        return max((state.available for state in self.cards.values()), default=0)

    def recount(self) -> list[str]:
        """Recompute all sums from the assignments. Returns a description of each sum that was wrong before."""
        counted = {index: (state.used, state.whole, state.pods) for index, state in self.cards.items()}
        figures = self._figures()
        for state in self.cards.values():
            state.used = state.whole = state.pods = 0
            state.groups.clear()
        for assignment in self.assignments.values():
            self._count(assignment)
        held = {index: (state.used, state.whole, state.pods) for index, state in self.cards.items()}
        self._refresh()
        wrong = [
            f"card {index}: {counted.get(index, _NOTHING)} counted, {now} held, as units, whole cards and pods"
            for index, now in held.items()
            if counted.get(index, _NOTHING) != now
        ]
        if not wrong and figures != self._figures():
            wrong.append(f"{figures} counted, {self._figures()} true: largest free, shared, empty cards, total, used")
        return wrong

    def copy(self) -> NodeState:
        """An independent copy on which to try a plan. Assignments are immutable, so they are shared."""
        twin = NodeState(self.name)
        twin.set_cards(self.present_cards, self.unit, self.modes)
        twin.known, twin.is_odd = self.known, self.is_odd
        twin.assignments, twin.unplaced = dict(self.assignments), dict(self.unplaced)
        for assignment in self.assignments.values():
            twin._count(assignment)
        twin._refresh()
        return twin

    def as_offered_to_claims(self) -> NodeState:
        """A copy of a node that serves claims, with which to evaluate what a claim asks for: memory or whole cards."""
        twin = self.copy()
        twin.is_odd = False  # A claim is counted in bytes.
        twin.set_cards(self.present_cards, self.unit, BOTH_MODES)
        return twin

    def serves(self, request: CardRequest) -> bool:
        """Whether the node's plugin offers what the request is for: memory, in the request's unit, or whole cards."""
        return self.serves_whole if request.whole else self.serves_memory and self.counts_as(request)

    def counts_as(self, request: CardRequest) -> bool:
        """Whether a unit is here what it is to the request, so that a pod gets the memory that its author meant."""
        if request.whole:
            return True
        if request.per_gib:
            return self.unit is None or self.unit.per_gib == request.per_gib
        return not self.is_odd

    @property
    def present_cards(self) -> list[InventoryCard]:
        """The cards that the node has, by index, without those that only pods name."""
        return [state.card for state in self.cards.values() if state.card is not None]

    @property
    def modes(self) -> tuple[str, ...]:
        """What the node offers, as the inventory writes it."""
        served = (
            (SERVES_MEMORY, self.serves_memory),
            (SERVES_WHOLE, self.serves_whole),
            (SERVES_CLAIMS, self.serves_claims),
        )
        return tuple(mode for mode, is_served in served if is_served)

    def _count(self, assignment: Assignment) -> None:
        for grant in assignment.grants:
            state = self.cards.get(grant.index)
            if state is None:
                state = self.cards[grant.index] = CardState(grant.index)
            state.used += grant.units
            state.whole += grant.whole
            state.pods += 1
            if assignment.apart is not None:
                state.groups.append(assignment.apart)

    def _figures(self) -> tuple[int, ...]:
        return self.largest_free, self.largest_shared_free, self.empty_cards, self.total, self.used

    def _refresh(self) -> None:
        for index in [i for i, state in self.cards.items() if state.card is None and not state.pods]:
            del self.cards[index]
        if list(self.cards) != sorted(self.cards):
            self.cards = dict(sorted(self.cards.items()))
        is_unconfirmed = self.is_unconfirmed = self._has_unconfirmed_excess()
        found = self.find_unplaced() if self.unplaced else {}
        unplaced = found.values()
        groups = tuple(group for uid in found if (group := self.assignments[uid].apart) is not None)
        largest_free = largest_shared_free = empty_cards = total = used = 0
        for state in self.cards.values():
            state.is_unconfirmed = is_unconfirmed
            state.kept = sum(units for units in unplaced if units <= state.total) if unplaced else 0
            state.unplaced_groups = groups
            total += state.total
            used += state.held
            grantable = state.grantable
            largest_free = max(largest_free, grantable)
            if state.pods:
                largest_shared_free = max(largest_shared_free, grantable)
            elif state.is_empty:
                empty_cards += 1
        self.largest_free, self.largest_shared_free = largest_free, largest_shared_free
        self.empty_cards, self.total, self.used = empty_cards, total, used

    def find_unplaced(self) -> dict[str, int]:
        """The units of each pod whose card is unknown, by uid, except pods whose card the node itself reports.

        The node chooses the card of such a pod, so its units are reserved on every card that could take it.
        """
        reported = {str(held.pod) for held in self.assignments.values() if held.unrecorded}
        return {
            uid: units
            for uid, units in self.unplaced.items()
            if not reported or str(self.assignments[uid].pod) not in reported
        }

    def _has_unconfirmed_excess(self) -> bool:
        """Whether records exceed a card's size while one of its pods is not admitted yet.

        The kubelet admits pods of equal size in any order. So one pod's record may be corrected to this card before
        another pod's record leaves it. Until then the room that the first pod left belongs to the second, and the
        kubelet would refuse a third pod there. If pods really hold the excess, nothing waits: it would never end.
        """
        overfull = {s.index for s in self.cards.values() if s.card is not None and s.held > s.card.units}
        return bool(overfull) and any(
            not assignment.assigned and any(grant.index in overfull for grant in assignment.grants)
            for assignment in self.assignments.values()
        )
