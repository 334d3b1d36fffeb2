"""One run: one policy places pods one after another on an empty cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.packing.cluster import SimulatedCluster, SimulatedNode
from benchmarks.packing.extender_policies import NO_FIT, NodeChooser, Scored
from gcushare.core.packing.expected_fill import Demand, Spot


def run_policy(policy: NodeChooser, cluster: SimulatedCluster, workload: Sequence[Demand]) -> float:
    """Place a workload on an empty cluster; every pod is tried once, in order, and stays.

    Returns the share of all card units that pods hold in the end.
    """
    placer = Placer(cluster, policy)
    for number, pod in enumerate(workload):
        placer.place(str(number), pod)
    return cluster.used_units / cluster.total_units


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
