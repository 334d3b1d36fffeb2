"""A policy that is asked about pods with cards alone, as the extender is; kube-scheduler places the others."""

from __future__ import annotations

from collections.abc import Sequence

from gcushare.cli.simulate.cluster import SimulatedNode
from gcushare.cli.simulate.policies.base import Policy, Scored
from gcushare.cli.simulate.policies.baselines import least_allocated
from gcushare.core.packing.expected_fill import Demand


class BesideKubeScheduler(Policy):
    """Pods without cards go where most of CPU and memory is left: NodeResourcesFit's default, LeastAllocated."""

    by_room = False

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def observe(self, demand: Demand) -> bool:
        """See ``Policy``; what it is not asked about it does not learn."""
        return bool(demand.cards) and self._policy.observe(demand)

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """The policy's score; for pods without cards the mean share of CPU and memory that would be left."""
        if demand.cards:
            return self._policy.score(node, demand)
        return least_allocated(node, demand), None

    def choose(self, scores: Sequence[float]) -> int:
        return self._policy.choose(scores)
