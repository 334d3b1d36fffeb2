"""Placement policies as tables: which card of a node, and which node, a request should take.

All policies are deterministic: equal candidates are ordered by the lowest card index, nodes by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gcushare.core.nodes import CardState, NodeState
from gcushare.core.nominations import NOTHING_KEPT, RoomLeft, can_hold_beside
from gcushare.core.requests import CardRequest
from gcushare.core.topology import CLOSE, LOOSE, CardPlace, choose_close_cards, choose_loose_cards, closeness

MAX_NODE_SCORE = 10
"""kube-scheduler accepts 0 to 10 from an extender and multiplies it by the extender's weight."""

CardPolicy = Callable[[CardState], tuple[int, ...]]
"""The sort key of a card that can hold the request; the least wins."""

NodePolicy = Callable[[NodeState, CardRequest], float]
"""How good a node is for a request that fits there, from 0.0 to 1.0."""


WholeCardPolicy = Callable[[Sequence[CardPlace], int], tuple[int, ...] | None]
"""Chooses so many cards of those that can be given whole; None when there are fewer."""


def _fullest_card(state: CardState) -> tuple[int, ...]:
    return (state.grantable, state.pods == 0, state.index)


def _emptiest_card(state: CardState) -> tuple[int, ...]:
    return (-state.grantable, state.pods, state.index)


CARD_POLICIES: Mapping[str, CardPolicy] = {"binpack": _fullest_card, "spread": _emptiest_card}
"""``binpack``: the fullest card that fits, as upstream gpushare does; a card in use goes before an empty one,
which stays free for pods that want it whole. ``spread``: the card with the most free units."""


WHOLE_CARD_POLICIES: Mapping[str, WholeCardPolicy] = {CLOSE: choose_close_cards, LOOSE: choose_loose_cards}
"""``close``: cards of one link group or NUMA node, of the tightest that is large enough. ``loose``: cards of the
smallest groups, however far apart. Among equally good ones the card policy decides."""


def _fullest_node(node: NodeState, request: CardRequest) -> float:
    fill = min(1.0, node.used / node.total) if node.total else 0.0
    if request.whole:
        # Where nothing but whole cards is served, no pod that shares could have used them.
        return _preferring_close(node, request, fill / 2 if node.serves_memory else (1.0 + fill) / 2)
    if node.largest_shared_free >= request.units * request.cards:
        return (1.0 + fill) / 2
    # An untouched card has to be opened: rather where no pod could have been given it whole.
    return fill / 4 if node.serves_whole else (1.0 + fill) / 4


def _emptiest_node(node: NodeState, request: CardRequest) -> float:
    return _preferring_close(node, request, max(0.0, 1.0 - node.used / node.total) if node.total else 0.0)


NODE_POLICIES: Mapping[str, NodePolicy] = {"binpack": _fullest_node, "spread": _emptiest_node}
"""``binpack``: nodes where the request fits beside others come first, then those that serve no whole cards, then the
fullest, so that untouched cards stay whole. ``spread``: the node with the largest free share. Both prefer, for a pod
that wants several whole cards close together, the node where they are closest."""


def _preferring_close(node: NodeState, request: CardRequest, base: float) -> float:
    """Rank nodes by how close several whole cards would be, and only then by ``base``."""
    if not request.whole or request.cards == 1 or request.whole_policy != CLOSE:
        return base
    places = [_place(state) for state in node.cards.values() if state.can_hold(request)]
    return (closeness(places, request.cards) + base) / 3


def choose_cards(
    node: NodeState, request: CardRequest, policy: CardPolicy, left: RoomLeft = NOTHING_KEPT
) -> tuple[CardState, ...] | None:
    """Choose the request's cards on one node; None when it does not fit. Walks the node's cards, not its pods.

    For whole cards the request's own policy decides, and ``policy`` only between cards that are equally good to it.
    ``left``: what of the cards is not kept for others.
    """
    able = [state for state in node.cards.values() if can_hold_beside(state, request, left)]
    if len(able) < request.cards:
        return None
    if request.whole:
        places = [_place(state, policy(state)) for state in able]
        chosen = WHOLE_CARD_POLICIES[request.whole_policy](places, request.cards)
        return None if chosen is None else tuple(node.cards[index] for index in chosen)
    if request.cards == 1:
        return (min(able, key=policy),)
    return tuple(sorted(sorted(able, key=policy)[: request.cards], key=lambda state: state.index))


def _place(state: CardState, rank: tuple[int, ...] = ()) -> CardPlace:
    card = state.card.card if state.card is not None else None
    return CardPlace(state.index, card.numa_node if card else None, card.link_group if card else "", rank)


def score_node(node: NodeState, request: CardRequest, policy: NodePolicy) -> int:
    """A node's score as the scheduler takes it, 0 to 10; 0 where the request does not fit."""
    return round(MAX_NODE_SCORE * policy(node, request)) if node.fits(request) else 0
