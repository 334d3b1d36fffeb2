"""A simulated cluster whose pods can end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gcushare.cli.simulate.cluster import SimulatedCluster
from gcushare.cli.simulate.workload import EmptyNode
from gcushare.core.packing.expected_fill import Demand, Spot


class TrackedCluster(SimulatedCluster):
    """Remembers what each pod holds."""

    def __init__(self, specs: Iterable[EmptyNode]) -> None:
        super().__init__(specs)
        self.pods: dict[str, tuple[int, Demand]] = {}
        """Pods that are placed, by uid: the node's position and what they hold."""
        self.kinds = {node.spec.name: Counter[tuple[int, bool]]() for node in self.nodes}
        """By node, its pods with cards by cards and whether they hold them whole."""

    def place(self, uid: str, index: int, demand: Demand, spot: Spot | None) -> None:
        super().place(uid, index, demand, spot)
        self.pods[uid] = (index, demand)
        if demand.cards:
            self.kinds[self.nodes[index].spec.name][demand.cards, demand.whole] += 1

    def end(self, uid: str) -> Demand:
        """A pod ends: everything it held is free again."""
        index, demand = self.pods.pop(uid)
        node = self.nodes[index]
        if demand.cards:
            self.ledger.forget(uid)
            self.kinds[node.spec.name] -= Counter([(demand.cards, demand.whole)])
        node.cpu_milli += demand.cpu_milli
        node.memory_mib += demand.memory_mib
        self.note_change(node)
        return demand
