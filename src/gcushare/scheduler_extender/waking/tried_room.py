"""Room that is given away on trial: what would be left for the next pods, while the ledger stays as it is."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.core.fit_index import Shape
from gcushare.core.nodes import Assignment, CardGrant, NodeState, PodRef
from gcushare.core.placement import POLICIES, choose_cards, prefer_choice
from gcushare.core.requests import CardRequest

_COMPARED = 16
"""Nodes with room that are compared for one pod: the count of pods that fit hardly depends on which node each takes."""


class TriedRoom:
    """A ledger's nodes, of which those that a pod was given on trial are copies."""

    def __init__(self, nodes: Mapping[str, NodeState]) -> None:
        self._nodes = nodes
        self._copies: dict[str, NodeState] = {}

    def place(self, pod: PodRef, names: list[str], shape: Shape, card_policy: str) -> str | None:
        """Give a pod cards of one of these nodes, by the shape's policy; None where none has the room left.

        ``names`` is worked through from its end: those that cannot hold the shape any more are taken out of it there.
        """
        request, score = shape.request, POLICIES[shape.node_policy].score_node
        while names and not self._fits(names[-1], request):
            names.pop()
        able = [self._node(name) for name in names[-_COMPARED:] if self._fits(name, request)]
        if not able:
            return None
        best = min(able, key=lambda node: (-prefer_choice(node, request, score(node, request)), node.name))
        cards = choose_cards(best, request, POLICIES[card_policy].rank_card)
        if cards is None:
            return None
        twin = self._copies.get(best.name)
        if twin is None:
            twin = self._copies[best.name] = best.copy()
        if pod.uid not in twin.assignments:
            grants = (CardGrant(s.index, s.total if request.whole else request.units, request.whole) for s in cards)
            twin.add(Assignment(pod, best.name, tuple(grants)))
        return best.name

    def _fits(self, name: str, request: CardRequest) -> bool:
        node = self._copies.get(name) or self._nodes.get(name)
        return node is not None and node.known and node.fits(request)

    def _node(self, name: str) -> NodeState:
        return self._copies.get(name) or self._nodes[name]
