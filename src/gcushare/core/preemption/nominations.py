"""Room that is kept for nominated pods: what of a node's cards is left to others once those that are leaving have gone.

A preemptor waits until its victims have ended. The units that they give back, and those that were free beside them, are
its own by then, or ending them was for nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # placement, whose policies settings name, imports this
    from gcushare.core.nodes import CardState, NodeState
    from gcushare.core.requests import CardRequest

RoomLeft: TypeAlias = Mapping[int, int]
"""Units that others may have of a card, by index; cards that nothing is kept of are not in it."""
NOTHING_KEPT: RoomLeft = MappingProxyType({})


def compute_room_left(node: NodeState, nominees: Iterable[CardRequest], leaving: Collection[str]) -> RoomLeft:
    """Place nominated pods, in the order given, on a node that ``leaving`` pods (by uid) have left.

    A nominee for which there is no room even then gets none kept. Cards where pods are leaving come first, then the
    one with the least room that is enough.
    """
    after = {index: _RoomAfter(state) for index, state in node.cards.items()}
    for uid in leaving:
        held = node.assignments.get(uid)
        for grant in held.grants if held is not None else ():
            after[grant.index].give_back(grant.units, whole=grant.whole)
    left: dict[int, int] = {}
    for request in nominees:
        able = sorted((room.rank(left), index) for index, room in after.items() if room.can_hold(request, left))
        if len(able) >= request.cards:
            for _, index in able[: request.cards]:
                left[index] = 0 if request.whole else after[index].left(left) - request.units
    return left


class _RoomAfter:
    """One card as it will be when the leaving pods have gone."""

    __slots__ = ("_pods", "_state", "_used", "_whole", "is_left")

    def __init__(self, state: CardState) -> None:
        self._state = state
        self._used, self._whole, self._pods = state.used, state.whole, state.pods
        self.is_left = False

    def give_back(self, units: int, *, whole: bool) -> None:
        self._used -= units
        self._whole -= whole
        self._pods -= 1
        self.is_left = True

    def left(self, kept: RoomLeft) -> int:
        """Units that no pod holds or has been promised."""
        state = self._state
        return kept.get(state.index, 0 if self._whole else state.total - self._used)

    def rank(self, kept: RoomLeft) -> tuple[bool, int]:
        return not self.is_left, self.left(kept)

    def can_hold(self, request: CardRequest, kept: RoomLeft) -> bool:
        state = self._state
        card = state.card
        if card is None or not card.is_usable or not state.serves(request) or not request.allows(card.card):
            return False
        if request.whole:
            return not self._pods and state.index not in kept and card.units > 0
        return self.left(kept) >= request.units


def can_hold_beside(state: CardState, request: CardRequest, left: RoomLeft) -> bool:
    """Whether a card can hold a request now, and what is kept of it stays."""
    if not state.can_hold(request):
        return False
    return state.index not in left or (not request.whole and left[state.index] >= request.units)


def fits_beside(node: NodeState, request: CardRequest, left: RoomLeft) -> bool:
    """Whether a node fits a request, and what is kept of its cards stays."""
    return sum(can_hold_beside(state, request, left) for state in node.cards.values()) >= request.cards
