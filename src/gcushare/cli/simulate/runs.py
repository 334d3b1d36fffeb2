"""One run: a workload placed on an empty cluster by one policy, with what it left and how it got there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gcushare.cli.simulate.cluster import SimulatedCluster
from gcushare.cli.simulate.placing import Placer
from gcushare.cli.simulate.policies import Given, make_policy
from gcushare.cli.simulate.policies.frag_gradient import Fragmentation, typical_pods
from gcushare.cli.simulate.trace import NodeSpec
from gcushare.cli.simulate.workload import units_of
from gcushare.core.packing.expected_fill import Demand

SAMPLES = 100
"""Points of a run's curves."""

Progress = Callable[[int, int], None]
"""Told how many pods of how many have arrived."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster after some arrivals, all as shares of its card units.

    ``arrived`` is what was asked for so far, ``allocated`` what pods hold, ``fragmented`` what is free and of no use to
    a typical pod, on average.
    """

    arrived: float
    allocated: float
    fragmented: float


@dataclass(frozen=True, slots=True)
class Run:
    """What one policy made of one workload. ``partial`` and ``idle``: units free on cards in use and on others."""

    policy: str
    seed: int
    pods: int
    allocated: float
    partial: float
    idle: float
    unplaced: Mapping[str, int]
    samples: tuple[Sample, ...]

    @property
    def unplaced_pods(self) -> int:
        return sum(self.unplaced.values())


@dataclass(frozen=True, slots=True)
class Experiment:
    """Nodes, the trace that pods are typical of, and one order of arrivals with its seed."""

    nodes: Sequence[NodeSpec]
    trace: Sequence[Demand]
    workload: Sequence[Demand]
    seed: int


def run_policy(policy: str, experiment: Experiment, progress: Progress = lambda _done, _of: None) -> Run:
    """Place the workload; every pod is tried once, in order, and stays."""
    cluster = SimulatedCluster(experiment.nodes)
    placer = Placer(cluster, make_policy(policy, Given(cluster, experiment.trace, experiment.seed)))
    fragmentation = Fragmentation(typical_pods(experiment.trace))
    total, pods = cluster.total_units, len(experiment.workload)
    every = max(1, pods // SAMPLES)
    arrived = 0
    unplaced: Counter[str] = Counter()
    samples = []
    for number, demand in enumerate(experiment.workload, start=1):
        arrived += units_of(demand, cluster.card_units)
        if placer.place(str(number), demand) is None:
            unplaced[kind_of(demand)] += 1
        if number % every == 0 or number == pods:
            wasted = sum(fragmentation.of(node.room) for node in cluster.nodes)
            samples.append(Sample(arrived / total, cluster.used_units / total, wasted / total))
            progress(number, pods)
    partial = sum(sum(node.room.shared) for node in cluster.nodes)
    idle = sum(sum(node.room.idle) for node in cluster.nodes)
    return Run(
        policy,
        experiment.seed,
        pods,
        cluster.used_units / total,
        partial / total,
        idle / total,
        dict(sorted(unplaced.items())),
        tuple(samples),
    )


def kind_of(demand: Demand) -> str:
    """The kind of a pod in words: what it wants of cards."""
    if not demand.cards:
        return "no card"
    cards = "1 card" if demand.cards == 1 else f"{demand.cards} cards"
    return cards if demand.whole else f"share of {cards}"
