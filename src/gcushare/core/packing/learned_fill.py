"""The ``expected-fill`` policy on a live ledger: the pods that hold cards now serve as the typical pods.

The typical pods depend only on the pods that exist, so preferences survive a restart. They are learned again only if
the pods have changed enough, because every node must then be valued again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import nlargest
from operator import itemgetter

from gcushare.core.assignments import Assignment
from gcushare.core.card_state import CardState
from gcushare.core.nodes import NodeState
from gcushare.core.other_resources import Amounts
from gcushare.core.packing.expected_fill import PARTS, SEQUENCES, Demand, ExpectedFill, Room, Spot
from gcushare.core.placement import EXPECTED_FILL, POLICIES, CardRank
from gcushare.core.requests import CardRequest

MOST_DIFFERENT = 0.05
"""Share of the pods that may differ from the typical ones before these are learned again. A rough picture is enough:
with typical pods from arrivals alone, without the trace, the simulator placed 0.1 % of a cluster less."""

MOST_SHAPES = 1024
"""Demands that are learned, the most common first. 480 points are drawn from them, and authors of pods could make
100,000 different ones: to sort those would stop the program for seconds."""

FULLNESS_WEIGHT = 0.1
"""Weight of the plain score, which prefers nodes in use. Where a few sizes divide the cards, most nodes lose nothing:
without it, kube-scheduler then opened one untouched node after another. The trace is filled alike from 0 to 0.1."""

_FALLBACK = POLICIES[EXPECTED_FILL]


class LearnedFill:
    """Scores nodes and ranks cards. ``left`` returns the free CPU and memory of a node by name."""

    def __init__(self, left: Callable[[str], Amounts]) -> None:
        self._left = left
        self.typical: Mapping[Demand, int] = {}
        """The learned demands with their numbers of pods; empty before ``learn``."""
        self._fill: ExpectedFill | None = None
        self._card_units = 1

    def learn(self, seen: Mapping[Demand, int], card_units: int) -> bool:
        """Make the present pods the typical ones, if they differ enough from the previous ones; True if it did.

        ``card_units`` are the units of the largest card. They only scale the scores.
        """
        if len(seen) > MOST_SHAPES:
            seen = dict(nlargest(MOST_SHAPES, seen.items(), key=itemgetter(1)))
        if not seen or (self.typical and _difference(self.typical, seen) <= MOST_DIFFERENT):
            return False
        self.typical, self._card_units = dict(seen), max(1, card_units)
        self._fill = ExpectedFill(self.typical)
        return True

    def score(self, node: NodeState, request: CardRequest, amounts: Amounts) -> float:
        """Score a node that fits the request by how little value it would lose, from 0.0 to 1.0 (the best).

        Apart from `FULLNESS_WEIGHT`: 0.75 if nothing is lost, 0.5 if the node loses as much as the request takes. 0.0:
        CPU or memory is short. Because the trial placement is greedy, more may fit after the request than before; such
        a node scores above 0.75.
        """
        if self._fill is None:
            return _FALLBACK.score_node(node, request)
        demand, room = demand_of(request, amounts), self._room(node)
        if not room.fits(demand):
            return 0.0
        loss, _ = self._fill.best_spot(room, demand)
        own = PARTS * SEQUENCES * request.cards * (self._card_units if request.whole else request.units)
        return score_loss(loss, own, node, request)

    def rank_cards(self, node: NodeState, request: CardRequest, amounts: Amounts) -> CardRank:
        """The rank of a node's cards for a request. For a share of one card, the card that loses least is first."""
        demand, room = demand_of(request, amounts), self._room(node)
        spot = self._fill.best_spot(room, demand)[1] if self._fill is not None and room.fits(demand) else None
        return _FALLBACK.rank_card if spot is None else rank_at(spot)

    def _room(self, node: NodeState) -> Room:
        return room_of(node, *self._left(node.name))


def score_loss(loss: int, own: int, node: NodeState, request: CardRequest) -> float:
    """Score a loss of value by a request that takes ``own`` of it; see `LearnedFill.score`."""
    gain = own - loss
    kept = (1.0 + gain / (own + abs(gain))) / 2
    return (1 - FULLNESS_WEIGHT) * kept + FULLNESS_WEIGHT * _FALLBACK.score_node(node, request)


def demand_of(request: CardRequest, amounts: Amounts) -> Demand:
    """A request as a demand of ``expected_fill``, without the card selection."""
    return Demand(request.cards, request.units, request.whole, *amounts)


def demand_held(held: Assignment, amounts: Amounts) -> Demand | None:
    """What a pod holds as a demand; None if that is unknown."""
    if held.grants:
        first = held.grants[0]
        return Demand(len(held.grants), 0 if first.whole else first.units, first.whole, *amounts)
    return Demand(1, held.unplaced, False, *amounts) if held.unplaced else None


def room_of(node: NodeState, cpu_milli: int, memory_mib: int, model: str = "") -> Room:
    """What a new pod may get on the node: free room of its cards, and the given CPU and memory."""
    shared, idle = [], []
    for card in node.cards.values():
        if card.is_empty:
            idle.append(card.free)
        elif card.grantable:
            shared.append(card.grantable)
    return Room(cpu_milli, memory_mib, tuple(sorted(shared)), tuple(sorted(idle)), model)


def rank_at(spot: Spot) -> CardRank:
    """A card rank that puts cards with exactly this room first, then the fullest cards."""

    def rank(card: CardState, _request: CardRequest) -> tuple[int, ...]:
        is_other = card.grantable != spot.free or (card.pods == 0) != spot.is_idle
        return (is_other, card.grantable)

    return rank


def _difference(some: Mapping[Demand, int], others: Mapping[Demand, int]) -> float:
    """The share of pods that would have to change to turn one distribution into the other."""
    ours, theirs = sum(some.values()), sum(others.values())
    demands = some.keys() | others.keys()
    return sum(abs(some.get(each, 0) / ours - others.get(each, 0) / theirs) for each in demands) / 2
