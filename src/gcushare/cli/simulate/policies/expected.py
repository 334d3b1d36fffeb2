"""The own policy: a pod goes where the node loses least of its expected fill (``core.packing.expected_fill``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gcushare.cli.simulate.cluster import SimulatedNode
from gcushare.cli.simulate.policies.base import Policy, Scored
from gcushare.core.packing.expected_fill import Demand, ExpectedFill


class LeastLoss(Policy):
    """``typical`` pods are given, as fragmentation gradient descent is given them; None learns them from arrivals.

    Learned pods are counted again when there are half as many more, so that the work of scoring all nodes again does
    not grow with the number of arrivals.
    """

    def __init__(self, typical: Mapping[Demand, float] | None = None) -> None:
        self._fill = ExpectedFill(typical) if typical is not None else None
        self._learns = typical is None
        self._seen: Counter[Demand] = Counter()
        self._arrived = self._next = 0

    def observe(self, demand: Demand) -> bool:
        if not self._learns:
            return False
        self._seen[demand] += 1
        self._arrived += 1
        if self._arrived <= self._next:
            return False
        self._next = self._arrived * 3 // 2
        self._fill = ExpectedFill(self._seen)
        return True

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """The loss, negated; before any arrival every node is as good as any other."""
        if self._fill is None:
            return 0.0, None
        loss, spot = self._fill.best_spot(node.room, demand)
        return -loss, spot
