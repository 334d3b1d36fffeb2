"""The state of one node in the ledger: its cards, what they hold, and the figures that questions are answered from."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE, InventoryCard
from gcushare.core.requests import CardRequest
from gcushare.core.units import MemoryUnit


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod by its identity; ``uid`` decides, a name may be reused. ``created`` is the API server's RFC 3339 text."""

    uid: str
    namespace: str
    name: str
    created: str = ""
    priority: int = 0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class CardGrant:
    """``units`` of one card, or all of it when ``whole``."""

    index: int
    units: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """The card or cards that a pod holds on a node. ``assigned`` says that the node side has confirmed it.

    ``unplaced``: the units of memory that a bound pod will have on a card of which it is not known which; it has no
    grants then. ``unrecorded``: the node reports it, and no record of the pod does.
    """

    pod: PodRef
    node: str
    grants: tuple[CardGrant, ...]
    assigned: bool = False
    assign_time_ns: int = 0
    unplaced: int = 0
    unrecorded: bool = False

    @property
    def units(self) -> int:
        return sum(grant.units for grant in self.grants)


_NOTHING = (0, 0, 0)


class CardMode(enum.Enum):
    """How a card is in use; shared and whole exclude each other."""

    FREE = "free"
    SHARED = "shared"
    WHOLE = "whole"


class CardState:
    """One card of a node with what it holds. ``card`` is None for a card that pods name but the node does not have."""

    __slots__ = (
        "card",
        "index",
        "is_unconfirmed",
        "kept",
        "pods",
        "serves_memory",
        "serves_whole",
        "takes_memory",
        "takes_whole",
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
        """Units that pods of this node may turn out to have here, whose cards are not known yet."""
        self.is_unconfirmed = False
        """Whether a pod of this node is about to be recorded on another card, so that free room may be its own."""
        self.serves_memory = self.serves_whole = True
        """What the node's plugin hands out of this card."""
        self.takes_memory = self.takes_whole = False
        """Whether new pods of either use may come here at all; asked for at each change of the node, so kept."""

    def offer(self, card: InventoryCard | None, *, memory: bool, whole: bool) -> None:
        """Say what the card is now, None where the node has it no more, and what of it is handed out."""
        self.card, self.serves_memory, self.serves_whole = card, memory, whole
        self.takes_memory = memory and card is not None and card.takes(SERVES_MEMORY)
        self.takes_whole = whole and card is not None and card.units > 0 and card.takes(SERVES_WHOLE)

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
        """Units that no pod holds, on any card, healthy or not; 0 where a pod holds the whole card."""
        return 0 if self.whole else max(0, self.total - self.used)

    @property
    def held(self) -> int:
        """Units that pods hold; all of them of a whole card. May exceed ``total`` when a node shrank."""
        if self.whole and self.pods == 1 and self.card is not None:
            return self.total
        return max(self.used, self.total) if self.whole else self.used

    def share(self, grant: CardGrant) -> int:
        """Units of this card that a grant takes: all where it is whole, whatever its record says.

        A record of several whole cards names one size for all of them, the largest.
        """
        return self.total if grant.whole and self.card is not None else grant.units

    @property
    def grantable(self) -> int:
        """Units that a new pod may be given here: none on a card that takes none, or of a node that is unconfirmed."""
        return 0 if self.is_unconfirmed or not self.takes_memory else max(0, self.room_without())

    def room_without(self, units: int = 0, wholes: int = 0) -> int:
        """Units for a new pod once pods have gone that hold ``units`` here and, so many of them, the card whole.

        0 while another pod holds it whole; below 0 where the card shrank under its pods. What is kept for pods of which
        no card is known stays kept, whoever goes.
        """
        return 0 if self.whole > wholes else self.total - self.used + units - self.kept

    @property
    def is_empty(self) -> bool:
        """Whether a pod may be given this card whole."""
        return self.takes_whole and not (self.pods or self.kept or self.is_unconfirmed)

    def serves(self, request: CardRequest) -> bool:
        """Whether the node's plugin hands out of this card what the request is for, whoever uses it now."""
        return self.serves_whole if request.whole else self.serves_memory

    def takes(self, request: CardRequest) -> bool:
        """Whether new pods of this use may come here now, if there is room."""
        return self.takes_whole if request.whole else self.takes_memory

    def could_hold(self, request: CardRequest) -> bool:
        """Whether this card could be one of the request's if every pod ended, and what closes it to a use as well."""
        card = self.card
        return card is not None and card.is_usable and card.units >= max(1, request.units) and request.allows(card.card)

    def can_hold(self, request: CardRequest) -> bool:
        """Whether this card can be one of the request's cards."""
        if not (self.is_empty if request.whole else self.grantable >= request.units):
            return False
        return request.selection is None or self.card is None or request.selection.allows(self.card.card)


class NodeState:
    """One node's cards by index, its assignments by pod uid, and cached answers that cost nothing to ask.

    ``largest_free``: the most units one card can grant; ``largest_shared_free``: the same among cards in shared use;
    ``empty_cards``: cards that can be granted whole. They follow every change; reading them is a look-up.
    ``serves_memory`` and ``serves_whole``: what the node's plugin hands out; a pod that holds the other, from before
    the plugin learned that, stays counted.
    """

    __slots__ = (
        "assignments",
        "cards",
        "empty_cards",
        "is_unconfirmed",
        "known",
        "largest_free",
        "largest_shared_free",
        "name",
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
        self.is_unconfirmed = False
        self.serves_memory = self.serves_whole = True
        self.unit: MemoryUnit | None = None
        self.cards: dict[int, CardState] = {}
        self.assignments: dict[str, Assignment] = {}
        self.largest_free = self.largest_shared_free = self.empty_cards = self.total = self.used = 0
        self.unplaced: dict[str, int] = {}
        """Units of the pods of which no card is known, by uid; each may turn out to have them on any card."""

    def set_cards(
        self, cards: Iterable[InventoryCard], unit: MemoryUnit | None, modes: Collection[str] = BOTH_MODES
    ) -> None:
        """Replace the node's cards; what pods hold stays counted, also on cards that are gone."""
        self.serves_memory, self.serves_whole = SERVES_MEMORY in modes, SERVES_WHOLE in modes
        offered = {card.index: card for card in cards}
        for index in offered.keys() - self.cards.keys():
            self.cards[index] = CardState(index)
        for index, state in self.cards.items():
            state.offer(offered.get(index), memory=self.serves_memory, whole=self.serves_whole)
        self.known, self.unit = True, unit
        self._refresh()

    def drop_cards(self) -> None:
        """Forget the node's cards (the node is gone); pods that still name it stay counted."""
        for state in self.cards.values():
            state.offer(None, memory=self.serves_memory, whole=self.serves_whole)
        self.known, self.unit = False, None
        self._refresh()

    def add(self, assignment: Assignment) -> None:
        """Count an assignment; the pod must not be counted here yet."""
        self.assignments[assignment.pod.uid] = assignment
        if assignment.unplaced:
            self.unplaced[assignment.pod.uid] = assignment.unplaced
        for grant in assignment.grants:
            self._count(grant)
        self._refresh()

    def remove(self, uid: str) -> Assignment | None:
        """Give an assignment's units back; None when the pod holds nothing here."""
        assignment = self.assignments.pop(uid, None)
        if assignment is None:
            return None
        self.unplaced.pop(uid, None)
        for grant in assignment.grants:
            state = self.cards[grant.index]
            state.used -= grant.units
            state.whole -= grant.whole
            state.pods -= 1
        self._refresh()
        return assignment

    def share(self, assignment: Assignment) -> int:
        """Units that a pod holds here, over all its cards; see `CardState.share`."""
        return sum(self.cards[grant.index].share(grant) for grant in assignment.grants)

    def fits(self, request: CardRequest) -> bool:
        """Whether enough cards can hold the request; a comparison unless the pod is choosy."""
        if request.selection is not None or (request.cards > 1 and not request.whole):
            return sum(state.can_hold(request) for state in self.cards.values()) >= request.cards
        if request.whole:
            return self.empty_cards >= request.cards
        return self.largest_free >= request.units > 0

    def recount(self) -> list[str]:
        """Count the cards and the cached answers again from the assignments; says in words what was wrong before."""
        counted = {index: (state.used, state.whole, state.pods) for index, state in self.cards.items()}
        figures = self._figures()
        for state in self.cards.values():
            state.used = state.whole = state.pods = 0
        for assignment in self.assignments.values():
            for grant in assignment.grants:
                self._count(grant)
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
        """An independent copy for trying a plan: assignments are values and are shared."""
        twin = NodeState(self.name)
        offered = (state.card for state in self.cards.values() if state.card is not None)
        twin.set_cards(offered, self.unit, self.modes)
        twin.known = self.known
        twin.assignments, twin.unplaced = dict(self.assignments), dict(self.unplaced)
        for assignment in self.assignments.values():
            for grant in assignment.grants:
                twin._count(grant)
        twin._refresh()
        return twin

    def serves(self, request: CardRequest) -> bool:
        """Whether the node's plugin hands out what the request is for: memory, or whole cards."""
        return self.serves_whole if request.whole else self.serves_memory

    @property
    def modes(self) -> tuple[str, ...]:
        """What the node's plugin hands out, in the words of the inventory."""
        served = ((SERVES_MEMORY, self.serves_memory), (SERVES_WHOLE, self.serves_whole))
        return tuple(word for word, is_served in served if is_served)

    def is_void(self) -> bool:
        """Whether nothing is known of the node and nothing names it, so that it can be dropped."""
        return not self.known and not self.assignments

    def _count(self, grant: CardGrant) -> None:
        state = self.cards.get(grant.index)
        if state is None:
            state = self.cards[grant.index] = CardState(grant.index)
        state.used += grant.units
        state.whole += grant.whole
        state.pods += 1

    def _figures(self) -> tuple[int, ...]:
        return self.largest_free, self.largest_shared_free, self.empty_cards, self.total, self.used

    def _refresh(self) -> None:
        for index in [i for i, state in self.cards.items() if state.card is None and not state.pods]:
            del self.cards[index]
        if list(self.cards) != sorted(self.cards):
            self.cards = dict(sorted(self.cards.items()))
        is_unconfirmed = self.is_unconfirmed = self._has_unconfirmed_excess()
        unplaced = self.find_unplaced() if self.unplaced else ()
        largest_free = largest_shared_free = empty_cards = total = used = 0
        for state in self.cards.values():
            state.is_unconfirmed = is_unconfirmed
            state.kept = sum(units for units in unplaced if units <= state.total) if unplaced else 0
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

    def find_unplaced(self) -> tuple[int, ...]:
        """The units of each pod whose card is not known, but for those whose card the node itself reports.

        Which card such a pod gets is the node's choice, so its units are kept free on every card that could take it.
        """
        reported = {str(held.pod) for held in self.assignments.values() if held.unrecorded}
        return tuple(
            units
            for uid, units in self.unplaced.items()
            if not reported or str(self.assignments[uid].pod) not in reported
        )

    def _has_unconfirmed_excess(self) -> bool:
        """Whether a card is recorded beyond its size while one of its pods has not been admitted yet.

        The kubelet admits pods of equal size in any order: one of them is corrected to this card before the other's
        record leaves it. Until then the room that the first one left belongs to the second, and a third pod that is
        given it is refused by the kubelet. An excess that pods really hold is no reason to wait: it would not end.
        """
        overfull = {s.index for s in self.cards.values() if s.card is not None and s.held > s.card.units}
        return bool(overfull) and any(
            not assignment.assigned and any(grant.index in overfull for grant in assignment.grants)
            for assignment in self.assignments.values()
        )
