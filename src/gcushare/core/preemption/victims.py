"""Chooses which pods of a node must end, so that another pod fits on one of its cards or on enough of them.

Sufficient sets are compared by three criteria, in this order:

1. the highest priority among their pods: lower is better;
2. the number of pods: fewer is better;
3. the age of their oldest pod, then of the next: younger is better.

More victims never free less, so the criteria are decided one after the other, card by card, and the cheapest cards
together make the cheapest set. That is exact unless pods that hold several of the cards may end: such a pod counts on
each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gcushare.core.assignments import PodRef
from gcushare.core.card_state import CardState
from gcushare.core.nodes import NodeState
from gcushare.core.preemption import kept_room
from gcushare.core.requests import CardRequest
from gcushare.core.whole_cards import linked_sets


@dataclass(frozen=True, slots=True)
class Age:
    """Orders pods, youngest first. ``text`` is an RFC 3339 time, which compares as text, then the uid."""

    text: str

    def __lt__(self, other: Age) -> bool:
        return self.text > other.text


Rank: TypeAlias = tuple[int, int, tuple[Age, ...]]
"""Sort key of a set of victims; the lowest is the best: highest priority, count, then ages from the oldest pod on."""

_LOWEST = -(1 << 62)


def rank_victims(victims: Collection[PodRef]) -> Rank:
    """The sort key of a set of victims in this module's order. The empty set sorts first."""
    ages = tuple(Age(text) for text in sorted(map(_age_text, victims)))
    highest = max((victim.priority for victim in victims), default=_LOWEST)
    return highest, len(victims), ages


def _age_text(victim: PodRef) -> str:
    """A sort key that is smaller for older pods."""
    return f"{victim.created}\0{victim.uid}"


def choose_victims(
    node: NodeState,
    request: CardRequest,
    victims: Iterable[PodRef],
    *,
    room: kept_room.RoomAfterNominees = kept_room.NO_NOMINEES,
    ended: Collection[PodRef] = (),
) -> tuple[PodRef, ...] | None:
    """Choose the best sufficient subset of the victims; None if even all of them are not enough.

    ``room`` says what nominees that go first leave to the pod, and which pods are leaving. Leaving pods are never
    chosen, because what they hold becomes free anyway. So the result is empty if the request fits once they are gone.

    ``ended`` are pods that end in any case, for another reason: they are part of the result.

    Every chosen pod is needed, but a better set may exist if the request needs several cards and pods hold several.

    The result is also None if the node does not serve this kind of request, and while the node is unconfirmed: its free
    room will be known shortly, so no pod should end for it.
    """
    if node.is_unconfirmed or not node.serves(request):
        return None
    if not ended and node.fits(request) and kept_room.fits_after_nominees(node, request, room.left):
        return ()
    cards = _cards_to_free(node, request, tuple(victims), room, ended)
    if request.linked:
        sets = [
            [card for index, card in cards.items() if index in linked]
            for linked in linked_sets(node.present_cards, request.cards)
        ]
    else:
        sets = [list(cards.values())]
    floor = max((each.priority for each in ended), default=_LOWEST)
    found = [chosen for among in sets if (chosen := _free_some(among, request.cards, floor)) is not None]
    return (*ended, *min(found, key=rank_victims)) if found else None


@dataclass(slots=True)
class _CardToFree:
    """What must become free of a card, and how much of it each victim would free: units, or pods."""

    need: int
    shares: dict[PodRef, int]

    def find_highest(self) -> int | None:
        """The highest priority of the victims if it is as low as possible; None if all of them are not enough."""
        missing, highest = self.need, _LOWEST
        for victim, amount in sorted(self.shares.items(), key=lambda share: share[0].priority):
            if missing <= 0:
                break
            missing, highest = missing - amount, victim.priority
        return highest if missing <= 0 else None

    def choose(self, highest: int) -> list[PodRef]:
        """The fewest victims of at most this priority, which have to be enough; of equal sets the youngest."""
        left = {victim: amount for victim, amount in self.shares.items() if victim.priority <= highest}
        need, chosen = self.need, list[PodRef]()
        fewest = _count_fewest(left.values(), need)
        for victim in sorted(left, key=_age_text):
            amount = left.pop(victim)
            if _count_fewest(left.values(), need) != fewest:
                chosen.append(victim)
                need, fewest = need - amount, _count_fewest(left.values(), need - amount)
        return chosen

    def is_free_without(self, chosen: Iterable[PodRef]) -> bool:
        return self.need <= sum(self.shares.get(victim, 0) for victim in chosen)


def _count_fewest(amounts: Iterable[int], need: int) -> int | None:
    """How many of these amounts are enough at least; None if all of them are not."""
    count = 0
    for amount in sorted(amounts, reverse=True):
        if need <= 0:
            break
        need, count = need - amount, count + 1
    return count if need <= 0 else None


def _free_some(cards: Sequence[_CardToFree], count: int, floor: int) -> tuple[PodRef, ...] | None:
    """The victims that free so many of these cards; None if fewer can be freed.

    Priorities up to ``floor`` make no difference.
    """
    able = [(highest, card) for card in cards if (highest := card.find_highest()) is not None]
    if len(able) < count:
        return None
    limit = max(floor, sorted(highest for highest, _ in able)[count - 1])
    found = (card.choose(limit) for highest, card in able if highest <= limit)
    sets = sorted(found, key=lambda victims: rank_victims(victims)[1:])
    chosen = list(dict.fromkeys(victim for victims in sets[:count] for victim in victims))
    for victim in sorted(chosen, key=lambda each: (-each.priority, _age_text(each))):
        fewer = [each for each in chosen if each is not victim]
        if sum(card.is_free_without(fewer) for card in cards) >= count:
            chosen = fewer
    return tuple(chosen)


def _cards_to_free(
    node: NodeState,
    request: CardRequest,
    victims: Iterable[PodRef],
    room: kept_room.RoomAfterNominees,
    ended: Collection[PodRef],
) -> dict[int, _CardToFree]:
    """The cards that the end of pods may free, by index, after the end of those that end in any case."""
    leaving = kept_room.LeavingShares(node, room.leaving)
    needs = {
        state.index: need
        for state in node.cards.values()
        if (need := _find_need(state, request, leaving, room.left)) is not None
    }
    cards = {index: _CardToFree(need, {}) for index, (need, _) in needs.items()}

    def shares(pods: Iterable[PodRef]) -> Iterator[tuple[PodRef, _CardToFree, int]]:
        for pod in pods:
            held = node.assignments.get(pod.uid)
            if held is None or pod.uid in room.leaving:
                continue
            more = kept_room.APART if request.apart is not None and held.apart == request.apart else 0
            for grant in held.grants:
                if (need := needs.get(grant.index)) is not None:
                    yield pod, cards[grant.index], 1 if need[1] else grant.units + more

    for _, card, amount in shares(ended):
        card.need -= amount
    ending = {pod.uid for pod in ended}
    for victim, card, amount in shares(pod for pod in victims if pod.uid not in ending):
        card.shares[victim] = amount
    return cards


def _find_need(
    state: CardState, request: CardRequest, shares: kept_room.LeavingShares, left: kept_room.RoomLeft
) -> tuple[int, bool] | None:
    """What must become free on a card once the leaving pods are gone.

    A pair: (number of pods, True) if all pods must go, else (units, False), with `kept_room.APART` more for each pod
    that must go because the request shares no card with it. 0 or less means that nothing is missing. None if no victim
    helps: the request wants a whole card and room on it is kept for a nominee, or the missing units are kept for a pod
    whose card is unknown.
    """
    if not (state.takes(request) and state.could_hold(request)):
        return None
    if request.whole:
        return None if state.kept or state.index in left else (shares.count_staying(state), True)
    if shares.stays_whole(state):
        return (shares.count_staying(state), True) if state.total - state.kept >= request.units else None
    missing = request.units - left.get(state.index, shares.room_after(state))
    others = shares.count_apart(state, request.apart)
    return max(0, missing) + others * kept_room.APART if others else missing, False
