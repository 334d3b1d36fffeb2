"""Places one pod after another by a policy; of the nodes it scores those again that changed since the last such pod."""

from __future__ import annotations

from dataclasses import dataclass, field

from gcushare.cli.simulate.cluster import SimulatedCluster, SimulatedNode
from gcushare.cli.simulate.policies.base import NO_FIT, Policy, Scored
from gcushare.core.packing.expected_fill import Demand, Room, Spot


@dataclass(slots=True)
class _Table:
    """One demand's scores by node, as of a position in the cluster's log of changes."""

    position: int = -1
    scores: list[float] = field(default_factory=list)
    spots: list[Spot | None] = field(default_factory=list)
    by_room: dict[Room, Scored] = field(default_factory=dict)


class Placer:
    """Asks a policy for each pod, and places it in the cluster."""

    def __init__(self, cluster: SimulatedCluster, policy: Policy) -> None:
        self._cluster = cluster
        self._policy = policy
        self._tables: dict[Demand, _Table] = {}

    def place(self, uid: str, demand: Demand, *, is_new: bool = True) -> int | None:
        """Place a pod; returns the node's position, None where it fits nowhere.

        ``is_new`` is False for a pod that is tried again after it had to wait: it is no further arrival.
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
        for name in changed:
            index = cluster.index_of[name]
            table.scores[index], table.spots[index] = self._score(table, cluster.nodes[index], demand)

    def _score(self, table: _Table, node: SimulatedNode, demand: Demand) -> Scored:
        if not self._policy.by_room:
            return self._policy.score(node, demand) if node.room.fits(demand) else (NO_FIT, None)
        known = table.by_room.get(node.room)
        if known is None:
            known = self._policy.score(node, demand) if node.room.fits(demand) else (NO_FIT, None)
            table.by_room[node.room] = known
        return known
