"""Placement policies as tables: which card of a node, and which node, a request should take.

All policies are deterministic: equal candidates are told apart by the lowest card index, nodes by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gcushare.core.nodes import CardState, NodeState
from gcushare.core.requests import CardRequest
from gcushare.core.topology import CardPlace, choose_close_cards

MAX_NODE_SCORE = 10
"""kube-scheduler accepts 0 to 10 from an extender and multiplies it by the extender's weight."""

CardPolicy = Callable[[CardState], tuple[int, ...]]
"""The sort key of a card that can hold the request; the least wins."""

NodePolicy = Callable[[NodeState, CardRequest], float]
"""How good a node is for a request that fits there, from 0.0 to 1.0."""


def _fullest_card(state: CardState) -> tuple[int, ...]:
    return (state.grantable, state.pods == 0, state.index)


def _emptiest_card(state: CardState) -> tuple[int, ...]:
    return (-state.grantable, state.pods, state.index)


CARD_POLICIES: Mapping[str, CardPolicy] = {"binpack": _fullest_card, "spread": _emptiest_card}
"""``binpack``: the fullest card that fits (the seeds' way); a card in use goes before an empty one, which stays free
for pods that want it whole. ``spread``: the card with the most free units."""


def _fullest_node(node: NodeState, request: CardRequest) -> float:
    fill = min(1.0, node.used / node.total) if node.total else 0.0
    shares_a_card = not request.whole and node.largest_shared_free >= request.units * request.cards
    return (1.0 + fill) / 2 if shares_a_card else fill / 2


def _emptiest_node(node: NodeState, request: CardRequest) -> float:
    return max(0.0, 1.0 - node.used / node.total) if node.total else 0.0


NODE_POLICIES: Mapping[str, NodePolicy] = {"binpack": _fullest_node, "spread": _emptiest_node}
"""``binpack``: nodes where the request fits beside others come first, then the fullest, so that untouched cards stay
whole. ``spread``: the node with the largest free share."""


def choose_cards(node: NodeState, request: CardRequest, policy: CardPolicy) -> tuple[CardState, ...] | None:
    """Choose the request's cards on one node; None when it does not fit. Walks the node's cards, not its pods.

    Several whole cards are chosen close together, whatever the policy.
    """
    able = [state for state in node.cards.values() if state.can_hold(request)]
    if len(able) < request.cards:
        return None
    if request.cards == 1:
        return (min(able, key=policy),)
    if request.whole:
        close = choose_close_cards([_place(state) for state in able], request.cards)
        return None if close is None else tuple(node.cards[index] for index in close)
    return tuple(sorted(sorted(able, key=policy)[: request.cards], key=lambda state: state.index))


def _place(state: CardState) -> CardPlace:
    card = state.card.card if state.card is not None else None
    return CardPlace(state.index, card.numa_node if card else None, card.link_group if card else "")


def score_node(node: NodeState, request: CardRequest, policy: NodePolicy) -> int:
    """A node's score as the scheduler takes it, 0 to 10; 0 where the request does not fit."""
    return round(MAX_NODE_SCORE * policy(node, request)) if node.fits(request) else 0
