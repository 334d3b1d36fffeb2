"""Preemption: which of the scheduler's victims on a node must end so that one card, or enough cards, can hold a pod.

The scheduler counts a node's memory as one sum, so its victims may free enough units on the wrong cards, or more than
are needed. Of the sets that are enough, the best is, in this order: the one that breaks the fewest disruption budgets;
whose most important pod has the lowest priority; with the fewest pods; whose oldest pod is the youngest, then the next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gcushare.core.nodes import CardState, NodeState, PodRef
from gcushare.core.requests import CardRequest


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that may be ended. ``violates``: whether that breaks a disruption budget."""

    pod: PodRef
    violates: bool = False


Rank: TypeAlias = tuple[int, int, int, tuple[tuple[int, ...], ...]]
"""Orders sets of victims, the best first: violations, highest priority, count, then ages, oldest pod first."""


def rank_victims(victims: Collection[Victim]) -> Rank:
    """The place of a set of victims in the order of this module; the empty set is the best of all."""
    ages = sorted((_age_key(victim) for victim in victims), reverse=True)
    highest = max((victim.pod.priority for victim in victims), default=_LOWEST)
    return sum(victim.violates for victim in victims), highest, len(victims), tuple(ages)


def choose_victims(node: NodeState, request: CardRequest, victims: Iterable[Victim]) -> tuple[Victim, ...] | None:
    """Choose the smallest of the victims whose end makes the request fit; None when not even all of them would do.

    Exact where the request needs one card. For several cards at once the set is minimal (each of its pods is needed),
    found by sparing the most important pods first; the smallest would need a search over all combinations. None too
    while the node settles: what is free there is known in a moment, and nobody must end for it; and where the node
    serves no whole cards, or nothing else, whoever ends.
    """
    if node.is_settling or not node.serves(request):
        return None
    held = [victim for victim in victims if victim.pod.uid in node.assignments]
    if node.fits(request):
        return ()
    if request.cards == 1:
        sets = (_choose_on_card(node, state, request, held) for state in node.cards.values())
        return min((found for found in sets if found is not None), key=rank_victims, default=None)
    return _spare(node, request, held)


_LOWEST = -(1 << 62)
_NewestFirst: TypeAlias = tuple[int, ...]


def _age_key(victim: Victim) -> _NewestFirst:
    """Larger for older pods; RFC 3339 texts of equal form compare as times, and the uid parts pods of one second."""
    return tuple(-ord(char) for char in f"{victim.pod.created}\0{victim.pod.uid}")


def _choose_on_card(
    node: NodeState, state: CardState, request: CardRequest, victims: Sequence[Victim]
) -> tuple[Victim, ...] | None:
    """The best set for this one card."""
    if not _allows(state, request):
        return None
    shares = {victim: _units_on(node, victim, state.index) for victim in victims}
    here = [victim for victim in victims if shares[victim] is not None]
    if request.whole:
        return tuple(here) if len(here) == state.pods and state.total > 0 else None
    if state.whole:
        # Whoever holds the card whole must end, and then nobody else is there.
        return tuple(here) if len(here) == state.pods and state.total >= request.units else None
    units = {victim: shares[victim] or 0 for victim in here}
    return _cheapest_cover(here, units, request.units - (state.total - state.used))


def _allows(state: CardState, request: CardRequest) -> bool:
    if state.card is None or not state.card.is_usable:
        return False
    selection = request.selection
    return selection is None or selection.allows(state.index, state.card.card.uuid, state.card.card.model)


def _units_on(node: NodeState, victim: Victim, index: int) -> int | None:
    """What a pod holds of a card; None when it is not there."""
    grants = [grant.units for grant in node.assignments[victim.pod.uid].grants if grant.index == index]
    return sum(grants) if grants else None


def _cheapest_cover(victims: Sequence[Victim], units: dict[Victim, int], need: int) -> tuple[Victim, ...] | None:
    """The best set whose units sum up to ``need``: the order's criteria are settled one after the other."""

    def covers(pool: Sequence[Victim], violators: int, others: int) -> bool:
        return _largest(pool, units, violators, others) >= need

    everybody = len(victims)
    if not covers(victims, everybody, everybody):
        return None
    counts = range(everybody + 1)
    violators = bisect_left(counts, True, key=lambda number: covers(victims, number, everybody))
    priorities = sorted({victim.pod.priority for victim in victims})
    place = bisect_left(
        priorities, True, key=lambda top: covers([v for v in victims if v.pod.priority <= top], violators, everybody)
    )
    pool = [victim for victim in victims if victim.pod.priority <= priorities[place]]
    others = bisect_left(counts, True, key=lambda number: covers(pool, violators, number))
    # Oldest first: a pod that the sum can do without is spared, so the oldest that has to end is as young as possible.
    for victim in sorted(pool, key=_age_key, reverse=True):
        rest = [each for each in pool if each is not victim]
        if covers(rest, violators, others):
            pool = rest
    return tuple(pool)


def _largest(pool: Sequence[Victim], units: dict[Victim, int], violators: int, others: int) -> int:
    """The most units that so many violators and so many others can free."""
    broken = sorted((units[victim] for victim in pool if victim.violates), reverse=True)
    free = sorted((units[victim] for victim in pool if not victim.violates), reverse=True)
    return sum(broken[:violators]) + sum(free[:others])


def _spare(node: NodeState, request: CardRequest, victims: Sequence[Victim]) -> tuple[Victim, ...] | None:
    """End all, then take pods back, the most important first, as long as the request still fits."""
    trial = node.copy()
    for victim in victims:
        trial.remove(victim.pod.uid)
    if not trial.fits(request):
        return None
    ended: list[Victim] = []
    for victim in sorted(victims, key=lambda v: (v.violates, v.pod.priority, _age_key(v)), reverse=True):
        trial.add(node.assignments[victim.pod.uid])
        if not trial.fits(request):
            trial.remove(victim.pod.uid)
            ended.append(victim)
    return tuple(ended)
