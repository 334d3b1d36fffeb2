"""The policies by name. ``make_policy`` makes one for a run; a policy object serves one run only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gcushare.cli.simulate.cluster import SimulatedCluster
from gcushare.cli.simulate.policies.base import Policy
from gcushare.cli.simulate.policies.baselines import BestFit, Clustering, DotProduct, OfTheExtender, Packing, Random
from gcushare.cli.simulate.policies.expected import CardsAlone, LearnedLeastLoss, LeastLoss
from gcushare.cli.simulate.policies.frag_gradient import FragGradient, typical_pods
from gcushare.core import placement
from gcushare.core.packing.expected_fill import Demand


@dataclass(frozen=True, slots=True)
class Given:
    """What a policy may look at before the first pod: the empty cluster, the pods it will be typical of, a seed."""

    cluster: SimulatedCluster
    trace: Sequence[Demand]
    seed: int


def _of_the_extender(name: str, _given: Given) -> Policy:
    return OfTheExtender(placement.POLICIES[name])


POLICIES: Mapping[str, Callable[[Given], Policy]] = {
    "random": lambda given: Random(given.seed),
    "dot-product": lambda given: DotProduct(given.cluster),
    "clustering": lambda given: Clustering(given.cluster),
    "packing": lambda given: Packing(given.cluster),
    "best-fit": lambda given: BestFit(given.cluster),
    "fgd": lambda given: FragGradient(typical_pods(given.trace), given.cluster.card_units),
    "expected-fill": lambda given: LeastLoss(Counter(given.trace)),
    "expected-fill-learned": lambda _given: LearnedLeastLoss(),
    "expected-fill-cards": lambda given: CardsAlone(Counter(given.trace)),
    **{name: partial(_of_the_extender, name) for name in placement.POLICIES},
}
"""``fgd``: fragmentation gradient descent. ``expected-fill``: ours, given the trace's typical pods as ``fgd`` is;
``-learned``: learning them from arrivals; ``-cards``: without CPU and memory, which the extender does not know.
The others are the extender's own."""


def make_policy(name: str, given: Given) -> Policy:
    """Make the policy of this name.

    Raises:
        KeyError: there is none.
    """
    return POLICIES[name](given)
