"""Room that is kept for nominated pods: what other pods may use of a node's cards once the leaving pods are gone.

A preemptor waits until its victims have ended. If another pod took the units that they free, or the free units that the
preemptor counted on, the victims would have ended for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from gcushare.core.nodes import CardState, NodeState
from gcushare.core.requests import CardRequest

RoomLeft: TypeAlias = Mapping[int, int]
"""Units of a card that other pods may use, by card index. Cards without kept room are absent."""
NOTHING_KEPT: RoomLeft = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RoomAfterNominees:
    """What a pod may use of a node on which nominees go first.

    ``leaving`` are the uids of pods that are ending already. ``left`` is what the pod may use once they are gone.
    """

    leaving: frozenset[str]
    left: RoomLeft


NO_NOMINEES = RoomAfterNominees(frozenset(), NOTHING_KEPT)
"""No nominee goes first, and no pod is leaving."""


class LeavingShares:
    """What the leaving pods (by uid) hold of a node's cards. ``pods`` is their number by card index."""

    __slots__ = ("_units", "_wholes", "pods")

    def __init__(self, node: NodeState, leaving: Collection[str]) -> None:
        self._units: Counter[int] = Counter()
        self._wholes: Counter[int] = Counter()
        self.pods: Counter[int] = Counter()
        for uid in leaving:
            held = node.assignments.get(uid)
            for grant in held.grants if held is not None else ():
                self._units[grant.index] += grant.units
                self._wholes[grant.index] += grant.whole
                self.pods[grant.index] += 1

    def count_staying(self, state: CardState) -> int:
        """The number of pods that stay on a card."""
        return state.pods - self.pods[state.index]

    def stays_whole(self, state: CardState) -> bool:
        """Whether a pod that stays holds the whole card."""
        return state.whole > self._wholes[state.index]

    def room_after(self, state: CardState) -> int:
        """Units for a new pod once the leaving pods are gone."""
        return state.room_without(self._units[state.index], self._wholes[state.index])


def compute_room_left(node: NodeState, nominees: Iterable[CardRequest], leaving: Collection[str]) -> RoomLeft:
    """Place nominated pods, in the given order, on a node as if the ``leaving`` pods (by uid) were gone.

    No room is kept for a nominee that does not fit even then. Cards with leaving pods are used first, then the card
    with the least sufficient room.
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
            (not shares.pods[index], left[index], index)
            for index, state in node.cards.items()
            if state.serves(request) and state.could_hold(request) and has_room(state, request)
        )
        if len(able) >= request.cards:
            for _, room, index in able[: request.cards]:
                left[index] = kept[index] = 0 if request.whole else room - request.units
    return kept


def can_hold_after_nominees(state: CardState, request: CardRequest, left: RoomLeft) -> bool:
    """Whether a card can hold a request now without using room that is kept for nominees."""
    if not state.can_hold(request):
        return False
    return state.index not in left or (not request.whole and left[state.index] >= request.units)


def fits_after_nominees(node: NodeState, request: CardRequest, left: RoomLeft) -> bool:
    """Whether a node fits a request now without using room that is kept for nominees."""
    return sum(can_hold_after_nominees(state, request, left) for state in node.cards.values()) >= request.cards
