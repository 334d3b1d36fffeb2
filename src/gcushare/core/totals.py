"""Sums over all nodes of a ledger, kept up to date by looking only at the nodes that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from gcushare.core.fit_index import ChangeLog
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import CardMode, NodeState
from gcushare.core.requests import CardRequest

Counted = TypeVar("Counted", int, str, CardMode)


@dataclass(slots=True)
class UnitTotals:
    """The sums of the nodes that count in one unit.

    ``free_of_cards``: how many cards have how many grantable units; what a fragmented cluster shows. ``modes``: how
    many cards are free, shared or held whole; ``unusable``: sick or cordoned ones, whatever their mode.
    ``sizes_of_cards``: how many usable cards have how many units; ``empty_of_nodes`` and ``usable_of_nodes``: how many
    nodes have how many cards that a pod may be given whole, now and if every pod ended. ``unrecorded``: units that pods
    hold that only the node reports; ``unplaced``: those of bound pods whose card is not known; ``closed``: how many
    cards are closed to which use for pods that are gone.
    """

    nodes: int = 0
    cards: int = 0
    total: int = 0
    granted: int = 0
    pods: int = 0
    unusable: int = 0
    unrecorded: int = 0
    unplaced: int = 0
    closed: Counter[str] = field(default_factory=Counter)
    free_of_cards: Counter[int] = field(default_factory=Counter)
    modes: Counter[CardMode] = field(default_factory=Counter)
    sizes_of_cards: Counter[int] = field(default_factory=Counter)
    empty_of_nodes: Counter[int] = field(default_factory=Counter)
    usable_of_nodes: Counter[int] = field(default_factory=Counter)

    @property
    def free(self) -> int:
        """Units that new pods may be given, over all usable cards."""
        return sum(units * count for units, count in self.free_of_cards.items())

    @property
    def largest_free(self) -> int:
        """The most units that one card can still give."""
        return max(self.free_of_cards, default=0)

    def fragmentation(self, request_units: int) -> float:
        """The share of the free units that a request of this size cannot use, 0.0 to 1.0; 0.0 where nothing is free."""
        free = self.free
        lost = sum(units * count for units, count in self.free_of_cards.items() if units < request_units)
        return lost / free if free else 0.0

    def sizes(self) -> list[int]:
        """The powers of two up to the largest card: sizes that are worth asking about, however little is free now."""
        largest = max(self.largest_free, max(self.sizes_of_cards, default=0))
        return [1 << power for power in range(largest.bit_length())]

    def fits(self, request: CardRequest) -> bool:
        """Whether some node has room for a plain request: whole cards, or memory of one card, whichever it is."""
        if request.whole:
            return max(self.empty_of_nodes, default=0) >= request.cards
        return self.largest_free >= request.units

    def can_ever_fit(self, request: CardRequest) -> bool:
        """Whether some node would have room for a plain request if every pod ended."""
        if request.whole:
            return max(self.usable_of_nodes, default=0) >= request.cards
        return max(self.sizes_of_cards, default=0) >= request.units

    def fits_in_sum(self, request: CardRequest) -> bool:
        """Whether the free units, or the empty cards, would do if all of them were in one place."""
        if request.whole:
            return sum(cards * nodes for cards, nodes in self.empty_of_nodes.items()) >= request.cards
        return self.free >= request.units * request.cards

    def _add(self, part: _Part, sign: int) -> None:
        self.nodes += sign
        self.cards += sign * len(part.free)
        self.total += sign * part.total
        self.granted += sign * part.granted
        self.pods += sign * part.pods
        self.unusable += sign * part.unusable
        self.unrecorded += sign * part.unrecorded
        self.unplaced += sign * part.unplaced
        _count(self.closed, part.closed, sign)
        _count(self.modes, part.modes, sign)
        _count(self.free_of_cards, part.free, sign)
        _count(self.sizes_of_cards, part.sizes, sign)
        _count(self.empty_of_nodes, (part.empty,), sign)
        _count(self.usable_of_nodes, (part.usable,), sign)


def _count(counts: Counter[Counted], found: Iterable[Counted], sign: int) -> None:
    """Add or take away; what counts nothing is left out, so that the greatest key is one that is there."""
    for each in found:
        counts[each] += sign
        if not counts[each]:
            del counts[each]


@dataclass(frozen=True, slots=True)
class _Part:
    """What one node adds."""

    unit: str
    total: int
    granted: int
    pods: int
    unusable: int
    free: tuple[int, ...]
    modes: tuple[CardMode, ...]
    sizes: tuple[int, ...]
    empty: int
    usable: int
    unrecorded: int
    unplaced: int
    closed: tuple[str, ...]


class ClusterTotals:
    """The totals of a ledger by unit name; empty for nodes whose unit is unknown."""

    def __init__(self, ledger: Ledger, changes: ChangeLog) -> None:
        self._ledger = ledger
        self._changes = changes
        self._position = -1
        self._parts: dict[str, _Part] = {}
        self._by_unit: dict[str, UnitTotals] = {}

    def by_unit_within(self, most: int) -> dict[str, UnitTotals] | None:
        """The totals now; None where more than ``most`` nodes changed since they were asked for last."""
        changed = self._changed()
        return None if len(self._ledger.nodes if changed is None else changed) > most else self.by_unit()

    def by_unit(self) -> dict[str, UnitTotals]:
        """The totals now."""
        changed, self._position = self._changed(), self._changes.position
        names = self._parts.keys() | self._ledger.nodes.keys() if changed is None else changed
        for name in names:
            self._replace(name, self._ledger.nodes.get(name))
        return self._by_unit

    def _changed(self) -> Collection[str] | None:
        """The nodes that changed since the last answer; None where all may have."""
        return self._changes.since(self._position) if self._position >= 0 else None

    def _replace(self, name: str, node: NodeState | None) -> None:
        before = self._parts.pop(name, None)
        if before is not None:
            totals = self._by_unit[before.unit]
            totals._add(before, -1)
            if not totals.nodes:
                del self._by_unit[before.unit]
        if node is not None and node.known:
            part = self._parts[name] = _part_of(node)
            self._by_unit.setdefault(part.unit, UnitTotals())._add(part, 1)


def _part_of(node: NodeState) -> _Part:
    offered = [state for state in node.cards.values() if state.card is not None]
    usable = tuple(state.total for state in offered if state.card is not None and state.card.is_usable and state.total)
    return _Part(
        unit=node.unit.name if node.unit else "",
        total=node.total,
        granted=node.used,
        pods=len(node.assignments),
        unusable=sum(state.card is not None and not state.card.is_usable for state in offered),
        free=tuple(state.grantable for state in offered),
        modes=tuple(state.mode for state in offered),
        sizes=usable if node.serves_memory else (),
        empty=node.empty_cards,
        usable=len(usable) if node.serves_whole else 0,
        unrecorded=sum(held.units for held in node.assignments.values() if held.unrecorded),
        unplaced=sum(node.find_unplaced()) if node.unplaced else 0,
        closed=tuple(
            use
            for state in offered
            if state.card is not None and state.card.closures
            for use in {closure.use for closure in state.card.closures}
        ),
    )
