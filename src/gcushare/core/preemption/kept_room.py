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

from gcushare.core.assignments import ApartGroup
from gcushare.core.card_state import CardState, suffice
from gcushare.core.nodes import NodeState
from gcushare.core.requests import CardRequest
from gcushare.core.whole_cards import linked_sets

RoomLeft: TypeAlias = Mapping[int, int]
"""Units of a card that other pods may use, by card index. Cards without kept room are absent."""
NOTHING_KEPT: RoomLeft = MappingProxyType({})

APART = 1 << 40
"""Units, more than any card has. As what lacks on a card, for each pod there that the request must not share it with;
as what such a pod frees. So the card is only free once all of them have ended."""


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

    __slots__ = ("_groups", "_units", "_wholes", "pods")

    def __init__(self, node: NodeState, leaving: Collection[str]) -> None:
        self._units: Counter[int] = Counter()
        self._wholes: Counter[int] = Counter()
        self._groups: Counter[tuple[int, ApartGroup | None]] = Counter()
        self.pods: Counter[int] = Counter()
        for uid in leaving:
            held = node.assignments.get(uid)
            for grant in held.grants if held is not None else ():
                self._units[grant.index] += grant.units
                self._wholes[grant.index] += grant.whole
                self.pods[grant.index] += 1
                self._groups[grant.index, held.apart if held is not None else None] += 1

    def count_staying(self, state: CardState) -> int:
        """The number of pods that stay on a card."""
        return state.pods - self.pods[state.index]

    def count_apart(self, state: CardState, group: ApartGroup | None) -> int:
        """The number of pods that stay on a card and that a pod of this group must not share it with."""
        if group is None:
            return 0
        everyone = state.groups.count(group) + state.unplaced_groups.count(group)
        return everyone - self._groups[state.index, group]

    def stays_whole(self, state: CardState) -> bool:
        """Whether a pod that stays holds the whole card."""
        return state.whole > self._wholes[state.index]

    def room_after(self, state: CardState) -> int:
        """Units for a new pod once the leaving pods are gone."""
        return state.room_without(self._units[state.index], self._wholes[state.index])


def compute_room_left(
    node: NodeState, nominees: Iterable[CardRequest], leaving: Collection[str], apart: ApartGroup | None = None
) -> RoomLeft:
    """Place nominated pods, in the given order, on a node as if the ``leaving`` pods (by uid) were gone.

    No room is kept for a nominee that does not fit even then. Cards with leaving pods are used first, then the card
    with the least sufficient room. A pod that is kept ``apart`` has nothing left where a nominee of its group comes.
    """
    shares = LeavingShares(node, leaving)
    left = {index: shares.room_after(state) for index, state in node.cards.items()}
    kept: dict[int, int] = {}
    coming: set[tuple[int, ApartGroup]] = set()

    def has_room(state: CardState, request: CardRequest) -> bool:
        if request.whole:
            return not (shares.count_staying(state) or state.kept or state.index in kept)
        group = request.apart
        is_lawful = group is None or not (shares.count_apart(state, group) or (state.index, group) in coming)
        return left[state.index] >= request.units and is_lawful

    for request in nominees:
        able = [
            state
            for state in node.cards.values()
            if state.serves(request) and state.could_hold(request) and has_room(state, request)
        ]
        if not suffice(able, request):
            continue
        ranks = {state.index: (not shares.pods[state.index], left[state.index]) for state in able}
        order = sorted(ranks, key=lambda index: (ranks[index], index))
        if request.linked:
            sets = linked_sets([state.card for state in able if state.card is not None], request.cards)
            best = min(sets, key=lambda linked: sorted(map(order.index, linked))[: request.cards])
            order = [index for index in order if index in best]
        for index in order[: request.cards]:
            left[index] = kept[index] = 0 if request.whole else left[index] - request.units
            coming |= {(index, request.apart)} if request.apart is not None else set()
    return kept | {index: -APART for index, group in coming if group == apart}


def can_hold_after_nominees(state: CardState, request: CardRequest, left: RoomLeft) -> bool:
    """Whether a card can hold a request now without using room that is kept for nominees."""
    if not state.can_hold(request):
        return False
    return state.index not in left or (not request.whole and left[state.index] >= request.units)


def fits_after_nominees(node: NodeState, request: CardRequest, left: RoomLeft) -> bool:
    """Whether a node fits a request now without using room that is kept for nominees."""
    return suffice((state for state in node.cards.values() if can_hold_after_nominees(state, request, left)), request)
