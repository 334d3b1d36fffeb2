"""What no policy can exceed on a workload that only fills a cluster, whatever it knows beforehand.

Two bounds, the smaller holds. Both count card units and assume cards of one size.

*Resources*: the most card units whose pods' CPU (or memory) the whole cluster has, as if it were one node.

*Acceptance*: a pod that fits somewhere is placed, so shares that leave room for nothing cannot be refused; see
``acceptance``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gcushare.cli.simulate.acceptance import AcceptanceBound
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
    accepted = _accepted([AcceptanceBound(workload, kind, cards, card) for kind in sorted(kinds)], total)
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


def _accepted(bounds: Sequence[AcceptanceBound], total: int) -> int:
    """The least of the bounds. Only the least one is worth improving."""
    least = min(bounds, key=lambda each: each.units, default=None)
    if least is None:
        return total
    least.improve()
    return least.units
