"""One run: one policy places pods one after another on an empty cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gcushare.cli.simulate.cluster import SimulatedCluster, SimulatedNode
from gcushare.cli.simulate.policies import NO_FIT, NodeChooser, Scored
from gcushare.core.packing.expected_fill import Demand, Spot
from gcushare.core.wording import counted


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one policy on one workload, as shares of all card units.

    ``allocated``: what pods hold. ``partial`` and ``idle``: what is free on cards in use and on others. ``unplaced``:
    the pods that were refused, by kind.
    """

    pods: int
    allocated: float
    partial: float
    idle: float
    unplaced: Mapping[str, int]


def run_policy(policy: NodeChooser, cluster: SimulatedCluster, workload: Sequence[Demand]) -> Run:
    """Place a workload on an empty cluster; every pod is tried once, in order, and stays."""
    placer = Placer(cluster, policy)
    refused = (pod for number, pod in enumerate(workload) if placer.place(str(number), pod) is None)
    unplaced = Counter(map(kind_of, refused))
    partial = sum(sum(node.room.shared) for node in cluster.nodes)
    idle = sum(sum(node.room.idle) for node in cluster.nodes)
    total = cluster.total_units
    return Run(len(workload), cluster.used_units / total, partial / total, idle / total, dict(sorted(unplaced.items())))


def kind_of(demand: Demand) -> str:
    """The kind of a pod as text: what it requests of cards."""
    if not demand.cards:
        return "no card"
    cards = counted(demand.cards, "card")
    return cards if demand.whole else f"share of {cards}"


def describe_demand(demand: Demand) -> str:
    """What a pod takes of a node, in words."""
    cards = counted(demand.cards, "whole card" if demand.whole else "card")
    parts = [cards if demand.whole or not demand.cards else f"{counted(demand.units, 'unit')} on each of {cards}"]
    parts += [f"{demand.cpu_milli / 1000:g} CPUs"] if demand.cpu_milli else []
    parts += [f"{demand.memory_mib} MiB of memory"] if demand.memory_mib else []
    models = f" (only {' or '.join(demand.models)})" if demand.models else ""
    return ", ".join(parts) + models


@dataclass(slots=True)
class _Table:
    """One demand's scores by node, as of a position in the cluster's log of changes."""

    position: int = -1
    scores: list[float] = field(default_factory=list)
    spots: list[Spot | None] = field(default_factory=list)


class Placer:
    """Places pods as a policy chooses. Scores a node again only if it changed since the last pod of equal demand."""

    def __init__(self, cluster: SimulatedCluster, policy: NodeChooser) -> None:
        self._cluster = cluster
        self._policy = policy
        self._tables: dict[Demand, _Table] = {}

    def place(self, uid: str, demand: Demand) -> int | None:
        """Place a pod; returns the node's position, or None if it fits nowhere."""
        table = self._tables.setdefault(demand, _Table())
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
            scored = [self._score(node, demand) for node in cluster.nodes]
            table.scores, table.spots = [score for score, _ in scored], [spot for _, spot in scored]
            return
        for name in sorted(changed):  # a policy may draw random numbers for each
            index = cluster.index_of[name]
            table.scores[index], table.spots[index] = self._score(cluster.nodes[index], demand)

    def _score(self, node: SimulatedNode, demand: Demand) -> Scored:
        return self._policy.score(node, demand) if node.room.fits(demand) else (NO_FIT, None)
