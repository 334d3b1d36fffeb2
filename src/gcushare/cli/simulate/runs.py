"""One run: one policy places pods one after another on an empty cluster; its result and its curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gcushare.cli.simulate.cluster import SimulatedCluster, SimulatedNode
from gcushare.cli.simulate.policies import Given, make_policy
from gcushare.cli.simulate.policies.base import NO_FIT, Policy, Scored
from gcushare.cli.simulate.policies.typical_pods import Fragmentation, typical_pods
from gcushare.cli.simulate.workload import NodeSpec, units_of
from gcushare.core.packing.expected_fill import Demand, Room, Spot
from gcushare.core.wording import counted

SAMPLES = 100
"""Points of a run's curves."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster after some arrivals, all as shares of its card units.

    ``arrived`` is what was asked for so far, ``allocated`` what pods hold, ``fragmented`` what is free and of no use to
    a typical pod, on average. ``unplaced`` counts the pods refused so far by kind.
    """

    arrived: float
    allocated: float
    fragmented: float
    unplaced: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one policy on one workload. ``partial`` and ``idle``: units free on cards in use and on others."""

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


def run_policy(
    policy: str,
    nodes: Sequence[NodeSpec],
    trace: Sequence[Demand],
    workload: Sequence[Demand],
    seed: int,
    *,
    cards_alone: bool = False,
) -> Run:
    """Place a workload of the trace's kinds of pods; every pod is tried once, in order, and stays.

    ``cards_alone``: see ``policies.Given``.
    """
    cluster = SimulatedCluster(nodes)
    placer = Placer(cluster, make_policy(policy, Given(cluster, trace, seed, cards_alone)))
    fragmentation = Fragmentation(typical_pods(trace))
    total, pods = cluster.total_units, len(workload)
    every = max(1, pods // SAMPLES)
    arrived = 0
    unplaced: Counter[str] = Counter()
    samples = []
    for number, demand in enumerate(workload, start=1):
        arrived += units_of(demand, cluster.card_units)
        if placer.place(str(number), demand) is None:
            unplaced[kind_of(demand)] += 1
        if number % every == 0 or number == pods:
            wasted = sum(fragmentation.of(node.room) for node in cluster.nodes)
            held = cluster.used_units / total
            samples.append(Sample(arrived / total, held, wasted / total, dict(sorted(unplaced.items()))))
    partial = sum(sum(node.room.shared) for node in cluster.nodes)
    idle = sum(sum(node.room.idle) for node in cluster.nodes)
    return Run(
        policy,
        seed,
        pods,
        cluster.used_units / total,
        partial / total,
        idle / total,
        dict(sorted(unplaced.items())),
        tuple(samples),
    )


def kind_of(demand: Demand) -> str:
    """The kind of a pod as text: what it requests of cards."""
    if not demand.cards:
        return "no card"
    cards = counted(demand.cards, "card")
    return cards if demand.whole else f"share of {cards}"


@dataclass(slots=True)
class _Table:
    """One demand's scores by node, as of a position in the cluster's log of changes."""

    position: int = -1
    scores: list[float] = field(default_factory=list)
    spots: list[Spot | None] = field(default_factory=list)
    by_room: dict[Room, Scored] = field(default_factory=dict)


class Placer:
    """Places pods as a policy chooses. Scores a node again only if it changed since the last pod of equal demand."""

    def __init__(self, cluster: SimulatedCluster, policy: Policy) -> None:
        self._cluster = cluster
        self._policy = policy
        self._tables: dict[Demand, _Table] = {}

    def place(self, uid: str, demand: Demand, *, is_new: bool = True) -> int | None:
        """Place a pod; returns the node's position, or None if it fits nowhere.

        ``is_new`` is False for a pod that is tried again after it had to wait: it does not count as an arrival.
        """
        if is_new and self._policy.observe(demand):
            self._tables.clear()
        table = self._tables.get(demand)
        if table is None:
            table = self._tables[demand] = _Table()
        self._refresh(table, demand)
        if max(table.scores) == NO_FIT:
            return None
        index = self._policy.choose(table.scores)
        self._cluster.place(uid, index, demand, table.spots[index])
        return index

    def _refresh(self, table: _Table, demand: Demand) -> None:
        cluster = self._cluster
        changed = cluster.changes.since(table.position) if table.position >= 0 else None
        table.position = cluster.changes.position
        if changed is None:
            scored = [self._score(table, node, demand) for node in cluster.nodes]
            table.scores, table.spots = [score for score, _ in scored], [spot for _, spot in scored]
            return
        for name in sorted(changed):  # a policy may draw random numbers for each
            index = cluster.index_of[name]
            table.scores[index], table.spots[index] = self._score(table, cluster.nodes[index], demand)

    def _score(self, table: _Table, node: SimulatedNode, demand: Demand) -> Scored:
        known = table.by_room.get(node.room) if self._policy.by_room else None
        if known is None:
            known = self._policy.score(node, demand) if node.room.fits(demand) else (NO_FIT, None)
            table.by_room[node.room] = known
        return known
