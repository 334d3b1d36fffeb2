"""Chooses which pods of a node must end, so that another pod fits on one of its cards or on enough of them.

Sufficient sets are compared by three criteria, in this order:

1. the highest priority among their pods: lower is better;
2. the number of pods: fewer is better;
3. the age of their oldest pod, then of the next: younger is better.

The criteria are decided one after the other, because more victims never free less. The costs of cards without a common
victim add up, so the cheapest cards together make the cheapest set. Only a pod that holds several of the cards connects
them. Such victims are called *wide*: their combinations are tried one by one, up to ``EXACT_WORK``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.card_state import CardState
from gcushare.core.nodes import NodeState
from gcushare.core.preemption import kept_room
from gcushare.core.requests import CardRequest
from gcushare.core.whole_cards import linked_sets

EXACT_WORK = 512
"""Limit for the combinations of wide victims times the victims on one node: about a millisecond of work. With 8 victims
the search is exact for up to 6 wide ones, with 110 for 2. Above that, only the least important wide ones are combined.
"""


@dataclass(frozen=True, slots=True)
class Age:
    """Orders pods, youngest first. ``text`` is an RFC 3339 time, which compares as text, then the uid."""

    text: str

    def __lt__(self, other: Age) -> bool:
        return self.text > other.text


Rank: TypeAlias = tuple[int, int, tuple[Age, ...]]
"""Sort key of a set of victims; the lowest is the best: highest priority, count, then ages from the oldest pod on."""


def rank_victims(victims: Collection[PodRef]) -> Rank:
    """The sort key of a set of victims in this module's order. The empty set sorts first."""
    ages = tuple(Age(text) for text in sorted(map(_age_text, victims)))
    highest = max((victim.priority for victim in victims), default=_LOWEST)
    return highest, len(victims), ages


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

    The result is the best set if the request needs one card, or if few enough victims are wide (``EXACT_WORK``).
    Otherwise every chosen pod is needed, but a better set may exist.

    The result is also None if the node does not serve this kind of request, and while the node is unconfirmed: its free
    room will be known shortly, so no pod should end for it.
    """
    if node.is_unconfirmed or not node.serves(request):
        return None
    if not ended and node.fits(request) and kept_room.fits_after_nominees(node, request, room.left):
        return ()
    if not request.linked:
        return _VictimSearch(node, request, victims, room, ended).run()
    offered, found = tuple(victims), []
    for linked in linked_sets(node.present_cards, request.cards):
        chosen = _VictimSearch(node, request, offered, room, ended, among=linked).run()
        found += [chosen] if chosen is not None else []
    return min(found, key=rank_victims, default=None)


_LOWEST = -(1 << 62)


def _age_text(victim: PodRef) -> str:
    """A sort key that is smaller for older pods."""
    return f"{victim.created}\0{victim.uid}"


@dataclass(frozen=True, slots=True)
class _Holder:
    """A victim and what it holds of the cards that could be freed: (card index, amount as in ``PreemptionCost``)."""

    victim: PodRef
    shares: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Reach:
    """What a pool of narrow victims can free, and at which cost: the fewest victims. None if all are not enough."""

    pool: tuple[_Holder, ...]
    covers: dict[int, PreemptionCost]
    cost: int | None


@dataclass(frozen=True, slots=True)
class _Outline:
    """The best set that contains ``ended``, before its other pods are named: its rank without ages, and the pool."""

    rank: tuple[int, int]
    ended: tuple[_Holder, ...]
    reach: _Reach


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


class _VictimSearch:
    def __init__(
        self,
        node: NodeState,
        request: CardRequest,
        victims: Iterable[PodRef],
        room: kept_room.RoomAfterNominees,
        ended: Collection[PodRef],
        among: Collection[int] | None = None,
    ) -> None:
        self._count = request.cards
        self._apart = request.apart
        self._ended = tuple(ended)
        self._floor = max((victim.priority for victim in ended), default=_LOWEST)
        shares = kept_room.LeavingShares(node, room.leaving)
        self._needs = {
            state.index: need
            for state in node.cards.values()
            if among is None or state.index in among
            if (need := _find_need(state, request, shares, room.left)) is not None
        }
        passed_over = {*room.leaving, *(each.uid for each in ended)}
        self._holders = self._hold(node, (each for each in victims if each.uid not in passed_over))
        self._freed = self._hold(node, (each for each in ended if each.uid not in room.leaving))

    def _hold(self, node: NodeState, victims: Iterable[PodRef]) -> list[_Holder]:
        held = ((each, node.assignments.get(each.uid)) for each in victims)
        holders = (_Holder(victim, self._shares(found)) for victim, found in held if found is not None)
        return [holder for holder in holders if holder.shares]

    def _shares(self, held: Assignment) -> tuple[tuple[int, int], ...]:
        shares: dict[int, int] = {}
        more = kept_room.APART if self._apart is not None and held.apart == self._apart else 0
        for grant in held.grants:
            if (need := self._needs.get(grant.index)) is not None:
                shares[grant.index] = 1 if need[1] else shares.get(grant.index, 0) + grant.units + more
        return tuple(shares.items())

    def run(self) -> tuple[PodRef, ...] | None:
        """Return the best set, or None if there is none."""
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
        """The combinations of wide victims to try: all or, if there are too many, those of the least important."""
        wide.sort(key=lambda holder: (holder.victim.priority, Age(_age_text(holder.victim))))
        few = (EXACT_WORK // max(1, len(self._holders))).bit_length() - 1
        tried = wide[: max(0, few)]
        for count in range(len(tried) + 1):
            yield from combinations(tried, count)
        if len(tried) < len(wide):
            yield self._spare(wide, narrow)

    def _spare(self, wide: Sequence[_Holder], narrow: Sequence[_Holder]) -> tuple[_Holder, ...]:
        """The wide victims that must end even if all others do. The most important ones are spared first."""
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
        """Decide the first two criteria for sets of ``ended`` and some narrow victims."""
        floor = max((self._floor, *(holder.victim.priority for holder in ended)))
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
        top = tops[bisect_left(tops, True, key=lambda top: reach(top).cost is not None)]
        found = reach(top)
        count = (whole_pool if found.cost is None else found.cost) + len(ended)
        return _Outline((top, count), ended, found)

    def _name(self, outline: _Outline) -> tuple[PodRef, ...]:
        """Decide the third criterion: spare each pod, from the oldest on, if the cost stays the same without it."""
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
        return (*self._ended, *(holder.victim for holder in chosen))

    def _covers(self, ended: Iterable[_Holder], pool: Iterable[_Holder]) -> dict[int, PreemptionCost]:
        covers = {index: PreemptionCost(need) for index, (need, _) in self._needs.items()}
        for holder in (*self._freed, *ended):
            for index, amount in holder.shares:
                covers[index].lessen(amount)
        for holder in pool:
            for index, amount in holder.shares:
                covers[index].put(amount)
        return covers

    def _cost(self, covers: Iterable[PreemptionCost]) -> int | None:
        return sum_cheapest((cover.cost() for cover in covers), self._count)


class PreemptionCost:
    """The cost of freeing one card: the fewest victims that must end.

    ``need`` is what must become free, in units or in pods; the victims' amounts are in the same unit. Victims are kept
    as amounts only, because two with the same amount are interchangeable here.
    """

    __slots__ = ("_amounts", "_need", "_sum")

    def __init__(self, need: int) -> None:
        self._need = need
        self._amounts: list[int] = []
        self._sum = 0

    def put(self, amount: int) -> None:
        """Add a victim that holds this amount and may end."""
        insort(self._amounts, amount)
        self._sum += amount

    def take(self, amount: int) -> None:
        """Remove a victim that was added with this amount: it stays."""
        del self._amounts[bisect_left(self._amounts, amount)]
        self._sum -= amount

    def lessen(self, amount: int) -> None:
        """Subtract an amount that becomes free in any case."""
        self._need -= amount

    def cost(self) -> int | None:
        """The fewest victims that must end; None if all are not enough."""
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
    """Add up the ``count`` lowest costs; None if fewer cards can be freed at all."""
    able = sorted(cost for cost in costs if cost is not None)
    return sum(able[:count]) if len(able) >= count else None
