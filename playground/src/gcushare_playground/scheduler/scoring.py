"""The scheduler's own scores: free room and balance, each 0 to 100, as the default profile weighs them.

Source: NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation, over cpu and memory. The other scores of
the default profile (image locality, topology spread, affinities) are not modelled.
"""

from __future__ import annotations

from fractions import Fraction

from gcushare_playground.scheduler.cache import NodeView
from gcushare_playground.scheduler.objects import PodInfo

MAX_SCORE = 100
_RESOURCES = ("cpu", "memory")


def score(pod: PodInfo, view: NodeView) -> int:
    """Score a node that fits."""
    shares = [_used_share(pod, view, name) for name in _RESOURCES]
    free = sum(int((1 - share) * MAX_SCORE) for share in shares) // len(shares)
    balance = int((1 - abs(shares[0] - shares[1]) / 2) * MAX_SCORE)
    return free + balance


def _used_share(pod: PodInfo, view: NodeView, name: str) -> Fraction:
    total = view.node.allocatable.get(name, 0)
    if not total:
        return Fraction(1)
    used = view.scored.get(name, 0) + pod.scored.get(name, 0)
    return min(Fraction(1), Fraction(used, total))
