"""``expected-fill`` beside a running ledger: typical are the pods that hold cards now.

What it learned is a function of the pods that exist, so a program that starts again comes to the same preferences.
They are learned again only when the pods have become others, for every node has to be valued again then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gcushare.core.nodes import Assignment, CardState, NodeState
from gcushare.core.packing.expected_fill import PARTS, SEQUENCES, Demand, ExpectedFill, Room, Spot
from gcushare.core.packing.spare import Amounts
from gcushare.core.placement import EXPECTED_FILL, POLICIES, CardRank
from gcushare.core.requests import CardRequest

MOST_DIFFERENT = 0.05
"""Share of the pods that may differ from the typical ones before these are learned again. The policy needs them
roughly: without the trace, counting arrivals alone, the simulator placed less by 0.1 % of a cluster."""

_FALLBACK = POLICIES[EXPECTED_FILL]


class LearnedFill:
    """Scores nodes and ranks cards. ``left``: CPU and memory that are left on a node, by its name."""

    def __init__(self, left: Callable[[str], Amounts]) -> None:
        self._left = left
        self._typical: Mapping[Demand, int] = {}
        self._fill: ExpectedFill | None = None
        self._card_units = 1

    @property
    def typical(self) -> Mapping[Demand, int]:
        """The demands that were learned, with the number of pods of each; empty before any was."""
        return self._typical

    def learn(self, seen: Mapping[Demand, int], card_units: int) -> bool:
        """Take the pods that exist now as typical, where they differ enough from those before; says whether it did.

        ``card_units``: units of the largest card; only the size of scores depends on it.
        """
        if not seen or (self._typical and _difference(self._typical, seen) <= MOST_DIFFERENT):
            return False
        self._typical, self._card_units = dict(seen), max(1, card_units)
        self._fill = ExpectedFill(self._typical)
        return True

    def score(self, node: NodeState, request: CardRequest, amounts: Amounts) -> float:
        """How little of its value a node that fits the request would lose by it, from 0.0 to 1.0.

        0.75 where nothing is lost, 0.5 where as much as the request takes, 0.0 where CPU or memory is missing. Trying
        is greedy, so that now and then more fits what is left; that is better still.
        """
        if self._fill is None:
            return _FALLBACK.score_node(node, request)
        demand, room = demand_of(request, amounts), self._room(node)
        if not room.fits(demand):
            return 0.0
        loss, _ = self._fill.best_spot(room, demand)
        own = PARTS * SEQUENCES * request.cards * (self._card_units if request.whole else request.units)
        gain = own - loss
        return (1.0 + gain / (own + abs(gain))) / 2

    def rank_cards(self, node: NodeState, request: CardRequest, amounts: Amounts) -> CardRank:
        """The order of a node's cards for a request: for a share of one card the card whose use loses least first."""
        spot = self._best_spot(node, request, amounts)
        return _FALLBACK.rank_card if spot is None else rank_at(spot)

    def _best_spot(self, node: NodeState, request: CardRequest, amounts: Amounts) -> Spot | None:
        demand, room = demand_of(request, amounts), self._room(node)
        return self._fill.best_spot(room, demand)[1] if self._fill is not None and room.fits(demand) else None

    def _room(self, node: NodeState) -> Room:
        return room_of(node, *self._left(node.name))


def demand_of(request: CardRequest, amounts: Amounts) -> Demand:
    """A request in the words of expected fill; which cards its author allows is left out."""
    return Demand(request.cards, request.units, request.whole, *amounts)


def demand_held(held: Assignment, amounts: Amounts) -> Demand | None:
    """The same of what a pod holds; None where that is not known."""
    if held.grants:
        first = held.grants[0]
        return Demand(len(held.grants), 0 if first.whole else first.units, first.whole, *amounts)
    return Demand(1, held.unplaced, False, *amounts) if held.unplaced else None


def room_of(node: NodeState, cpu_milli: int, memory_mib: int, model: str = "") -> Room:
    """What a new pod may be given of the node's cards, beside so much free CPU and memory."""
    shared, idle = [], []
    for card in node.cards.values():
        if card.is_empty:
            idle.append(card.free)
        elif card.grantable:
            shared.append(card.grantable)
    return Room(cpu_milli, memory_mib, tuple(sorted(shared)), tuple(sorted(idle)), model)


def rank_at(spot: Spot) -> CardRank:
    """The order that takes a card with exactly this room, the lowest index among equals; then the fullest."""

    def rank(card: CardState, _request: CardRequest) -> tuple[int, ...]:
        is_other = card.grantable != spot.free or (card.pods == 0) != spot.is_idle
        return (is_other, card.grantable, card.index)

    return rank


def _difference(some: Mapping[Demand, int], others: Mapping[Demand, int]) -> float:
    """How much of the one would have to be exchanged to become the other, as a share."""
    ours, theirs = sum(some.values()), sum(others.values())
    demands = some.keys() | others.keys()
    return sum(abs(some.get(each, 0) / ours - others.get(each, 0) / theirs) for each in demands) / 2
