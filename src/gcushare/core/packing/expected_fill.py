"""Expected fill: how much of a node's cards a stream of typical pods would still use, and so what a placement costs.

Free memory is worth what it will be used for. A card with 190 of 1000 units left beside a pod of 810 is as good as
full where few pods ask for 190 or less; four idle cards are worth nothing on a node whose CPU is spent. So a node is
valued by trying: fixed sequences of typical pods are placed on a copy of it, tightest card first, and what they used
is added up. The best place for a pod is the one whose node loses least value by it.

Room for several cards counts once more. To a node that takes them one by one, seven cards that are free together are
worth as much as eight; but who asks for eight cards has few nodes to go to, and who asks for one has them all.

Pure and deterministic: the sequences come from the typical pods alone, without random numbers, and every node is
valued by the same ones, so that differences between nodes are not those of luck.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

SEQUENCES = 24
"""Sequences that a node is tried with. Half as many placed between 0.25 % of a cluster less and 0.15 % more."""

LENGTH = 20
"""Typical pods per sequence: twice what a node of eight cards takes."""

LARGE_WEIGHT = 2
"""How often a demand for several cards counts beyond the sequences, by its share of the typical pods. From 1 to 4 the
share that is placed differed by 0.25 % at most; without it up to three times as many requests for eight cards were
refused."""

PARTS = 1_000
"""A unit that a sequence uses counts so much, so that the shares of demands for several cards are integers too."""

MAX_REMEMBERED = 200_000
"""Values of nodes that are remembered; when there are more, all are forgotten. Measured for rooms of 8 cards: 350 bytes
each where units are few, 600 where they are thousands. So 120 MB at most, and twice that with two vendors, which the
chart's limit of 1Gi has room for."""

_GOLDEN = 0.6180339887498949
"""Multiples of it, modulo one, are spread evenly however many there are."""


@dataclass(frozen=True, slots=True, order=True)
class Demand:
    """What one pod takes of a node: ``units`` on each of ``cards`` cards, or the cards whole; 0 cards is CPU alone.

    ``models``: card models that will do, empty for any. CPU and memory are 0 where whoever asks does not know them.
    """

    cards: int = 1
    units: int = 0
    whole: bool = False
    cpu_milli: int = 0
    memory_mib: int = 0
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """What is free on a node: ``shared`` units of each card in use, ``idle`` sizes of the others, both ascending.

    Cards with nothing free are left out. ``model`` is that of the node's cards.
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
    """Which card of a node a share goes to, by what is free there; ``is_idle`` where no pod is on it yet."""

    free: int
    is_idle: bool


def spots_of(room: Room, demand: Demand) -> list[Spot]:
    """The cards that differ for a share of one card, tightest first; cards with the same room are the same spot."""
    shared = sorted({free for free in room.shared if free >= demand.units})
    idle = sorted({free for free in room.idle if free >= demand.units})
    return [*(Spot(free, False) for free in shared), *(Spot(free, True) for free in idle)]


def room_after(room: Room, demand: Demand, spot: Spot | None = None) -> Room:
    """What is free once the demand is placed; without a spot on the tightest cards. It must fit."""
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
    """Take so many units of so many cards, cards in use first; False, and nothing taken, where they are not there."""
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
"""A typical pod in a sequence: CPU, memory, cards, and units, which are 0 for whole cards."""


class ExpectedFill:
    """Values rooms by fixed sequences of typical pods.

    Args:
        typical: demands with their weights: how often each is asked for, in any unit. Order does not matter.
        sequences, length: how many sequences of how many pods.

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
        """Units that the sequences' pods use on this node, summed, and what it keeps for demands of several
        cards; in thousandths.
        """
        known = self._values.get(room)
        if known is None:
            if len(self._values) >= MAX_REMEMBERED:
                self._values.clear()
            tried = sum(_fill(room, steps) for steps in self._steps_for(room))
            known = self._values[room] = PARTS * tried + self._held_for_large(room)
        return known

    def loss(self, room: Room, demand: Demand, spot: Spot | None = None) -> int:
        """What of the room's value a demand takes beyond its own use; the place with the least loss is the best."""
        return self.value(room) - self.value(room_after(room, demand, spot))

    def best_spot(self, room: Room, demand: Demand) -> tuple[int, Spot | None]:
        """The least loss on this node and the card it belongs to, None where it does not matter; it must fit."""
        if demand.whole or demand.cards != 1:
            return self.loss(room, demand), None
        return min(((self.loss(room, demand, spot), spot) for spot in spots_of(room, demand)), key=lambda pair: pair[0])

    def _held_for_large(self, room: Room) -> int:
        if len(room.idle) + len(room.shared) < 2:
            return 0
        return sum(weight * _size(demand, room) for demand, weight in self._large if room.fits(demand))

    def _steps_for(self, room: Room) -> list[list[_Step]]:
        """The sequences without what can never be placed in this room: more CPU, larger shares, whole cards."""
        largest = max(room.shared[-1] if room.shared else 0, room.idle[-1] if room.idle else 0)
        rank = bisect_left(self._limits, largest + 1)
        level = bisect_left(self._cpu_levels, room.cpu_milli + 1)
        key = (room.model if self._has_models else "", rank, level, bool(room.idle))
        steps = self._steps.get(key)
        if steps is None:
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
    """The demands for several cards, with what one unit for them counts beside a unit of the sequences, in parts."""
    total = sum(typical.values())
    large = ((demand, weight) for demand, weight in sorted(typical.items()) if demand.cards > 1)
    return [(demand, round(LARGE_WEIGHT * sequences * PARTS * weight / total)) for demand, weight in large]


def _size(demand: Demand, room: Room) -> int:
    return sum(room.idle[: demand.cards]) if demand.whole else demand.cards * demand.units


def _step(demand: Demand) -> _Step:
    return demand.cpu_milli, demand.memory_mib, demand.cards, 0 if demand.whole else demand.units


def _may_fit(demand: Demand, most: Demand) -> bool:
    """Whether a demand stays within the most that fits a room: CPU, units of one card, whole cards, the model."""
    if demand.cpu_milli > most.cpu_milli:
        return False
    if not demand.cards:
        return True
    if demand.models and most.models[0] not in demand.models:
        return False
    return most.whole if demand.whole else demand.units <= most.units


def _fill(room: Room, steps: Sequence[_Step]) -> int:
    """Place what fits of one sequence; the units used. The hot loop: some 30 microseconds for an empty node."""
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
    """Draw the sequences evenly from the typical pods, each demand as often as its weight says, as far as that goes.

    Systematic sampling: the demands side by side in sorted order, each as wide as its weight, and equally distant
    points among them. The golden ratio then puts the points into an order in which every stretch is typical too.
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
