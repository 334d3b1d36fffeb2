"""The policies by name. ``make_policy`` makes one for a run; a policy object serves one run only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.packing import baselines
from benchmarks.packing.cluster import SimulatedCluster
from benchmarks.packing.extender_policies import BesideKubeScheduler, NodeChooser, of_the_extender
from benchmarks.packing.typical_pods import FragGradient, typical_pods
from gcushare.core import placement
from gcushare.core.packing.expected_fill import Demand


@dataclass(frozen=True, slots=True)
class Given:
    """What a policy may look at before the first pod: the empty cluster, the pods it will be typical of, a seed.

    ``cards_alone``: it is asked about pods with cards alone, and kube-scheduler's defaults place the others.
    """

    cluster: SimulatedCluster
    trace: Sequence[Demand]
    seed: int
    cards_alone: bool = False


def _of_the_extender(name: str, given: Given) -> NodeChooser:
    return of_the_extender(name, given.trace)


POLICIES: Mapping[str, Callable[[Given], NodeChooser]] = {
    "random": lambda given: baselines.Random(given.seed),
    "dot-product": lambda given: baselines.DotProduct(given.cluster),
    "clustering": lambda given: baselines.Clustering(given.cluster),
    "packing": lambda given: baselines.Packing(given.cluster),
    "best-fit": lambda given: baselines.BestFit(given.cluster),
    "fgd": lambda given: FragGradient(typical_pods(given.trace), given.cluster.card_units),
    "dra-first-fit": lambda _given: baselines.DraFirstFit(),
    **{name: partial(_of_the_extender, name) for name in placement.POLICIES},
}
"""``fgd``: fragmentation gradient descent. ``dra-first-fit``: what kube-scheduler does with claims by itself. The
extender's own ``expected-fill`` is given the trace's typical pods as ``fgd`` is."""


def make_policy(name: str, given: Given) -> NodeChooser:
    """Make the policy of this name.

    Raises:
        KeyError: there is none.
    """
    policy = POLICIES[name](given)
    return BesideKubeScheduler(policy) if given.cards_alone else policy
