"""Placement policies as tables: which node, and which of its cards, a request should get.

A policy is one entry. Settings, annotations and help read this table; the chart gets it from
``make vendors``. All policies are deterministic: the lowest card index breaks ties in ``choose_cards``, the
node's name those of nodes in ``fit_index``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gcushare.core.card_state import CardState, suffice
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.kept_room import NOTHING_KEPT, RoomLeft, can_hold_after_nominees
from gcushare.core.requests import CardRequest
from gcushare.core.whole_cards import CLOSE, WHOLE_CARD_POLICIES, closeness

MAX_NODE_SCORE = 10
"""kube-scheduler accepts 0 to 10 from an extender and multiplies it by the extender's weight."""

EXPECTED_FILL = "expected-fill"
"""The policy whose preferences are learned; see ``packing.learned_fill``."""

CardRank: TypeAlias = Callable[[CardState, CardRequest], tuple[int, ...]]
"""The sort key of a card that can hold the request: the lowest wins, of equal ones the card with the lowest index."""

NodeScore: TypeAlias = Callable[[NodeState, CardRequest], float]
"""Scores a node for a request that fits there, from 0.0 to 1.0."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How nodes and cards are preferred. ``nodes`` and ``cards`` describe that in help texts."""

    name: str
    score_node: NodeScore
    rank_card: CardRank
    nodes: str
    cards: str


def _fullest_card(state: CardState, _request: CardRequest) -> tuple[int, ...]:
    return (state.grantable, state.pods == 0)


def _emptiest_card(state: CardState, _request: CardRequest) -> tuple[int, ...]:
    return (-state.grantable, state.pods)


def _fullest_node(node: NodeState, request: CardRequest) -> float:
    fill = min(1.0, node.used / node.total) if node.total else 0.0
    if request.whole:
        # A node that serves only whole cards loses no room for pods that share.
        return _preferring_close(node, request, fill / 2 if node.serves_memory else (1.0 + fill) / 2)
    if node.largest_shared_free >= request.units * request.cards:
        return _preferring_close(node, request, (1.0 + fill) / 2)
    # An unused card must be opened: preferably on a node that does not serve whole cards.
    return _preferring_close(node, request, fill / 4 if node.serves_whole else (1.0 + fill) / 4)


def _emptiest_node(node: NodeState, request: CardRequest) -> float:
    return _preferring_close(node, request, max(0.0, 1.0 - node.used / node.total) if node.total else 0.0)


def _preferring_close(node: NodeState, request: CardRequest, base: float) -> float:
    """Rank nodes by how close several cards would be, and only then by ``base``."""
    if request.cards == 1 or request.whole_policy != CLOSE:
        return base
    able = [s.card for s in node.cards.values() if s.card is not None and s.can_hold(request)]
    return (closeness(able, request.cards) + base) / 3


POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("binpack", _fullest_node, _fullest_card, "fills nodes in use first", "the fullest that fits"),
        Policy(
            EXPECTED_FILL,
            _fullest_node,
            _fullest_card,
            "takes the one that loses least of what the cluster's typical pods could still use",
            "the one whose use loses least of it",
        ),
        Policy("spread", _emptiest_node, _emptiest_card, "takes the emptiest", "the emptiest"),
    )
}
"""``binpack``: first nodes where the request fits on a card in use, then nodes that serve no whole cards, then the
fullest, so that unused cards stay free. Of cards the fullest, as in upstream gpushare, a card in use before an empty
one. ``expected-fill``: see ``packing``; this entry is for nodes without a value yet. ``spread``: the node with the
largest free share, the card with the most free units. For several cards close together, every policy (before it has
learned) prefers the node where they are closest."""


def prefer_choice(node: NodeState, request: CardRequest, score: float) -> float:
    """Put the order of cards that the pod's author wrote before the policy's ``score`` of a node that fits.

    A node counts by the least preferred card that it would give. Scores are from 0.0 to 1.0.
    """
    selection = request.selection
    if selection is None or not selection.is_ordered:
        return score
    able = (state for state in node.cards.values() if state.can_hold(request))
    given = sorted((selection.preference(state.card) for state in able), reverse=True)[: request.cards]
    return selection.weigh(given[-1], score) if given else score


def choose_cards(
    node: NodeState, request: CardRequest, rank: CardRank, left: RoomLeft = NOTHING_KEPT
) -> tuple[CardState, ...] | None:
    """Choose the request's cards on one node; None if it does not fit. Walks the node's cards, not its pods.

    The order that the pod's author wrote comes first: the cards are chosen from the smallest sufficient number of
    preferred ones. Among these, the request's own policy chooses several cards, and ``rank`` breaks ties. ``left`` is
    what the request may use of cards on which room is kept for nominees.
    """
    able = [state for state in node.cards.values() if can_hold_after_nominees(state, request, left)]
    if not suffice(able, request):
        return None
    ranks = {state.index: (*rank(state, request), state.index) for state in able}
    selection = request.selection
    if selection is not None and selection.is_ordered:
        preferences = {state.index: selection.preference(state.card) for state in able}
        levels = sorted(set(preferences.values()), reverse=True)
        preferred = ([state for state in able if preferences[state.index] >= least] for least in levels)
        able = next(few for few in preferred if suffice(few, request))
        ranks = {state.index: (-preferences[state.index], *ranks[state.index]) for state in able}
    if request.whole or request.cards > 1:
        cards = [state.card for state in able if state.card is not None]
        chosen = WHOLE_CARD_POLICIES[request.whole_policy].choose(cards, request.cards, lambda card: ranks[card.index])
        return None if chosen is None else tuple(node.cards[index] for index in chosen)
    return (min(able, key=lambda state: ranks[state.index]),)
