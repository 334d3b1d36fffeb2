"""Room that is kept for nominated pods: what of a node's cards is left to others once those that are leaving have gone.

A preemptor waits until its victims have ended. The units that they return, and those that were free already, must be
left for it by then, or its victims ended for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # placement, whose policies settings name, imports this
    from gcushare.core.nodes import CardState, NodeState
    from gcushare.core.requests import CardRequest

RoomLeft: TypeAlias = Mapping[int, int]
"""Units that others may have of a card, by index; cards that nothing is kept of are not in it."""
NOTHING_KEPT: RoomLeft = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RoomAfterNominees:
    """A node's room for a pod, after the nominees that go before the pod have theirs.

    ``leaving``: the uids of the pods that end anyway. ``left``: what the pod may have of the cards once they are gone.
    """

    leaving: frozenset[str]
    left: RoomLeft


NO_NOMINEES = RoomAfterNominees(frozenset(), NOTHING_KEPT)
"""No nominee goes before the pod, and no pod is leaving."""


class LeavingShares:
    """What pods that are leaving, by uid, hold of a node's cards."""

    __slots__ = ("_pods", "_units", "_wholes")

    def __init__(self, node: NodeState, leaving: Collection[str]) -> None:
        self._units: Counter[int] = Counter()
        self._wholes: Counter[int] = Counter()
        self._pods: Counter[int] = Counter()
        for uid in leaving:
            held = node.assignments.get(uid)
            for grant in held.grants if held is not None else ():
                self._units[grant.index] += grant.units
                self._wholes[grant.index] += grant.whole
                self._pods[grant.index] += 1

    def are_on(self, index: int) -> bool:
        """Whether any of them is on a card."""
        return bool(self._pods[index])

    def count_staying(self, state: CardState) -> int:
        """Pods of a card that stay."""
        return state.pods - self._pods[state.index]

    def stays_whole(self, state: CardState) -> bool:
        """Whether a pod that stays holds the card whole."""
        return state.whole > self._wholes[state.index]

    def room_after(self, state: CardState) -> int:
        """Units for a new pod once they have gone."""
        return state.room_without(self._units[state.index], self._wholes[state.index])


def compute_room_left(node: NodeState, nominees: Iterable[CardRequest], leaving: Collection[str]) -> RoomLeft:
    """Place nominated pods, in the order given, on a node that ``leaving`` pods (by uid) have left.

    A nominee for which there is no room even then gets none kept. Cards where pods are leaving come first, then the
    one with the least room that is enough.
    """
    shares = LeavingShares(node, leaving)
    left = {index: shares.room_after(state) for index, state in node.cards.items()}
    kept: dict[int, int] = {}

    def has_room(state: CardState, request: CardRequest) -> bool:
        if request.whole:
            return not (shares.count_staying(state) or state.kept or state.index in kept)
        return left[state.index] >= request.units

    for request in nominees:
        able = sorted(
            (not shares.are_on(index), left[index], index)
            for index, state in node.cards.items()
            if state.serves(request) and state.could_hold(request) and has_room(state, request)
        )
        if len(able) >= request.cards:
            for _, room, index in able[: request.cards]:
                left[index] = kept[index] = 0 if request.whole else room - request.units
    return kept


def can_hold_after_nominees(state: CardState, request: CardRequest, left: RoomLeft) -> bool:
    """Whether a card can hold a request now, and what is kept of it stays."""
    if not state.can_hold(request):
        return False
    return state.index not in left or (not request.whole and left[state.index] >= request.units)


def fits_after_nominees(node: NodeState, request: CardRequest, left: RoomLeft) -> bool:
    """Whether a node fits a request, and what is kept of its cards stays."""
    return sum(can_hold_after_nominees(state, request, left) for state in node.cards.values()) >= request.cards
