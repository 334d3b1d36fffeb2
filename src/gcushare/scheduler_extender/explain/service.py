"""Explain why a pod has no card, or which card it has, for the nodes that kube-scheduler asked about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from gcushare.cluster.explaining import Question, examine
from gcushare.core.assignments import Assignment
from gcushare.core.errors import NotFoundError
from gcushare.core.explain.explanation import Explainer, Explanation
from gcushare.core.fit_index import Shape
from gcushare.core.nodes import NodeState
from gcushare.kube.collections import Newest
from gcushare.scheduler_extender.cooperative_yield import CooperativeYield
from gcushare.scheduler_extender.state.scheduling_request import RejectedRequest, SchedulingRequest, WaitingPod
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.documents.explain import (
    ExplainDocument,
    explain_bound,
    explain_claiming,
    explain_refused,
    explain_waiting,
    request_document,
)

_MAX_KEPT = 16
"""Explanations that are cached until a node changes. Each has the names of the nodes asked about, up to a megabyte."""


class ExplainService:
    """Explains the pods of one vendor, one after the other: the scheduler's calls come first."""

    def __init__(self, state: VendorState) -> None:
        self._state = state
        self._kept = Newest[Question, tuple[tuple[int, int], Explanation]](_MAX_KEPT)
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
            return explain_bound(
                found,
                state.share(found),
                state.pod_problems.get(uid, ""),
                state.over_use.get(uid, ""),
                state.preferences.find_choice(found),
                state.claims.pods_sharing_with(uid),
            )
        if isinstance(found, RejectedRequest):
            return explain_refused(found.pod, found.problem)
        return await (self._explain_claiming(found) if uid in state.claiming else self._explain_waiting(found))

    def find(self, namespace: str, name: str) -> WaitingPod | Assignment | None:
        """A pod that waits, for room or for a claim, or what it holds or shares; None if there is no such pod."""
        state, ledger = self._state, self._state.ledger
        uids = state.names.find(namespace, name)
        # A pod that is bound before its watch event arrives has a reservation only.
        held = filter(None, map(ledger.assignment, (*uids, *ledger.reserved)))
        found: Iterator[WaitingPod | Assignment | None] = chain(
            (state.waiting.get(uid) or state.unserved.get(uid) for uid in uids if not ledger.is_reserved(uid)),
            (state.claiming.get(uid) for uid in uids),
            (each for each in held if (each.pod.namespace, each.pod.name) == (namespace, name)),
        )
        return next((each for each in found if each is not None), None) or state.claims.find_sharer(namespace, name)

    def listen(self, listener: Callable[[NodeState], None]) -> None:
        """Call ``listener`` with each node that changed."""
        self._state.ledger.listen(listener)

    def knows_cards_of(self, name: str) -> bool:
        node = self._state.ledger.nodes.get(name)
        return node is not None and node.known

    def waits(self, request: SchedulingRequest) -> bool:
        """Whether a pod that was refused still exists and has no cards."""
        uid = request.pod.uid
        return self._state.find_request(uid) is not None and self._state.ledger.assignment(uid) is None

    def question_of(self, request: SchedulingRequest) -> Question:
        """The question about a pod as things are now."""
        state = self._state
        asked, kept = state.refused_on.get(request.pod.uid), state.nominations.closed_to(request)
        return _question(request, asked, kept)

    async def find_alike(self, question: Question, requests: Iterable[SchedulingRequest]) -> list[SchedulingRequest]:
        """The pods that have this question now.

        Other tasks get a turn after each computation of kept nodes: each of many nominees has kept nodes of its own.
        """
        state, turns = self._state, CooperativeYield(1)
        closed: dict[tuple[Shape, int, str], frozenset[str]] = {}
        alike = []
        for request in requests:
            asked = state.refused_on.get(request.pod.uid)
            if _question(request, asked, question.kept) != question:
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
        return 0 if self._recall(question) is not None else len(self._state.ledger.nodes)

    async def gather(self, question: Question) -> Explanation:
        """Examine the nodes, with turns for other tasks; or return the cached answer if no node has changed since."""
        async with self._at_work:
            if (known := self._recall(question)) is not None:
                return known
            now = self._now
            explainer = Explainer(question.request, priority=question.priority, preempts=question.preempts)
            for _ in examine(self._state, question, explainer):
                await asyncio.sleep(0)
            found = explainer.finish()
            self._kept[question] = (now, found)
            return found

    @property
    def _now(self) -> tuple[int, int]:
        """What says that no node has changed."""
        return self._state.changes.position, self._state.places_changed

    def _recall(self, question: Question) -> Explanation | None:
        known = self._kept.get(question)
        if known is None or known[0] != self._now:
            return None
        self._kept.move_to_end(question)
        return known[1]

    async def _explain_claiming(self, waiting: SchedulingRequest) -> ExplainDocument:
        """Explain a pod that waits for a claim: kube-scheduler places it alone, on the nodes that serve claims."""
        found = await self.gather(Question(waiting.cards, waiting.pod.priority, waiting.rules, by_claim=True))
        return explain_claiming(waiting.pod, waiting.cards, found, divisor=waiting.divisor, gates=waiting.gates)

    async def _explain_waiting(self, waiting: SchedulingRequest) -> ExplainDocument:
        found, cards = await self.gather(self.question_of(waiting)), waiting.cards
        return explain_waiting(
            waiting.pod,
            request_document(cards, waiting.shape.node_policy, waiting.card_policy, cards.whole_policy),
            found,
            divisor=waiting.divisor,
            gates=waiting.gates,
            unreadable=self._state.nodes.problems,
        )


def _question(request: SchedulingRequest, asked: frozenset[str] | None, kept: frozenset[str]) -> Question:
    return Question(request.cards, request.pod.priority, request.rules, False, asked, kept, request.preempts)
