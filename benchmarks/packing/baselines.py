"""The heuristics that "Beware of Fragmentation" (USENIX ATC 2023) compares with, and what claims do by themselves.

Scores are whole numbers from 0 to 100 as kube-scheduler's plugins give them, so nodes that differ little are equal and
the first by name is taken; that detail moves the results by up to a percent.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from benchmarks.packing.cluster import SimulatedCluster, SimulatedNode
from benchmarks.packing.extender_policies import NO_FIT, NodeChooser, Scored, least_allocated
from benchmarks.packing.workload import units_of
from gcushare.core.packing.expected_fill import Demand, Room, Spot

TOP = 100


class Random(NodeChooser):
    """Any node that fits, and any card of it."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """Every node is as good as any other."""
        if demand.whole or demand.cards != 1:
            return 0.0, None
        shared = [Spot(free, False) for free in node.room.shared if free >= demand.units]
        return 0.0, self._draw.choice(shared + [Spot(free, True) for free in node.room.idle if free >= demand.units])

    def choose(self, scores: Sequence[float]) -> int:
        """Draw one of the nodes that fit."""
        return self._draw.choice([index for index, score in enumerate(scores) if score != NO_FIT])


class _Sized(NodeChooser):
    """Scores against the largest node of the cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.most_cpu = max(node.spec.cpu_milli for node in cluster.nodes)
        self.most_units = max(node.spec.units for node in cluster.nodes)
        self.card_units = cluster.card_units


class BestFit(_Sized):
    """The node with the least CPU and card memory left, each in parts of the largest node's, half and half."""

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """100 where nothing would be left."""
        cpu = (node.room.cpu_milli - demand.cpu_milli) / self.most_cpu
        units = (node.room.free - units_of(demand, self.card_units)) / self.most_units
        return int((1.0 - (cpu + units) / 2) * TOP), tightest_spot(node.room, demand)


class DotProduct(_Sized):
    """The node whose free CPU and card memory, as a vector, are least aligned with what the pod asks for."""

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """The smaller the product, the better."""
        cpu = node.room.cpu_milli * demand.cpu_milli / self.most_cpu**2
        units = node.room.free * units_of(demand, self.card_units) / self.most_units**2
        return int((1.0 - (cpu + units) / 2) * TOP), tightest_spot(node.room, demand)


class Clustering(_Sized):
    """Pods of one kind (shares, one card, two cards, ...) are kept together on nodes."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self._kinds = cluster.kinds

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """Nodes with this kind alone, with this kind among others, empty ones, others; the fuller the better."""
        if not demand.cards:
            return 0, None
        quarter = TOP // 4
        fullness = quarter * (self.most_units - node.room.free) // self.most_units
        kinds = self._kinds[node.spec.name]
        among, without = (3 if len(kinds) == 1 else 2), (0 if kinds else 1)
        step = among if (demand.cards, demand.whole) in kinds else without
        return step * quarter + fullness, tightest_spot(node.room, demand)


class Packing(_Sized):
    """Cards in use first, then idle cards of nodes in use, then idle nodes."""

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """The less idle is opened, the better."""
        if not demand.cards:
            return 0, None
        spot = tightest_spot(node.room, demand)
        idle = len(node.room.idle)
        if idle == node.spec.cards:
            return max(TOP // 3 - idle, idle), spot
        opened, left = self._use(node, demand, spot)
        if opened:
            return max(TOP // 2 - opened, TOP // 3), spot
        return max(TOP - left // 10, TOP // 2), spot

    def _use(self, node: SimulatedNode, demand: Demand, spot: Spot | None) -> tuple[int, int]:
        """How many idle cards it would open, and the percents that are free on the cards in use that it would join."""
        if demand.whole:
            return demand.cards, 0
        if spot is not None:
            return (1, 0) if spot.is_idle else (0, spot.free * 100 // self.card_units)
        joined = [free for free in node.room.shared if free >= demand.units][: demand.cards]
        return demand.cards - len(joined), sum(free * 100 // self.card_units for free in joined)


class DraFirstFit(NodeChooser):
    """What kube-scheduler does with claims by itself: it scores nodes by CPU and memory, and takes the first card.

    Of its default scores this is NodeResourcesFit's, LeastAllocated; claims have none.
    """

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """The mean share of CPU and memory that would be left; the first card by index on which a share fits."""
        spot = None
        if demand.cards == 1 and not demand.whole:
            for _, card in sorted(node.state.cards.items()):
                if card.grantable >= demand.units:
                    spot = Spot(card.grantable, card.is_empty)
                    break
        return least_allocated(node, demand), spot


def tightest_spot(room: Room, demand: Demand) -> Spot | None:
    """The card with the least room that a share fits on; None for whole cards, several cards and none."""
    if demand.whole or demand.cards != 1:
        return None
    free = min((each for each in room.shared if each >= demand.units), default=0)
    idle = min((each for each in room.idle if each >= demand.units), default=0)
    if free and not (idle and idle < free):
        return Spot(free, False)
    return Spot(idle, True)
