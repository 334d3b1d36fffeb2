"""What no policy can exceed on a workload that only fills a cluster, whatever it knows beforehand.

Two bounds, the smaller holds. Both count card units and assume cards of one size.

*Resources*: the most card units whose pods' CPU (or memory) the whole cluster has, as if it were one node.

*Acceptance*: a pod that fits somewhere is placed, for that is what kube-scheduler does. Take one demand *k* for a share
of more than half a card. Say that the first pod like it is refused after ``t`` arrivals. All before it were accepted,
one per card: ``n`` cards with a share of *k*, and what is left beside them can be used by smaller shares only, of which
the workload has so much and no more. Nor was any other card free for *k* at ``t``: each is held whole, of which at most
``w`` were asked for until then, or in use by other shares, or on a node too short of CPU or memory. Those, at least
``cards - n - w``, are filled by other shares alone (or by pods that need less CPU or memory than *k*). Free room never
grows, so no *k* is accepted later. The bound is the best over all ``t``, and the least over all *k*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gcushare.cli.simulate.workload import NodeSpec, units_of
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


def compute_bounds(nodes: Sequence[NodeSpec], workload: Sequence[Demand]) -> Bounds:
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
    accepted = min((_accepted(workload, kind, cards, card) for kind in kinds), default=total)
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


def _accepted(workload: Sequence[Demand], kind: Demand, cards: int, card: int) -> int:
    shares = [pod for pod in workload if pod.cards and not pod.whole and pod != kind]
    beside = sum(pod.units * pod.cards for pod in shares if pod.units <= card - kind.units)
    frugal = (
        units_of(pod, card)
        for pod in workload
        if pod.whole and (pod.cpu_milli < kind.cpu_milli or pod.memory_mib < kind.memory_mib)
    )
    others = sum(pod.units * pod.cards for pod in shares) + sum(frugal)
    best = taken = whole = 0
    for pod in workload:
        if pod == kind:
            best = max(best, _filled(cards, card, kind.units, (taken, whole), (beside, others)))
            if taken == cards:
                return best
            taken += 1
        elif pod.whole:
            whole += pod.cards
    return max(best, _filled(cards, card, kind.units, (taken, cards), (beside, others)))


def _filled(cards: int, card: int, units: int, arrived: tuple[int, int], supply: tuple[int, int]) -> int:
    """Units in use at most, where so many of the kind were taken and so many cards whole asked for before a refusal."""
    taken, whole = arrived
    beside, others = supply
    open_cards = max(0, cards - taken - whole)
    return (
        (cards - taken - open_cards) * card
        + taken * units
        + min(taken * (card - units), beside)
        + min(open_cards * card, others)
    )
