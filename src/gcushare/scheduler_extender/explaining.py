"""explain: why this pod has no card, or which it has; and the same words as an Event on pods that filter refused."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import chain
from typing import Protocol

from gcushare.core.errors import NotFoundError
from gcushare.core.explanations import Explainer, Explanation, summarise
from gcushare.core.nodes import Assignment
from gcushare.core.requests import CardRequest
from gcushare.runtime.logs import fields
from gcushare.scheduler_extender.asking import Asking
from gcushare.scheduler_extender.state import VendorState, WaitingPod
from gcushare.wire.explain_documents import (
    ExplainDocument,
    RequestDocument,
    explain_bound,
    explain_refused,
    explain_waiting,
)
from gcushare.wire.objects import ObjectReference

log = logging.getLogger(__name__)

_SLICE = 64
"""Nodes looked at between two turns of others: about half a millisecond."""

_MAX_UNREADABLE = 20
REFUSED_REASON = "InsufficientCardMemory"
REFUSED_WHOLE_REASON = "InsufficientWholeCards"
"""The reasons of the Event, beside kube-scheduler's own FailedScheduling."""

_MAX_REMEMBERED = 4096
_MAX_QUEUED = 256


class Events(Protocol):
    """Where events go; ``kube.events.EventRecorder`` is one. Returns at once."""

    def record(self, about: ObjectReference, reason: str, message: str, *, warning: bool = False) -> None:
        """Take an event."""
        ...


class ExplainService:
    """Explains one vendor's pods."""

    def __init__(self, state: VendorState) -> None:
        self._state = state

    async def explain(self, namespace: str, name: str) -> ExplainDocument:
        """Say where a pod is, or why it is nowhere.

        Raises:
            NotFoundError: no such pod asks for cards of this vendor.
        """
        waiting = self._find_waiting(namespace, name)
        if waiting is not None:
            return await self._explain_waiting(waiting)
        holding = self._find_holding(namespace, name)
        if holding is None:
            vendor = self._state.vendor
            raise NotFoundError(
                f"no pod {namespace}/{name} asks for {vendor.memory_resource} or {vendor.whole_card_resource}, "
                "or holds any"
            )
        return explain_bound(holding, self._state.pod_problems.get(holding.pod.uid, ""))

    def knows(self, namespace: str, name: str) -> bool:
        """Whether there is such a pod."""
        return self._find_waiting(namespace, name) is not None or self._find_holding(namespace, name) is not None

    def _find_holding(self, namespace: str, name: str) -> Assignment | None:
        wanted = (namespace, name)
        return next((a for a in self._state.ledger.assignments() if (a.pod.namespace, a.pod.name) == wanted), None)

    def _find_waiting(self, namespace: str, name: str) -> WaitingPod | None:
        wanted = (namespace, name)
        reserved = self._state.ledger.reserved
        pods = chain(self._state.waiting.values(), self._state.parked.values())
        found = (w for w in pods if (w.pod.namespace, w.pod.name) == wanted)
        return next((waiting for waiting in found if waiting.pod.uid not in reserved), None)

    async def _explain_waiting(self, waiting: WaitingPod) -> ExplainDocument:
        asking = waiting.asking
        if asking is None:
            return explain_refused(waiting.pod, waiting.problem)
        found = await self.gather(asking.shape.request)
        selection = asking.shape.request.selection
        request = RequestDocument(
            asking.shape.request.units,
            asking.shape.request.cards,
            asking.shape.request.whole,
            asking.shape.node_policy,
            asking.card_policy_name,
            selection.use if selection else (),
            selection.avoid if selection else (),
            asking.shape.request.whole_policy if asking.shape.request.whole else "",
        )
        unreadable = dict(sorted(self._state.node_problems.items())[:_MAX_UNREADABLE])
        return explain_waiting(waiting.pod, request, found, unreadable)

    async def gather(self, request: CardRequest) -> Explanation:
        """Look at every node, giving others their turn."""
        explainer = Explainer(request)
        for number, node in enumerate(list(self._state.ledger.nodes.values())):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            explainer.add(node)
        return explainer.finish()


class RefusalReporter:
    """Tells, for pods that filter refused, the numbers: in the log and as an Event, each pod at most once a minute.

    ``note`` is called on the filter's path and only queues; ``run`` explains and reports.
    """

    def __init__(
        self,
        explains: ExplainService,
        events: Events,
        *,
        interval_s: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._explains = explains
        self._events = events
        self._interval_s = interval_s
        self._monotonic = monotonic
        self._told: OrderedDict[str, float] = OrderedDict()
        self._queue: asyncio.Queue[Asking] = asyncio.Queue(_MAX_QUEUED)

    def note(self, asking: Asking) -> None:
        """Take a refused pod; dropped when it was told of within the interval, or when very many wait."""
        uid, now = asking.pod.uid, self._monotonic()
        told = self._told.get(uid)
        if (told is not None and now < told + self._interval_s) or self._queue.full():
            return
        self._told[uid] = now
        self._told.move_to_end(uid)
        if len(self._told) > _MAX_REMEMBERED:
            self._told.popitem(last=False)
        self._queue.put_nowait(asking)

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            asking = await self._queue.get()
            found = await self._explains.gather(asking.shape.request)
            if not found.nodes_fit:
                self._report(asking, summarise(found))

    def _report(self, asking: Asking, summary: str) -> None:
        pod, reason = asking.pod, REFUSED_WHOLE_REASON if asking.shape.request.whole else REFUSED_REASON
        log.info("no node fits %s", fields(pod=pod, uid=pod.uid, reason=summary))
        about = ObjectReference(api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
        self._events.record(about, reason, summary, warning=True)
