"""Explain each refused pod with numbers, in the log and in an Event on the pod."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from gcushare.core.explain.reason_text import summarise
from gcushare.core.log_fields import fields
from gcushare.core.nodes import NodeState
from gcushare.kube.clock import Clock
from gcushare.kube.collections import Newest
from gcushare.kube.events import about_pod
from gcushare.kube.write_rate import TokenBucket
from gcushare.scheduler_extender.cooperative_yield import CooperativeYield
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.wire.objects import ObjectReference

logger = logging.getLogger(__name__)

REFUSED_REASON = "InsufficientCardMemory"
REFUSED_WHOLE_REASON = "InsufficientWholeCards"
"""The reasons of the Event, in addition to kube-scheduler's own FailedScheduling."""

_MAX_REMEMBERED = 4096
_MAX_QUEUED = 256
_MAX_AWAITED = 64
"""Nodes without known cards that pods have an Event about."""

NODES_PER_TOKEN = 50
TOKENS_PER_S = 50.0
"""So 2,500 nodes a second are examined on average, about a tenth of a core: in a cluster of 5,000 nodes an explanation
every two seconds, in one of 100 nodes 25 in a second."""
BURST_TOKENS = 200
"""Two explanations of 5,000 nodes at once."""

_REPORTED_PER_TURN = 16
SETTLE_S = 0.1
"""kube-scheduler first asks about one node alone, if a pod is nominated or one like it fitted there, then about all."""

_INTERVAL_S = 60.0
"""A pod is reported at most once in so long."""


class Events(Protocol):
    """The port for events; ``kube.events.EventRecorder`` is an implementation."""

    def record(
        self, about: ObjectReference, reason: str, message: str, *, warning: bool = False, corrects: bool = False
    ) -> None:
        """Queue an event, and return at once. ``corrects``: the last one is no longer true."""


class FailedSchedulingReporter:
    """Reports the pods that filter refused, each at most once a minute.

    ``on_refused`` is called on filter's path and only queues; ``run`` explains and reports. All pods with the same
    question are reported together. Where the cards of a node were not known, they are reported again once they are.
    """

    def __init__(self, explains: ExplainService, events: Events, *, clock: Clock) -> None:
        self._explains = explains
        self._events = events
        self._clock = clock
        self._bucket = TokenBucket(TOKENS_PER_S, BURST_TOKENS, self._clock)
        self._reported = Newest[str, float](_MAX_REMEMBERED)
        self._queue: dict[str, SchedulingRequest] = {}
        self._awaiting = Newest[str, Newest[str, SchedulingRequest]](_MAX_AWAITED)
        """By node and uid: pods that have an Event saying that the node's cards are not known."""
        self._corrected: set[str] = set()
        """Queued pods that have an Event that is no longer true."""
        self._wake = asyncio.Event()
        explains.listen(self._on_node_change)
        self.counters: Counter[str] = Counter()
        """Refused pods, for metrics: reported; dropped because too many were queued, until the scheduler's next try."""

    def on_refused(self, request: SchedulingRequest) -> None:
        """Queue a refused pod, unless it was reported within a minute. If the queue is full, drop it."""
        uid, now = request.pod.uid, self._clock.monotonic()
        reported = self._reported.get(uid)
        if reported is not None and now < reported + _INTERVAL_S:
            return
        if len(self._queue) >= _MAX_QUEUED:
            self.counters["dropped"] += 1
            return
        self._reported[uid] = now
        self._queue[uid] = request
        self._wake.set()

    def _on_node_change(self, node: NodeState) -> None:
        if not self._awaiting or not node.known:
            return
        for uid, request in self._awaiting.pop(node.name, {}).items():
            self._reported.pop(uid, None)
            self.on_refused(request)
            if uid in self._queue:
                self._corrected.add(uid)

    def _await_cards(self, names: Iterable[str], pods: Iterable[SchedulingRequest]) -> None:
        """Remember to report pods again once a node's cards are known."""
        for name in names:
            awaiting = self._awaiting[name] = self._awaiting.get(name) or Newest(_MAX_QUEUED)
            awaiting.update((request.pod.uid, request) for request in pods)

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._wake.wait()
            while self._queue:
                await self._report_next()
            self._wake.clear()

    async def _report_next(self) -> None:
        """Explain the pod that was queued first, and report it and all pods with the same question."""
        first = next(iter(self._queue))
        await self._clock.sleep(max(0.0, self._reported.get(first, 0.0) + SETTLE_S - self._clock.monotonic()))
        question = self._explains.question_of(self._queue[first])
        cost = self._explains.cost_of(question)
        for _ in range(-(-cost // NODES_PER_TOKEN)):
            await self._bucket.take()
        found = await self._explains.gather(question)
        pods = await self._explains.find_alike(question, list(self._queue.values()))
        if any(map(self._explains.knows_cards_of, found.awaited)):
            return  # They came meanwhile: explain it again.
        for request in pods:
            del self._queue[request.pod.uid]
        corrected = self._corrected - self._queue.keys()
        self._corrected -= corrected
        if found.nodes_fit:
            for request in pods:
                self._reported.pop(request.pod.uid, None)
            return
        self._await_cards(found.awaited, pods)
        summary, turns = summarise(found), CooperativeYield(_REPORTED_PER_TURN)
        for request in pods:
            if self._explains.waits(request):
                pod, reason = request.pod, REFUSED_WHOLE_REASON if request.cards.whole else REFUSED_REASON
                logger.info("no node fits %s", fields(pod=pod, uid=pod.uid, reason=summary))
                corrects = pod.uid in corrected
                self._events.record(about_pod(pod), reason, summary, warning=True, corrects=corrects)
                self.counters["reported"] += 1
            await turns.after()
