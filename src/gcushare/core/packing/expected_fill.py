"""Expected fill: values a node by how much of its cards a stream of typical pods could still use.

Free memory is worth what it will be used for. If a pod of 810 leaves 190 of 1000 units on a card and few pods request
190 or less, the card is as good as full. Four idle cards are worth nothing on a node without free CPU. So a node is
valued by a trial: fixed sequences of typical pods are placed on a copy of it, tightest card first, and the units that
they use are summed. The best place for a pod is on the node that loses least value by it.

Demands for several cards count additionally. In the sequences, seven free cards are worth nearly as much as eight. But
a pod that requests eight cards fits few nodes, while a pod that requests one fits most.

The sequences depend on the typical pods alone, without random numbers, and every node is valued by the same ones.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import accumulate
from operator import itemgetter

SEQUENCES = 24
"""Sequences per node. With half as many, the simulator placed between 0.25 % of a cluster less and 0.15 % more."""

LENGTH = 20
"""Typical pods per sequence: twice as many as a node of eight cards holds."""

LARGE_WEIGHT = 2
"""Weight of demands for several cards in addition to the sequences. Between 1 and 4 the share of placed pods differed
by 0.25 % at most; without it, up to three times as many requests for eight cards were refused."""

MOST_LARGE = 128
"""Demands for several cards that count, the most common first: every value of a node takes a step for each of them."""

PARTS = 1_000
"""Value of one unit that a sequence uses. Large, so that the weights of demands for several cards are integers too."""

MAX_REMEMBERED = 200_000
"""Size of the cache of node values; when it is full, it is cleared. Measured for nodes of 8 cards: 350 bytes per value
with few units, 600 with thousands of units. So it takes 120 MB at most, or twice that with two vendors; the chart's
limit is 1Gi."""

MAX_REDUCED = 4096
"""Size of the cache of sequences without the pods that cannot fit; when it is full, it is cleared. An entry has 24
lists of up to 20 references. Pods of 480 different sizes and CPU requests could otherwise make 460,800 of them."""

_GOLDEN = 0.6180339887498949
"""Any number of its multiples, modulo one, is evenly spread."""


@dataclass(frozen=True, slots=True, order=True)
class Demand:
    """What one pod takes of a node: ``units`` of each of ``cards`` cards, or whole cards. 0 cards: only CPU and memory.

    ``models`` are the accepted card models; empty means any. CPU and memory are 0 if unknown.
    """

    cards: int = 1
    units: int = 0
    whole: bool = False
    cpu_milli: int = 0
    memory_mib: int = 0
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """What is free on a node. ``shared``: the free units of cards in use. ``idle``: the sizes of unused cards.

    Both are in ascending order, without full cards. ``model`` is the model of the node's cards.
    """

    cpu_milli: int
    memory_mib: int
    shared: tuple[int, ...]
    idle: tuple[int, ...]
    model: str = ""

    @property
    def free(self) -> int:
        return sum(self.shared) + sum(self.idle)

    def fits(self, demand: Demand) -> bool:
        """Whether the node has room for the demand."""
        if demand.cpu_milli > self.cpu_milli or demand.memory_mib > self.memory_mib:
            return False
        if not demand.cards:
            return True
        if demand.models and self.model not in demand.models:
            return False
        if demand.whole:
            return len(self.idle) >= demand.cards
        if demand.cards == 1:
            return bool(
                (self.shared and self.shared[-1] >= demand.units) or (self.idle and self.idle[-1] >= demand.units)
            )
        return sum(free >= demand.units for free in (*self.shared, *self.idle)) >= demand.cards


@dataclass(frozen=True, slots=True)
class Spot:
    """A card for a share, identified by its free units. ``is_idle``: no pod uses it yet."""

    free: int
    is_idle: bool


def spots_of(room: Room, demand: Demand) -> list[Spot]:
    """The different places for a share of one card, tightest first. Cards with equal room are one spot."""
    shared = sorted({free for free in room.shared if free >= demand.units})
    idle = sorted({free for free in room.idle if free >= demand.units})
    return [*(Spot(free, False) for free in shared), *(Spot(free, True) for free in idle)]


def room_after(room: Room, demand: Demand, spot: Spot | None = None) -> Room:
    """What is free after the demand is placed on the spot, or else on the tightest cards. It must fit."""
    shared, idle = list(room.shared), list(room.idle)
    if demand.whole:
        del idle[: demand.cards]
    elif spot is not None:
        (idle if spot.is_idle else shared).remove(spot.free)
        if spot.free > demand.units:
            insort(shared, spot.free - demand.units)
    elif demand.cards:
        _take_tightest(shared, idle, demand.units, demand.cards)
    cpu, memory = room.cpu_milli - demand.cpu_milli, room.memory_mib - demand.memory_mib
    return Room(cpu, memory, tuple(shared), tuple(idle), room.model)


def _take_tightest(shared: list[int], idle: list[int], units: int, cards: int) -> bool:
    """Take units of several cards, of cards in use first. False, and nothing is taken, if too few cards have room."""
    start, first = bisect_left(shared, units), bisect_left(idle, units)
    if len(shared) - start + len(idle) - first < cards:
        return False
    taken = shared[start : start + cards]
    del shared[start : start + len(taken)]
    rest = cards - len(taken)
    taken += idle[first : first + rest]
    del idle[first : first + rest]
    for free in taken:
        if free > units:
            insort(shared, free - units)
    return True


_Step = tuple[int, int, int, int]
"""A typical pod in a sequence: CPU, memory, cards and units. The units are 0 for whole cards."""


class ExpectedFill:
    """Values free room by fixed sequences of typical pods.

    Args:
        typical: demands with their relative frequencies. Order does not matter.
        sequences, length: the number of sequences, and of pods in each.

    Raises:
        ValueError: no demand has a positive weight.
    """

    def __init__(self, typical: Mapping[Demand, float], *, sequences: int = SEQUENCES, length: int = LENGTH) -> None:
        self.sequences = _sequences_of(typical, sequences, length)
        self._has_models = any(demand.models for sequence in self.sequences for demand in sequence)
        self._limits = sorted({d.units for sequence in self.sequences for d in sequence if d.cards and not d.whole})
        self._large = _large_of(typical, sequences)
        self._cpu_levels = sorted({d.cpu_milli for sequence in self.sequences for d in sequence})
        self._steps: dict[tuple[str, int, int, bool], list[list[_Step]]] = {}
        self._values: dict[Room, int] = {}

    def value(self, room: Room) -> int:
        """The units that all sequences use on this node, plus its worth for demands of several cards; in ``PARTS``."""
        known = self._values.get(room)
        if known is None:
            if len(self._values) >= MAX_REMEMBERED:
                self._values.clear()
            tried = sum(_fill(room, steps) for steps in self._steps_for(room))
            known = self._values[room] = PARTS * tried + self._held_for_large(room)
        return known

    def loss(self, room: Room, demand: Demand, spot: Spot | None = None) -> int:
        """The value that the room loses if the demand is placed there. The place with the least loss is the best."""
        return self.value(room) - self.value(room_after(room, demand, spot))

    def best_spot(self, room: Room, demand: Demand) -> tuple[int, Spot | None]:
        """The least loss on this node and its card; None for the card if it makes no difference. It must fit."""
        if demand.whole or demand.cards != 1:
            return self.loss(room, demand), None
        return min(((self.loss(room, demand, spot), spot) for spot in spots_of(room, demand)), key=lambda pair: pair[0])

    def _held_for_large(self, room: Room) -> int:
        if len(room.idle) + len(room.shared) < 2:
            return 0
        return sum(weight * _size(demand, room) for demand, weight in self._large if room.fits(demand))

    def _steps_for(self, room: Room) -> list[list[_Step]]:
        """The sequences without the pods that cannot fit this room: too much CPU, too large shares, whole cards."""
        largest = max(room.shared[-1] if room.shared else 0, room.idle[-1] if room.idle else 0)
        rank = bisect_left(self._limits, largest + 1)
        level = bisect_left(self._cpu_levels, room.cpu_milli + 1)
        key = (room.model if self._has_models else "", rank, level, bool(room.idle))
        steps = self._steps.get(key)
        if steps is None:
            if len(self._steps) >= MAX_REDUCED:
                self._steps.clear()
            most = Demand(
                units=self._limits[rank - 1] if rank else 0,
                whole=bool(room.idle),
                cpu_milli=self._cpu_levels[level - 1] if level else -1,
                models=(room.model,),
            )
            steps = self._steps[key] = [
                [_step(demand) for demand in sequence if _may_fit(demand, most)] for sequence in self.sequences
            ]
        return steps


def _large_of(typical: Mapping[Demand, float], sequences: int) -> list[tuple[Demand, int]]:
    """The demands for several cards, with the weight of one unit in ``PARTS``."""
    total = sum(typical.values())
    found = [(demand, weight) for demand, weight in typical.items() if demand.cards > 1]
    large = sorted(nlargest(MOST_LARGE, found, key=itemgetter(1)))
    return [(demand, round(LARGE_WEIGHT * sequences * PARTS * weight / total)) for demand, weight in large]


def _size(demand: Demand, room: Room) -> int:
    return sum(room.idle[: demand.cards]) if demand.whole else demand.cards * demand.units


def _step(demand: Demand) -> _Step:
    return demand.cpu_milli, demand.memory_mib, demand.cards, 0 if demand.whole else demand.units


def _may_fit(demand: Demand, most: Demand) -> bool:
    """Whether a demand stays within a room's upper bounds: CPU, units of one card, whole cards, model."""
    if demand.cpu_milli > most.cpu_milli:
        return False
    if not demand.cards:
        return True
    if demand.models and most.models[0] not in demand.models:
        return False
    return most.whole if demand.whole else demand.units <= most.units


def _fill(room: Room, steps: Sequence[_Step]) -> int:
    """Place what fits of one sequence; returns the units used. Hot loop: about 30 microseconds for an empty node."""
    cpu, memory = room.cpu_milli, room.memory_mib
    shared, idle = list(room.shared), list(room.idle)
    used = 0
    for need_cpu, need_memory, cards, units in steps:
        if need_cpu > cpu or need_memory > memory:
            continue
        if cards == 1 and units:
            place = bisect_left(shared, units)
            if place < len(shared):
                left = shared.pop(place) - units
            elif idle and (place := bisect_left(idle, units)) < len(idle):
                left = idle.pop(place) - units
            else:
                continue
            if left:
                insort(shared, left)
            used += units
        elif units:
            if not _take_tightest(shared, idle, units, cards):
                continue
            used += units * cards
        elif cards:
            if len(idle) < cards:
                continue
            used += sum(idle[:cards])
            del idle[:cards]
        cpu -= need_cpu
        memory -= need_memory
        if not shared and not idle:
            break
    return used


def _sequences_of(typical: Mapping[Demand, float], sequences: int, length: int) -> list[list[Demand]]:
    """Draw the sequences from the typical pods, each demand in proportion to its weight.

    Systematic sampling: the demands lie next to each other in sorted order, each as wide as its weight, and points at
    equal distances select them. The golden ratio then orders the points so that every part of a sequence is typical.
    """
    demands = sorted(demand for demand, weight in typical.items() if weight > 0)
    if not demands:
        raise ValueError("no typical pods: at least one demand must have a positive weight")
    edges = list(accumulate(typical[demand] for demand in demands))
    count = sequences * length
    points = [demands[min(bisect_left(edges, (i + 0.5) * edges[-1] / count), len(demands) - 1)] for i in range(count)]
    # The demand at rank r goes to the position whose multiple of the golden ratio has rank r.
    positions = sorted(range(count), key=lambda position: (position + 1) * _GOLDEN % 1.0)
    ordered = [demand for _, demand in sorted(zip(positions, points, strict=True), key=lambda pair: pair[0])]
    return [ordered[start : start + length] for start in range(0, count, length)]
