"""Sums over all nodes of a ledger, kept up to date by looking only at the nodes that changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gcushare.core.fitting import ChangeLog
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState


@dataclass(slots=True)
class UnitTotals:
    """The sums of the nodes that count in one unit.

    ``free_of_cards``: how many cards have how many grantable units; what a fragmented cluster shows.
    """

    nodes: int = 0
    cards: int = 0
    total: int = 0
    granted: int = 0
    pods: int = 0
    free_of_cards: Counter[int] = field(default_factory=Counter)

    @property
    def free(self) -> int:
        """Units that new pods may be given, over all usable cards."""
        return sum(units * count for units, count in self.free_of_cards.items())

    def fragmentation(self, request_units: int) -> float:
        """The share of the free units that a request of this size cannot use, 0.0 to 1.0; 0.0 where nothing is free."""
        free = self.free
        lost = sum(units * count for units, count in self.free_of_cards.items() if units < request_units)
        return lost / free if free else 0.0

    def sizes(self) -> list[int]:
        """The powers of two up to the largest number of free units: sizes that are worth asking about."""
        largest = max(self.free_of_cards, default=0)
        return [1 << power for power in range(largest.bit_length())]

    def _add(self, part: _Part, sign: int) -> None:
        self.nodes += sign
        self.cards += sign * len(part.free)
        self.total += sign * part.total
        self.granted += sign * part.granted
        self.pods += sign * part.pods
        for units in part.free:
            self.free_of_cards[units] += sign
            if not self.free_of_cards[units]:
                del self.free_of_cards[units]


@dataclass(frozen=True, slots=True)
class _Part:
    """What one node adds."""

    unit: str
    total: int
    granted: int
    pods: int
    free: tuple[int, ...]


class ClusterTotals:
    """The totals of a ledger by unit name; empty for nodes whose unit nobody told."""

    def __init__(self, ledger: Ledger, changes: ChangeLog) -> None:
        self._ledger = ledger
        self._changes = changes
        self._position = -1
        self._parts: dict[str, _Part] = {}
        self._by_unit: dict[str, UnitTotals] = {}

    def by_unit(self) -> dict[str, UnitTotals]:
        """The totals now."""
        position = self._changes.position
        changed = self._changes.since(self._position) if self._position >= 0 else None
        names = self._parts.keys() | self._ledger.nodes.keys() if changed is None else changed
        self._position = position
        for name in names:
            self._replace(name, self._ledger.nodes.get(name))
        return self._by_unit

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
    return _Part(
        node.unit.name if node.unit else "",
        node.total,
        node.used,
        len(node.assignments),
        tuple(state.grantable for state in offered),
    )
