"""The state of one node in the ledger: its cards, the pods that hold them, and cached sums for fast answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gcushare.core.assignments import Assignment
from gcushare.core.card_state import CardState, suffice
from gcushare.core.cards import BOTH_MODES, SERVES_CLAIMS, SERVES_MEMORY, SERVES_WHOLE, InventoryCard
from gcushare.core.requests import CardRequest
from gcushare.core.units import MemoryUnit

_NOTHING = (0, 0, 0)


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
