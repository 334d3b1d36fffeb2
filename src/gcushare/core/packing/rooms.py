"""A node of the ledger as the packing policies see it, and the card that they choose as the ledger takes it."""

from __future__ import annotations

from gcushare.core.nodes import CardState, NodeState
from gcushare.core.packing.expected_fill import Room, Spot
from gcushare.core.placement import CardRank
from gcushare.core.requests import CardRequest


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
