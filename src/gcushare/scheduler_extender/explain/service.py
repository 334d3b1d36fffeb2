"""Explain why a pod has no card, or which card it has, for the nodes that kube-scheduler asked about."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from gcushare.core.assignments import Assignment
from gcushare.core.errors import NotFoundError
from gcushare.core.explain.verdicts import MAX_EXAMPLES, Asked, Explainer, Explanation
from gcushare.core.fit_index import Shape
from gcushare.core.nodes import NodeState
from gcushare.scheduler_extender.cooperative_yield import CooperativeYield
from gcushare.scheduler_extender.state.scheduling_request import RejectedRequest, SchedulingRequest, WaitingPod
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.documents.explain import (
    ExplainDocument,
    RequestDocument,
    explain_bound,
    explain_claiming,
    explain_refused,
    explain_waiting,
)

_NODES_PER_TURN = 16
"""Nodes examined before other tasks get a turn: less than half a millisecond with 8 cards each."""

_MAX_KEPT = 16
"""Explanations that are cached until a node changes. Each has the names of the nodes asked about, up to a megabyte."""

_MAX_UNREADABLE = 20


@dataclass(frozen=True, slots=True)
class Question:
    """The inputs of an explanation: equal questions have one answer until a node changes.

    ``asked``: the nodes that kube-scheduler asked about; None if it has not asked yet, or if they are not stored any
    more. ``kept``: the nodes whose room is kept for pods that preempt others. No name of a pod is part of it.
    """

    shape: Shape
    priority: int
    asked: frozenset[str] | None
    kept: frozenset[str]


class ExplainService:
    """Explains the pods of one vendor, one after the other: the scheduler's calls come first."""

    def __init__(self, state: VendorState) -> None:
        self._state = state
        self._kept: OrderedDict[Question, tuple[int, Explanation]] = OrderedDict()
        self._at_work = asyncio.Lock()

    async def explain(self, namespace: str, name: str) -> ExplainDocument:
        """Explain where a pod is, or why it has no node.

        Raises:
            NotFoundError: no such pod asks for cards of this vendor.
        """
        state, found = self._state, self.find(namespace, name)
        if found is None:
            memory, whole = state.vendor.memory_resource, state.vendor.whole_card_resource
            raise NotFoundError(f"no pod {namespace}/{name} asks for {memory} or {whole}, or holds any")
        uid = found.pod.uid
        if isinstance(found, Assignment):
            choice = state.preferences.find_choice(found)
            units = state.ledger.nodes[found.node].share(found)
            return explain_bound(found, units, state.pod_problems.get(uid, ""), state.over_use.get(uid, ""), choice)
        if isinstance(found, RejectedRequest):
            return explain_refused(found.pod, found.problem)
        return await (self._explain_claiming(found) if uid in state.claiming else self._explain_waiting(found))

    def find(self, namespace: str, name: str) -> WaitingPod | Assignment | None:
        """A pod that waits, for room or for a claim, or what it holds; None if there is no such pod."""
        state, ledger = self._state, self._state.ledger
        uids = state.names.find(namespace, name)
        # A pod that is bound before its watch event arrives has a reservation only.
        held = filter(None, map(ledger.assignment, (*uids, *ledger.reserved)))
        found: Iterator[WaitingPod | Assignment | None] = chain(
            (state.waiting.get(uid) or state.unserved.get(uid) for uid in uids if not ledger.is_reserved(uid)),
            (state.claiming.get(uid) for uid in uids),
            (each for each in held if (each.pod.namespace, each.pod.name) == (namespace, name)),
        )
        return next((each for each in found if each is not None), None)

    def waits(self, request: SchedulingRequest) -> bool:
        """Whether a pod that was refused still exists and has no cards."""
        uid = request.pod.uid
        return self._state.find_request(uid) is not None and self._state.ledger.assignment(uid) is None

    def question_of(self, request: SchedulingRequest) -> Question:
        """The question about a pod as things are now."""
        state = self._state
        kept = state.nominations.closed_to(request)
        return Question(request.shape, request.pod.priority, state.asked.get(request.pod.uid), kept)

    async def find_alike(self, question: Question, requests: Iterable[SchedulingRequest]) -> list[SchedulingRequest]:
        """The pods that have this question now.

        Other tasks get a turn after each computation of kept nodes: each of many nominees has kept nodes of its own.
        """
        state, turns = self._state, CooperativeYield(1)
        closed: dict[tuple[Shape, int, str], frozenset[str]] = {}
        alike = []
        for request in requests:
            asked = state.asked.get(request.pod.uid)
            if (request.shape, request.pod.priority, asked) != (question.shape, question.priority, question.asked):
                continue
            peers = state.nominations.find_peers(request)
            if peers not in closed:
                closed[peers] = state.nominations.closed_to(request)
                await turns.after()
            if closed[peers] == question.kept:
                alike.append(request)
        return alike

    def cost_of(self, question: Question) -> int:
        """How many nodes must be examined for an answer; 0 if it is cached."""
        if self._recall(question) is not None:
            return 0
        return len(self._state.ledger.nodes) if question.asked is None else len(question.asked)

    async def gather(self, question: Question) -> Explanation:
        """Examine the nodes, with turns for other tasks; or return the cached answer if no node has changed since."""
        async with self._at_work:
            if (known := self._recall(question)) is not None:
                return known
            position = self._state.changes.position
            found = await self._examine(question)
            self._kept[question] = (position, found)
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
            return found

    def _recall(self, question: Question) -> Explanation | None:
        known = self._kept.get(question)
        if known is None or known[0] != self._state.changes.position:
            return None
        self._kept.move_to_end(question)
        return known[1]

    async def _examine(self, question: Question) -> Explanation:
        nodes, request = self._state.ledger.nodes, question.shape.request
        asked = question.asked
        elsewhere = self._state.nodes.whole_elsewhere if request.whole else frozenset[str]()
        known = [*(name for name, node in nodes.items() if node.known and name not in elsewhere), *elsewhere]
        others = [] if asked is None else [name for name in known if name not in asked]
        examined: Collection[str] = asked if asked is not None and others else known
        explainer, turns = Explainer(request, priority=question.priority), CooperativeYield(_NODES_PER_TURN)
        for name in examined:
            node = nodes.get(name) or NodeState(name)
            if request.whole and node.serves_claims:
                node = node.as_offered_to_claims()  # kube-scheduler gives whole cards there to unchanged pods.
            explainer.add(node, is_kept=name in question.kept, is_elsewhere=name in elsewhere)
            await turns.after()
        weighing = CooperativeYield(1)
        while explainer.weigh_next():
            await weighing.after()
        return explainer.finish(self._describe_others(question, len(examined), others) if others else None)

    def _describe_others(self, question: Question, asked: int, others: list[str]) -> Asked:
        index = self._state.indexes.get(question.shape)
        fitting = {name: None for name in others if index.fits(name) and name not in question.kept}
        after_preemption = index.after_preemption
        request = question.shape.request
        elsewhere = self._state.nodes.whole_elsewhere if request.whole else frozenset[str]()
        return Asked(
            nodes=asked,
            known=asked + len(others),
            fit_elsewhere=len(fitting),
            possible_elsewhere=sum(name in after_preemption or name in elsewhere for name in others),
            examples=tuple(index.best(fitting, MAX_EXAMPLES)) if fitting else (),
        )

    async def _explain_claiming(self, waiting: SchedulingRequest) -> ExplainDocument:
        """Explain a pod that waits for a claim: kube-scheduler places it alone, on the nodes that serve claims."""
        explainer, turns = Explainer(waiting.cards, priority=waiting.pod.priority), CooperativeYield(1)
        async with self._at_work:
            for name in [name for name, node in self._state.ledger.nodes.items() if node.serves_claims]:
                if (node := self._state.ledger.nodes.get(name)) is not None:
                    explainer.add(node.as_offered_to_claims())
                await turns.after()
            while explainer.weigh_next():
                await turns.after()
        return explain_claiming(waiting.pod, waiting.cards, explainer.finish(), waiting.divisor)

    async def _explain_waiting(self, waiting: SchedulingRequest) -> ExplainDocument:
        found = await self.gather(self.question_of(waiting))
        cards = waiting.cards
        request = RequestDocument(
            cards.units,
            cards.cards,
            cards.whole,
            waiting.shape.node_policy,
            waiting.card_policy,
            cards.selection.use if cards.selection else (),
            cards.selection.avoid if cards.selection else (),
            cards.whole_policy if cards.whole else "",
            cards.limit,
        )
        unreadable = dict(sorted(self._state.nodes.problems.items())[:_MAX_UNREADABLE])
        return explain_waiting(waiting.pod, request, found, unreadable, waiting.divisor)
