"""Covers: how few victims free one card enough, kept while victims are put in and taken out one by one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TypeAlias

Cost: TypeAlias = tuple[int, int]
"""Victims that break a disruption budget, and others. Compared in this order, and added up over cards."""


class PreemptionCost:
    """One card and the victims on it that may end. ``need`` is what has to come free, in the unit of the amounts.

    Of victims only amounts are kept: two that hold as much are as good as each other here. ``everybody``: the card is
    free enough only when no pod is left on it, as for a request for the whole card; then amounts count pods.
    """

    __slots__ = ("_everybody", "_need", "_others", "_others_sum", "_violators", "_violators_sum")

    def __init__(self, need: int, *, everybody: bool = False) -> None:
        self._need = need
        self._everybody = everybody
        self._violators: list[int] = []
        self._others: list[int] = []
        self._violators_sum = self._others_sum = 0

    def put(self, amount: int, *, violates: bool) -> None:
        """Say that a victim that holds this much may end."""
        if violates:
            insort(self._violators, amount)
            self._violators_sum += amount
        else:
            insort(self._others, amount)
            self._others_sum += amount

    def take(self, amount: int, *, violates: bool) -> None:
        """Say that such a victim, put in before, stays."""
        if violates:
            del self._violators[bisect_left(self._violators, amount)]
            self._violators_sum -= amount
        else:
            del self._others[bisect_left(self._others, amount)]
            self._others_sum -= amount

    def lessen(self, amount: int) -> None:
        """Say that this much comes free anyway."""
        self._need -= amount

    def cost(self) -> Cost | None:
        """The fewest violators that must end, and with so many the fewest others; None when all are not enough."""
        need = self._need
        if need <= 0:
            return (0, 0)
        if need > self._violators_sum + self._others_sum:
            return None
        if self._everybody:
            return (len(self._violators), len(self._others))
        violators, freed = _count_largest(self._violators, need - self._others_sum)
        others, _ = _count_largest(self._others, need - freed)
        return (violators, others)


def sum_cheapest(costs: Iterable[Cost | None], count: int) -> Cost | None:
    """Add up the ``count`` lowest costs; None when fewer cards than that can be freed at all.

    What is lowest by one card and another is lowest together: pairs add up in the order in which they compare.
    """
    able = sorted(cost for cost in costs if cost is not None)
    if len(able) < count:
        return None
    return (sum(cost[0] for cost in able[:count]), sum(cost[1] for cost in able[:count]))


def _count_largest(amounts: list[int], need: int) -> tuple[int, int]:
    """How many of the largest amounts, which ascend, reach ``need``, and their sum; as many as there are at most."""
    count = freed = 0
    for amount in reversed(amounts):
        if freed >= need:
            break
        freed += amount
        count += 1
    return count, freed
