"""Examines a view of a cluster for one question: why has a pod no card? Pure; the extender and the commands ask it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from gcushare.cluster.view import ClusterView
from gcushare.core.explain.explanation import Explainer, Explanation
from gcushare.core.node_rules import NO_RULES, NodeRules
from gcushare.core.nodes import NodeState
from gcushare.core.requests import CardRequest

NODES_PER_STEP = 16
"""Nodes examined in one step: less than half a millisecond with 8 cards each."""


@dataclass(frozen=True, slots=True)
class Question:
    """The inputs of an explanation: equal questions have one answer until a node changes. No name of a pod is in it.

    ``by_claim``: the pod asks by a claim, so only nodes that serve claims count. ``asked``: the nodes that
    kube-scheduler asked about; None if it has not asked yet, or if they are not stored any more. ``kept``: the nodes
    whose room is kept for pods that preempt others. ``preempts``: whether its preemptionPolicy lets it do so itself.
    """

    request: CardRequest
    priority: int = 0
    rules: NodeRules = NO_RULES
    by_claim: bool = False
    asked: frozenset[str] | None = None
    kept: frozenset[str] = frozenset()
    preempts: bool = True


def answer(view: ClusterView, question: Question) -> Explanation:
    """Answer a question at once."""
    explainer = Explainer(question.request, priority=question.priority, preempts=question.preempts)
    for _ in examine(view, question, explainer):
        pass
    return explainer.finish()


def examine(view: ClusterView, question: Question, explainer: Explainer) -> Iterator[None]:
    """Examine all nodes, a step at a time, so that a caller who serves others can give them a turn in between."""
    request, asked, nodes = question.request, question.asked or frozenset(), view.ledger.nodes
    elsewhere = view.nodes.whole_elsewhere if request.whole else frozenset[str]()
    steps = count(1)
    for name in dict.fromkeys((*nodes, *elsewhere, *asked)):
        node = nodes.get(name) or NodeState(name)
        # kube-scheduler gives whole cards of nodes that serve claims to unchanged pods too.
        by_claim = node.serves_claims and (question.by_claim or request.whole)
        if (question.by_claim and not by_claim) or not (node.known or name in asked or name in elsewhere):
            continue
        place = view.places.get(name)
        explainer.add(
            node.as_offered_to_claims() if by_claim else node,
            obstacle=question.rules.find_obstacle(place) if place is not None else None,
            is_kept=name in question.kept,
            is_asked=question.asked is None or name in asked,
            by_claim=by_claim,
            is_elsewhere=name in elsewhere,
        )
        if next(steps) % NODES_PER_STEP == 0:
            yield
    while explainer.weigh_next():
        yield
