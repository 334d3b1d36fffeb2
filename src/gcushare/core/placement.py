"""Placement policies as tables: which card of a node, and which node, a request should take.

A policy is one entry: settings, annotations, help, completion and ``gcushare simulate`` know it from here, the chart
after ``make vendors``. All are deterministic: equal candidates are ordered by the lowest card index, nodes by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from gcushare.core.cards import Card
from gcushare.core.preemption.nominations import NOTHING_KEPT, RoomLeft, can_hold_after_nominees
from gcushare.core.topology import CLOSE, LOOSE, Rank, choose_close_cards, choose_loose_cards, closeness

if TYPE_CHECKING:  # settings name the policies, and their --help needs no ledger
    from gcushare.core.nodes import CardState, NodeState
    from gcushare.core.requests import CardRequest, CardSelection

MAX_NODE_SCORE = 10
"""kube-scheduler accepts 0 to 10 from an extender and multiplies it by the extender's weight."""

EXPECTED_FILL = "expected-fill"
"""The policy whose preferences are learned, by ``packing.learned_fill``."""

CardRank: TypeAlias = "Callable[[CardState, CardRequest], tuple[int, ...]]"
"""The sort key of a card that can hold the request; the least wins."""

NodeScore: TypeAlias = "Callable[[NodeState, CardRequest], float]"
"""How good a node is for a request that fits there, from 0.0 to 1.0."""

WholeCardChoice = Callable[[Sequence[Card], int, Rank], tuple[int, ...] | None]
"""Chooses so many cards of those that can be given whole; None when there are fewer."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How nodes and cards are preferred; ``nodes`` and ``cards`` say in help texts what it does with either."""

    name: str
    score_node: NodeScore
    rank_card: CardRank
    nodes: str
    cards: str


@dataclass(frozen=True, slots=True)
class NamedNodes:
    """Which of the nodes that fit are named to the scheduler: the best ``most``, or all where that is None.

    ``only_equal``: of those, the ones alone that the policy holds equal to the best.
    """

    most: int | None
    only_equal: bool = False


@dataclass(frozen=True, slots=True)
class WholeCardPolicy:
    """Which cards a pod is given whole; ``cards`` says it in help texts."""

    name: str
    choose: WholeCardChoice
    cards: str


def _fullest_card(state: CardState, _request: CardRequest) -> tuple[int, ...]:
    return (state.grantable, state.pods == 0, state.index)


def _emptiest_card(state: CardState, _request: CardRequest) -> tuple[int, ...]:
    return (-state.grantable, state.pods, state.index)


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


def _preferring_close(node: NodeState, request: CardRequest, base: float) -> float:
    """Rank nodes by how close several whole cards would be, and only then by ``base``."""
    if not request.whole or request.cards == 1 or request.whole_policy != CLOSE:
        return base
    able = [s.card.card for s in node.cards.values() if s.card is not None and s.can_hold(request)]
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
"""``binpack``: nodes where the request fits beside others come first, then those that serve no whole cards, then the
fullest, so that untouched cards stay whole; of cards the fullest, as upstream gpushare does, a card in use before an
empty one. ``expected-fill``: see ``packing``; what stands here is for nodes that are not valued yet. ``spread``: the
node with the largest free share, the card with the most free units. Where nothing is learned all of them prefer, for a
pod that wants several whole cards close together, the node where they are closest."""

WHOLE_CARD_POLICIES: Mapping[str, WholeCardPolicy] = {
    policy.name: policy
    for policy in (
        WholeCardPolicy(CLOSE, choose_close_cards, "those of one link group or NUMA node, where they are known"),
        WholeCardPolicy(LOOSE, choose_loose_cards, "the odd ones, which leaves the groups to others"),
    )
}
"""``close``: cards of one link group or NUMA node, of the tightest that is large enough. ``loose``: cards of the
smallest groups, however far apart. Among equally good ones the card policy decides."""


def prefer_choice(node: NodeState, request: CardRequest, score: float) -> float:
    """Put the order of cards that the pod's author wrote before the policy's ``score`` of a node that fits.

    A node counts by the least preferred card that it would give. Scores are from 0.0 to 1.0.
    """
    selection = request.selection
    if selection is None or not selection.is_ordered:
        return score
    able = (state for state in node.cards.values() if state.can_hold(request))
    given = sorted((_preference(state, selection) for state in able), reverse=True)[: request.cards]
    return selection.weigh(given[-1], score) if given else score


def _preference(state: CardState, selection: CardSelection) -> int:
    return selection.preference(state.card.card if state.card is not None else None)


def choose_cards(
    node: NodeState, request: CardRequest, rank: CardRank, left: RoomLeft = NOTHING_KEPT
) -> tuple[CardState, ...] | None:
    """Choose the request's cards on one node; None when it does not fit. Walks the node's cards, not its pods.

    The order that the pod's author wrote comes first: the cards are chosen from as few preferred ones as are enough.
    Of these the request's own policy chooses whole cards, and ``rank`` only decides between cards that are equally good
    to it. ``left``: what of the cards is not kept for others.
    """
    able = [state for state in node.cards.values() if can_hold_after_nominees(state, request, left)]
    if len(able) < request.cards:
        return None
    ranks = {state.index: rank(state, request) for state in able}
    selection = request.selection
    if selection is not None and selection.is_ordered:
        preferences = {state.index: _preference(state, selection) for state in able}
        least = sorted(preferences.values(), reverse=True)[request.cards - 1]
        able = [state for state in able if preferences[state.index] >= least]
        ranks = {state.index: (-preferences[state.index], *ranks[state.index]) for state in able}
    if request.whole:
        cards = [state.card.card for state in able if state.card is not None]
        chosen = WHOLE_CARD_POLICIES[request.whole_policy].choose(cards, request.cards, lambda card: ranks[card.index])
        return None if chosen is None else tuple(node.cards[index] for index in chosen)
    able.sort(key=lambda state: ranks[state.index])
    return tuple(sorted(able[: request.cards], key=lambda state: state.index))
