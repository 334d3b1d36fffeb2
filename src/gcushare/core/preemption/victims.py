"""Preemption: which of the scheduler's victims on a node must end so that one card, or enough cards, can hold a pod.

The scheduler counts a node's memory as one sum, so its victims may free enough units on the wrong cards, or more than
are needed. Of the sets that are enough, the best is, in this order: the one whose most important pod has the lowest
priority; with the fewest pods; whose oldest pod is the youngest, then the next. Where each of them breaks a disruption
budget, the number comes first: so many budgets are broken.

Each criterion is decided in turn, because more victims never free less. On cards that share no victim the costs add up,
so the cheapest cards together are the cheapest set. Only a pod that holds several of the cards ties them together: of
such *wide* victims every combination is tried, as long as there are few enough of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from gcushare.core.nodes import CardGrant, CardState, NodeState, PodRef
from gcushare.core.preemption.nominations import (
    NO_NOMINEES,
    LeavingShares,
    RoomAfterNominees,
    RoomLeft,
    fits_after_nominees,
)
from gcushare.core.requests import CardRequest

EXACT_WORK = 512
"""Combinations of wide victims, times victims, that are tried on one node: about a millisecond. With 8 victims that is
exact for 6 wide ones, with 110 for 2; beyond, combinations of the least important ones are tried."""


@dataclass(frozen=True, slots=True)
class Age:
    """Orders pods, the youngest first; RFC 3339 texts of equal form compare as times, uids part pods of one second."""

    text: str

    def __lt__(self, other: Age) -> bool:
        return self.text > other.text


Rank: TypeAlias = tuple[int, int, tuple[Age, ...]]
"""Orders sets of victims, the best first: highest priority, count, then ages, oldest pod first."""


def rank_victims(victims: Collection[PodRef]) -> Rank:
    """The place of a set of victims in the order of this module; the empty set is the best of all."""
    ages = tuple(Age(text) for text in sorted(map(_age_text, victims)))
    highest = max((victim.priority for victim in victims), default=_LOWEST)
    return highest, len(victims), ages


def choose_victims(
    node: NodeState,
    request: CardRequest,
    victims: Iterable[PodRef],
    *,
    room: RoomAfterNominees = NO_NOMINEES,
    count_first: bool = False,
) -> tuple[PodRef, ...] | None:
    """Choose the smallest of the victims whose end makes the request fit; None when not even all of them would do.

    ``room``: what nominees that go before the pod leave to it, and which pods are leaving. Those are never chosen,
    and what they hold comes free anyway. So if the request fits once they are gone, no victim is chosen.

    ``count_first``: few pods matter more than unimportant ones, as when the end of each breaks a disruption budget.

    Exact where the request needs one card, where no victim holds several of the cards, and where few do (see
    ``EXACT_WORK``); else every pod of the set is needed, but a smaller set may exist. None too while the node is
    unconfirmed: what is free there is known in a moment, and no pod must end for it; and where the node serves no whole
    cards, or nothing else, whoever ends.
    """
    if node.is_unconfirmed or not node.serves(request):
        return None
    if node.fits(request) and fits_after_nominees(node, request, room.left):
        return ()
    return _Search(node, request, victims, room, count_first=count_first).run()


_LOWEST = -(1 << 62)


def _age_text(victim: PodRef) -> str:
    """Smaller for older pods."""
    return f"{victim.created}\0{victim.uid}"


@dataclass(frozen=True, slots=True)
class _Holder:
    """A victim and what it holds of the cards that could be freed: by index, in the unit of that card's cover."""

    victim: PodRef
    shares: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Reach:
    """What a pool of narrow victims can free, and for how little; None when it is not enough."""

    pool: tuple[_Holder, ...]
    covers: dict[int, PreemptionCost]
    cost: int | None


@dataclass(frozen=True, slots=True)
class _Outline:
    """All but the names of the best set in which ``ended`` end: its rank without ages, and who else may be in it."""

    rank: tuple[int, int]
    ended: tuple[_Holder, ...]
    reach: _Reach


def _find_need(
    state: CardState, request: CardRequest, shares: LeavingShares, left: RoomLeft
) -> tuple[int, bool] | None:
    """What has to come free of a card besides what the leaving hold: pods (and True) where all have to go, else units.

    Nothing has to where that is 0 or less. None where no one's end is enough: for a whole card of which room is kept
    for a nominee, and for units that are kept for a pod of which no card is known.
    """
    if not (state.takes(request) and state.could_hold(request)):
        return None
    if request.whole:
        return None if state.kept or state.index in left else (shares.count_staying(state), True)
    if shares.stays_whole(state):
        return (shares.count_staying(state), True) if state.total - state.kept >= request.units else None
    return request.units - left.get(state.index, shares.room_after(state)), False


class _Search:
    """The search on one node."""

    def __init__(
        self,
        node: NodeState,
        request: CardRequest,
        victims: Iterable[PodRef],
        room: RoomAfterNominees,
        *,
        count_first: bool,
    ) -> None:
        self._count = request.cards
        self._count_first = count_first
        shares = LeavingShares(node, room.leaving)
        self._needs = {
            state.index: need
            for state in node.cards.values()
            if (need := _find_need(state, request, shares, room.left)) is not None
        }
        held = ((each, node.assignments.get(each.uid)) for each in victims if each.uid not in room.leaving)
        holders = (_Holder(victim, self._shares(found.grants)) for victim, found in held if found is not None)
        self._holders = [holder for holder in holders if holder.shares]

    def _shares(self, grants: Iterable[CardGrant]) -> tuple[tuple[int, int], ...]:
        shares: dict[int, int] = {}
        for grant in grants:
            if (need := self._needs.get(grant.index)) is not None:
                shares[grant.index] = 1 if need[1] else shares.get(grant.index, 0) + grant.units
        return tuple(shares.items())

    def run(self) -> tuple[PodRef, ...] | None:
        """Return the best set, or None when there is none."""
        wide: list[_Holder] = []
        others: list[_Holder] = []
        for holder in self._holders:
            (wide if self._count > 1 and len(holder.shares) > 1 else others).append(holder)
        narrow = tuple(others)
        found = [outline for ended in self._combine(wide, narrow) if (outline := self._outline(ended, narrow))]
        best = min((outline.rank for outline in found), default=None)
        sets = [self._name(outline) for outline in found if outline.rank == best]
        return min(sets, key=rank_victims, default=None)

    def _combine(self, wide: list[_Holder], narrow: Sequence[_Holder]) -> Iterator[tuple[_Holder, ...]]:
        """The combinations of wide victims to try: all of them, or of many those of the least important ones."""
        wide.sort(key=lambda holder: (holder.victim.priority, Age(_age_text(holder.victim))))
        few = (EXACT_WORK // max(1, len(self._holders))).bit_length() - 1
        tried = wide[: max(0, few)]
        for count in range(len(tried) + 1):
            yield from combinations(tried, count)
        if len(tried) < len(wide):
            yield self._spare(wide, narrow)

    def _spare(self, wide: Sequence[_Holder], narrow: Sequence[_Holder]) -> tuple[_Holder, ...]:
        """Of the wide victims those that have to end whoever else does, the most important spared first."""
        covers = self._covers(wide, narrow)
        ended = []
        for holder in reversed(wide):
            for index, amount in holder.shares:
                covers[index].lessen(-amount)
            if self._cost(covers.values()) is None:
                ended.append(holder)
                for index, amount in holder.shares:
                    covers[index].lessen(amount)
        return tuple(ended)

    def _outline(self, ended: tuple[_Holder, ...], narrow: tuple[_Holder, ...]) -> _Outline | None:
        """Decide priority and count, in their order, for sets of ``ended`` and some narrow victims."""
        floor = max((holder.victim.priority for holder in ended), default=_LOWEST)
        above = {holder.victim.priority for holder in narrow if holder.victim.priority > floor}
        tops = [floor, *sorted(above)]
        reaches: dict[int, _Reach] = {}

        def reach(top: int) -> _Reach:
            if top not in reaches:
                pool = (
                    narrow if top == tops[-1] else tuple(holder for holder in narrow if holder.victim.priority <= top)
                )
                covers = self._covers(ended, pool)
                reaches[top] = _Reach(pool, covers, self._cost(covers.values()))
            return reaches[top]

        whole_pool = reach(tops[-1]).cost
        if whole_pool is None:
            return None

        def is_enough(top: int) -> bool:
            cost = reach(top).cost
            return cost is not None and (cost == whole_pool or not self._count_first)

        top = tops[bisect_left(tops, True, key=is_enough)]
        found = reach(top)
        count = (whole_pool if found.cost is None else found.cost) + len(ended)
        return _Outline((count, top) if self._count_first else (top, count), ended, found)

    def _name(self, outline: _Outline) -> tuple[PodRef, ...]:
        """Decide by age: spare the oldest that the cost can do without, then the next."""
        covers = outline.reach.covers
        costs = {index: cover.cost() for index, cover in covers.items()}
        chosen = list(outline.ended)
        for holder in sorted(outline.reach.pool, key=lambda each: _age_text(each.victim)):
            for index, amount in holder.shares:
                covers[index].take(amount)
            without = costs | {index: covers[index].cost() for index, _ in holder.shares}
            if sum_cheapest(without.values(), self._count) == outline.reach.cost:
                costs = without
                continue
            for index, amount in holder.shares:
                covers[index].put(amount)
            chosen.append(holder)
        return tuple(holder.victim for holder in chosen)

    def _covers(self, ended: Iterable[_Holder], pool: Iterable[_Holder]) -> dict[int, PreemptionCost]:
        covers = {index: PreemptionCost(need) for index, (need, _) in self._needs.items()}
        for holder in ended:
            for index, amount in holder.shares:
                covers[index].lessen(amount)
        for holder in pool:
            for index, amount in holder.shares:
                covers[index].put(amount)
        return covers

    def _cost(self, covers: Iterable[PreemptionCost]) -> int | None:
        return sum_cheapest((cover.cost() for cover in covers), self._count)


class PreemptionCost:
    """One card and the victims on it that may end. ``need`` is what has to come free, in the unit of the amounts.

    Of victims only amounts are kept: two that hold as much are as good as each other here.
    """

    __slots__ = ("_amounts", "_need", "_sum")

    def __init__(self, need: int) -> None:
        self._need = need
        self._amounts: list[int] = []
        self._sum = 0

    def put(self, amount: int) -> None:
        """Say that a victim that holds this much may end."""
        insort(self._amounts, amount)
        self._sum += amount

    def take(self, amount: int) -> None:
        """Say that such a victim, put in before, stays."""
        del self._amounts[bisect_left(self._amounts, amount)]
        self._sum -= amount

    def lessen(self, amount: int) -> None:
        """Say that this much comes free anyway."""
        self._need -= amount

    def cost(self) -> int | None:
        """The fewest victims that must end; None when all are not enough."""
        if self._need > self._sum:
            return None
        count = freed = 0
        for amount in reversed(self._amounts):
            if freed >= self._need:
                break
            freed += amount
            count += 1
        return count


def sum_cheapest(costs: Iterable[int | None], count: int) -> int | None:
    """Add up the ``count`` lowest costs; None when fewer cards than that can be freed at all."""
    able = sorted(cost for cost in costs if cost is not None)
    return sum(able[:count]) if len(able) >= count else None
