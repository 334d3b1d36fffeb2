"""Fragmentation gradient descent, from "Beware of Fragmentation" (USENIX ATC 2023).

What is free on a node is a fragment to a typical
pod that cannot use it: all of it if the pod does not fit or wants no card, else what lies on cards that are too full
for it. A node's fragmentation is the mean over the typical pods; a pod goes where that grows least.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from benchmarks.packing.cluster import SimulatedNode
from benchmarks.packing.extender_policies import NodeChooser, Scored
from gcushare.core.packing.expected_fill import Demand, Room, room_after, spots_of

POPULARITY = 0.95
"""Share of all pods that the typical ones make up, the most frequent first: the published setting."""

TOP = 100


def typical_pods(trace: Sequence[Demand]) -> dict[Demand, float]:
    """The most frequent demands by CPU, cards and models, with their shares; memory is not looked at."""
    counts = Counter(Demand(d.cards, d.units, d.whole, d.cpu_milli, 0, d.models) for d in trace)
    chosen: dict[Demand, float] = {}
    reached = 0
    for demand, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        if reached >= POPULARITY * len(trace):
            break
        chosen[demand] = count
        reached += count
    return {demand: count / reached for demand, count in chosen.items()}


class Fragmentation:
    """Measures rooms against typical pods, given as demands with shares that add up to one."""

    def __init__(self, typical: dict[Demand, float]) -> None:
        self._by_model: dict[str, _OfModel] = {}
        self._typical = typical
        self._known: dict[Room, float] = {}

    def of(self, room: Room) -> float:
        """Units of the room that the typical pods cannot use, on average."""
        known = self._known.get(room)
        if known is None:
            measured = self._by_model.get(room.model)
            if measured is None:
                measured = self._by_model[room.model] = _OfModel(self._typical, room.model)
            known = self._known[room] = room.free - measured.usable(room)
        return known


class FragGradient(NodeChooser):
    """The published scores: 100 times the sigmoid of the fragmentation that goes away, in cards, rounded down."""

    def __init__(self, typical: dict[Demand, float], card_units: int) -> None:
        self._fragmentation = Fragmentation(typical)
        self._card_units = card_units

    def score(self, node: SimulatedNode, demand: Demand) -> Scored:
        """50 where the placement changes nothing."""
        room, before = node.room, self._fragmentation.of(node.room)
        if demand.whole or demand.cards != 1:
            return self._rounded(before - self._fragmentation.of(room_after(room, demand))), None
        rated = (
            (self._rounded(before - self._fragmentation.of(room_after(room, demand, spot))), spot)
            for spot in spots_of(room, demand)
        )
        return max(rated, key=lambda pair: pair[0])

    def _rounded(self, gone: float) -> int:
        return int(TOP / (1.0 + math.exp(-gone / self._card_units)))


class _OfModel:
    """The typical pods that may run on one model of card, so laid out that a room is measured by look-ups."""

    def __init__(self, typical: dict[Demand, float], model: str) -> None:
        usable = {d: share for d, share in typical.items() if d.cards and (not d.models or model in d.models)}
        self._shares = [(d, share) for d, share in usable.items() if d.cards == 1 and not d.whole]
        self._whole = [(d, share) for d, share in usable.items() if d.whole]
        self._several = [(d, share) for d, share in usable.items() if d.cards > 1 and not d.whole]
        self._levels = sorted({d.cpu_milli for d in usable})
        self._of_card: dict[tuple[int, int], float] = {}
        self._of_idle: dict[tuple[int, int], float] = {}

    def usable(self, room: Room) -> float:
        """Units of the room that the typical pods can use, on average."""
        level = bisect_right(self._levels, room.cpu_milli)
        of_card, total = self._of_card, 0.0
        for free in (*room.shared, *room.idle):
            share = of_card.get((level, free))
            if share is None:
                cpu = self._levels[level - 1] if level else -1
                share = of_card[level, free] = sum(
                    share for d, share in self._shares if d.units <= free and d.cpu_milli <= cpu
                )
            total += free * share
        for demand, share in self._several:
            fitting = [free for free in (*room.shared, *room.idle) if free >= demand.units]
            if demand.cpu_milli <= room.cpu_milli and len(fitting) >= demand.cards:
                total += share * sum(fitting)
        if room.idle:
            idle = len(room.idle)
            known = self._of_idle.get((level, idle))
            if known is None:
                cpu = self._levels[level - 1] if level else -1
                known = sum(share for d, share in self._whole if d.cards <= idle and d.cpu_milli <= cpu)
                self._of_idle[level, idle] = known
            total += sum(room.idle) * known
        return total
