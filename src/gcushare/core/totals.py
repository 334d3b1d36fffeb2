"""Sums over all nodes of a ledger, updated from the nodes that changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gcushare.core.card_state import CardMode
from gcushare.core.change_log import ChangeLog
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.requests import CardRequest


@dataclass(slots=True)
class UnitTotals:
    """The sums of all nodes that use one memory unit.

    Histograms: ``free_of_cards`` counts cards by available units (it shows fragmentation), ``grantable_of_cards`` by
    those that the extender may grant, ``sizes_of_cards`` usable cards by units, ``modes`` cards by use.
    ``empty_of_nodes`` and ``usable_of_nodes`` count nodes by the number of cards that a pod may get whole: now, and if
    every pod ended. ``unusable`` are sick or cordoned cards in any mode. ``unrecorded`` are units that only the node
    reports, ``unplaced`` those of bound pods whose card is unknown. ``closed`` counts cards by the use that they are
    closed to.
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
    grantable_of_cards: Counter[int] = field(default_factory=Counter)
    modes: Counter[CardMode] = field(default_factory=Counter)
    sizes_of_cards: Counter[int] = field(default_factory=Counter)
    empty_of_nodes: Counter[int] = field(default_factory=Counter)
    usable_of_nodes: Counter[int] = field(default_factory=Counter)

    @property
    def free(self) -> int:
        """Units that new pods may get, also by claims, over all usable cards."""
        return _sum_of(self.free_of_cards)

    @property
    def largest_free(self) -> int:
        """The most units that a new pod may get of one card, also by a claim."""
        return max(self.free_of_cards, default=0)

    def fragmentation(self, request_units: int) -> float:
        """The share (0.0 to 1.0) of the free units that a request of this size cannot use; 0.0 if nothing is free."""
        free = self.free
        lost = sum(units * count for units, count in self.free_of_cards.items() if units < request_units)
        return lost / free if free else 0.0

    def sizes(self) -> list[int]:
        """The powers of two up to the largest card, as sizes for which to report fragmentation."""
        largest = max(self.largest_free, max(self.sizes_of_cards, default=0))
        return [1 << power for power in range(largest.bit_length())]

    def fits(self, request: CardRequest) -> bool:
        """Whether some node has room for a request without a card selection: whole cards, or memory of one card."""
        if request.whole:
            return max(self.empty_of_nodes, default=0) >= request.cards
        return max(self.grantable_of_cards, default=0) >= request.units

    def can_ever_fit(self, request: CardRequest) -> bool:
        """Whether some node would have room for such a request if every pod ended."""
        if request.whole:
            return max(self.usable_of_nodes, default=0) >= request.cards
        return max(self.sizes_of_cards, default=0) >= request.units

    def fits_in_sum(self, request: CardRequest) -> bool:
        """Whether the free units (or empty cards) would be enough if all of them were in one place."""
        if request.whole:
            return sum(cards * nodes for cards, nodes in self.empty_of_nodes.items()) >= request.cards
        return _sum_of(self.grantable_of_cards) >= request.units * request.cards

    def _add(self, part: _Part, sign: int) -> None:
        for name, amount in part.sums.items():
            setattr(self, name, getattr(self, name) + sign * amount)
        for name, found in part.counts.items():
            counts = getattr(self, name)
            for each in found:
                counts[each] += sign
                if not counts[each]:
                    del counts[each]  # so that ``max`` finds an existing one


@dataclass(frozen=True, slots=True)
class _Part:
    """One node's contribution: what it adds to the sums and to the histograms of `UnitTotals`, by their names."""

    unit: str
    sums: dict[str, int]
    counts: dict[str, Sequence[int | str | CardMode]]


class ClusterTotals:
    """The totals of a ledger by unit name; the name is "" for nodes with an unknown unit."""

    def __init__(self, ledger: Ledger, changes: ChangeLog) -> None:
        self._ledger = ledger
        self._changes = changes
        self._position = -1
        self._parts: dict[str, _Part] = {}
        self._by_unit: dict[str, UnitTotals] = {}

    def by_unit(self) -> dict[str, UnitTotals]:
        """The present totals. Costs a recount of the nodes that changed since the last call."""
        changed = self._changes.since(self._position) if self._position >= 0 else None
        self._position = self._changes.position
        names = self._parts.keys() | self._ledger.nodes.keys() if changed is None else changed
        for name in names:
            node = self._ledger.nodes.get(name)
            before = self._parts.pop(name, None)
            if before is not None:
                totals = self._by_unit[before.unit]
                totals._add(before, -1)
                if not totals.nodes:
                    del self._by_unit[before.unit]
            if node is not None and node.known:
                part = self._parts[name] = _part_of(node)
                self._by_unit.setdefault(part.unit, UnitTotals())._add(part, 1)
        return self._by_unit


def _sum_of(histogram: Counter[int]) -> int:
    return sum(units * count for units, count in histogram.items())


def _part_of(node: NodeState) -> _Part:
    offered = [state for state in node.cards.values() if state.card is not None]
    cards = node.present_cards
    usable = [card.units for card in cards if card.is_usable and card.units]
    return _Part(
        unit=node.unit.name if node.unit else "",
        sums={
            "nodes": 1,
            "cards": len(offered),
            "total": node.total,
            "granted": node.used,
            "pods": len(node.assignments),
            "unusable": sum(not card.is_usable for card in cards),
            "unrecorded": sum(held.units for held in node.assignments.values() if held.unrecorded),
            "unplaced": sum(node.find_unplaced().values()) if node.unplaced else 0,
        },
        counts={
            "free_of_cards": [state.available for state in offered],
            "grantable_of_cards": [state.grantable for state in offered],
            "modes": [state.mode for state in offered],
            "sizes_of_cards": usable if node.serves_memory else (),
            "empty_of_nodes": (node.empty_cards,),
            "usable_of_nodes": (len(usable) if node.serves_whole else 0,),
            "closed": [use for card in cards if card.closures for use in {closure.use for closure in card.closures}],
        },
    )
