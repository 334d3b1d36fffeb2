"""What no policy can exceed on a workload that only fills a cluster, whatever it knows beforehand.

Two bounds, the smaller holds. Both count card units and assume cards of one size.

*Resources*: the most card units whose pods' CPU (or memory) the whole cluster has, as if it were one node.

*Acceptance*: a pod that fits somewhere is placed, for that is what kube-scheduler does, so shares that leave room for
nothing cannot be refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, gcd

from benchmarks.packing.workload import EmptyNode, units_of
from gcushare.core.packing.expected_fill import Demand


@dataclass(frozen=True, slots=True)
class Bounds:
    """Shares of the cluster's card units, 0 to 1."""

    demand: float
    resources: float
    acceptance: float

    @property
    def least(self) -> float:
        return min(self.demand, self.resources, self.acceptance)


def compute_bounds(nodes: Sequence[EmptyNode], workload: Sequence[Demand]) -> Bounds:
    """Bound the allocation ratio of a workload that arrives in this order and never ends.

    Raises:
        ValueError: the nodes' cards are not of one size.
    """
    sizes = {node.card_units for node in nodes}
    if len(sizes) != 1:
        raise ValueError(f"cards of one size are assumed, these have {sorted(sizes)} units")
    card = sizes.pop()
    cards = sum(node.cards for node in nodes)
    total = cards * card
    demanded = sum(units_of(pod, card) for pod in workload)
    cpu = _fractional([(pod.cpu_milli, units_of(pod, card)) for pod in workload], sum(n.cpu_milli for n in nodes))
    memory = _fractional([(pod.memory_mib, units_of(pod, card)) for pod in workload], sum(n.memory_mib for n in nodes))
    kinds = {pod for pod in workload if pod.cards == 1 and 2 * pod.units > card and not pod.models}
    # Only the least bound is worth improving.
    accepts = [AcceptanceBound(workload, kind, cards, card) for kind in sorted(kinds)]
    least = min(accepts, key=lambda each: each.units, default=None)
    if least is not None:
        least.improve()
    accepted = total if least is None else least.units
    return Bounds(min(1.0, demanded / total), min(1.0, cpu / total, memory / total), min(1.0, accepted / total))


def _fractional(pods: Sequence[tuple[int, int]], supply: int) -> float:
    """The most units for so much of one resource, where pods could be placed in part: the cheapest first."""
    gained = 0.0
    for need, units in sorted((pod for pod in pods if pod[1]), key=lambda pod: pod[0] / pod[1]):
        if need > supply:
            return gained + units * supply / need
        gained += units
        supply -= need
    return gained


STEPS = 200
"""Improvements of the prices. On the published workloads 400 more lower the bound by 0.02 % of the cluster at most."""

AMBITION, DECAY = 0.01, 0.98
"""By which share of the bound a step aims below it at first, and what is left of that share with each step."""

_ROUNDING = 1e-6
"""Units that sums of prices may be off by; what is placed is a whole number of units, so they never lower a bound."""

Prices = Mapping[int, float]
"""What a share pays, by its units."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """The first refusal: cards with a share of the kind, cards held whole, and the others."""

    taken: int
    whole: int
    others: int


@dataclass(frozen=True, slots=True)
class _Priced:
    """What cards are worth at some prices, and which shares the best sets hold."""

    rest: float
    """The best set next to a share of the kind; ``other`` is that of a whole card."""
    other: float
    paid: float
    rest_set: Counter[int]
    other_set: Counter[int]


class AcceptanceBound:
    """Bounds the card units in use by what must be accepted of one kind; cards have ``card`` units each.

    Take one demand *k* for a share of more than half a card. Say that the first pod like it is refused after ``t``
    arrivals. All before it were accepted, one per card: ``n`` cards hold a share of *k*, with smaller shares next to
    it. Nor was any other card free for *k* at ``t``: each is held whole (at most ``w`` were asked for until then), or
    in use by other shares, or on a node too short of CPU or memory. Those, at least ``cards - n - w``, hold other
    shares alone (or pods that need less CPU or memory than *k*). Free room never grows, so no *k* is accepted later.

    How much the shares can fill, which are limited in number, is bounded by prices. Let every accepted share pay a
    price. A card is then worth the best set of shares that fits it, less their prices, and all that is placed is worth
    at most what the cards are worth and the prices of all shares together. That holds for any prices; they are
    improved by subgradient steps: lowered if the best sets use fewer shares than there are, raised if more. The bound
    is the greatest over all ``t`` of the least over all prices tried, and the least over all *k*.
    """

    def __init__(self, workload: Sequence[Demand], kind: Demand, cards: int, card: int) -> None:
        self._kind, self._cards, self._card = kind, cards, card
        self._supply = _supply(workload, kind, card)
        self._grain = gcd(card, kind.units, *self._supply)
        self._moments = _moments(workload, kind, cards)
        small = {units for units in self._supply if units <= card - kind.units}
        free: dict[int, float] = dict.fromkeys(self._supply, 0.0)
        self._least = [float(card * cards)] * len(self._moments)
        for prices in (free, free | {u: float(u) for u in small}, {u: float(u) for u in self._supply}):
            self._try(prices)

    @property
    def units(self) -> int:
        """The bound by the prices tried so far."""
        return floor(max(self._least) + _ROUNDING)

    def improve(self, steps: int = STEPS) -> None:
        """Try further prices, each time for the moment that the bound hangs on."""
        prices = {u: float(u) if u <= self._card - self._kind.units else 0.0 for u in self._supply}
        for step in range(steps):
            priced = self._try(prices)
            bound = max(self._least)
            moment = self._moments[self._least.index(bound)]
            slope = {
                u: self._supply[u] - moment.taken * priced.rest_set[u] - moment.others * priced.other_set[u]
                for u in self._supply
            }
            steepness = sum(each * each for each in slope.values())
            if not steepness:
                return
            # Polyak's step towards a little less than the least so far, ever less so.
            wanted = bound * (1.0 - AMBITION * DECAY**step)
            length = (self._at(moment, priced) - wanted) / steepness
            prices = {u: min(float(u), max(0.0, prices[u] - length * slope[u])) for u in prices}

    def _try(self, prices: Prices) -> _Priced:
        worth, last = self._best_sets(prices)
        rest = self._card - self._kind.units
        priced = _Priced(
            worth[rest // self._grain],
            worth[-1],
            sum(self._supply[u] * price for u, price in prices.items()),
            self._set_of(last, rest),
            self._set_of(last, self._card),
        )
        self._least = [
            min(least, self._at(moment, priced)) for least, moment in zip(self._least, self._moments, strict=True)
        ]
        return priced

    def _at(self, moment: _Moment, priced: _Priced) -> float:
        kinds = moment.taken * (self._kind.units + priced.rest)
        return kinds + moment.whole * self._card + moment.others * priced.other + priced.paid

    def _best_sets(self, prices: Prices) -> tuple[list[float], list[int]]:
        """By room in grains: the worth of the best set of shares there, and one of them; -1 where some room stays."""
        gains = [(u // self._grain, u - price, u) for u, price in sorted(prices.items()) if u > price]
        worth, last = [0.0], [-1]
        for room in range(1, self._card // self._grain + 1):
            best, share = worth[room - 1], -1
            for size, gain, units in gains:
                if size > room:
                    break
                if worth[room - size] + gain > best:
                    best, share = worth[room - size] + gain, units
            worth.append(best)
            last.append(share)
        return worth, last

    def _set_of(self, last: Sequence[int], room: int) -> Counter[int]:
        """The shares of the best set for so much room."""
        chosen: Counter[int] = Counter()
        at = room // self._grain
        while at > 0:
            units = last[at]
            if units > 0:
                chosen[units] += 1
                at -= units // self._grain
            else:
                at -= 1
        return chosen


def _supply(workload: Sequence[Demand], kind: Demand, card: int) -> dict[int, int]:
    """How many shares of other pods there are, by their units of one card."""
    supply: Counter[int] = Counter()
    for pod in workload:
        if pod.whole and (pod.cpu_milli < kind.cpu_milli or pod.memory_mib < kind.memory_mib):
            supply[card] += pod.cards
        elif pod.cards and not pod.whole and pod != kind:
            supply[pod.units] += pod.cards
    return dict(sorted(supply.items()))


def _moments(workload: Sequence[Demand], kind: Demand, cards: int) -> list[_Moment]:
    """When the kind may be refused first: at any of its pods, or never."""
    moments: list[_Moment] = []
    taken = whole = 0
    for pod in (*workload, None):
        if pod is not None and pod.whole:
            whole += pod.cards
        if pod is None or pod == kind:
            held = min(whole, cards - taken)
            moments.append(_Moment(taken, held, cards - taken - held))
            if taken == cards:
                return moments
            taken += 1
    return moments
