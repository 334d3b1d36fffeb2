"""Pods that wait for a node: the next ones, those backing off, and those that fit nowhere until something changes.

Source: ``pkg/scheduler/backend/queue``: highest priority first, then the longest waiting; a pod that fitted nowhere is
not tried again before an event or a long time, and never before its backoff has passed (``settings.Pacing``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from gcushare_playground.scheduler.objects import PodInfo
from gcushare_playground.scheduler.settings import Pacing

_MISSED = -1
"""Seen by no count of events: the pod itself changed during its attempt."""


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod in the queue, or out of it for one attempt."""

    pod: PodInfo
    arrived: int
    attempts: int = 0
    ready_at: float = 0.0
    """Before this moment it is not tried, whatever happens."""
    retry_at: float | None = None
    """From this moment on it is tried again without an event; None: it is ready as soon as its backoff ends."""
    event_seen: int = field(default=0)
    """The number of cluster events when its last attempt began."""


class SchedulingQueue:
    """The pods without a node. One task pops; the watches' sinks add, change and wake."""

    def __init__(self, pacing: Pacing, clock: Callable[[], float], *, heeds_status: bool = True) -> None:
        self._pacing = pacing
        self._heeds_status = heeds_status
        self._clock = clock
        self._waiting: dict[str, QueuedPod] = {}
        self._in_flight: dict[str, QueuedPod] = {}
        self._arrivals = 0
        self._events = 0
        self._changed = asyncio.Event()

    def pods(self) -> Iterator[PodInfo]:
        """Every pod that is queued or being tried."""
        yield from (each.pod for each in chain(self._waiting.values(), self._in_flight.values()))

    def find(self, uid: str) -> PodInfo | None:
        """The newest state of a pod that is queued or being tried."""
        found = self._waiting.get(uid) or self._in_flight.get(uid)
        return None if found is None else found.pod

    def put(self, pod: PodInfo) -> None:
        """Take in a pod without a node; one that was changed is worth another try."""
        in_flight = self._in_flight.get(pod.uid)
        if in_flight is not None:
            if self._is_changed(in_flight.pod, pod):
                in_flight.event_seen = _MISSED
            in_flight.pod = pod
            return
        queued = self._waiting.get(pod.uid)
        if queued is None:
            self._arrivals += 1
            queued = self._waiting[pod.uid] = QueuedPod(pod, self._arrivals)
        elif self._is_changed(queued.pod, pod):
            queued.retry_at = None
        queued.pod = pod
        self._changed.set()

    def drop(self, uid: str) -> None:
        """Take in that a pod is gone or has a node."""
        self._waiting.pop(uid, None)
        self._in_flight.pop(uid, None)

    def retain(self, uids: Iterable[str]) -> None:
        """Drop every pod but these."""
        kept = set(uids)
        for uid in [*self._waiting, *self._in_flight]:
            if uid not in kept:
                self.drop(uid)

    def cluster_changed(self) -> None:
        """Let every pod that fitted nowhere be tried again once its backoff has passed."""
        self._events += 1
        for queued in self._waiting.values():
            queued.retry_at = None
        self._changed.set()

    def give_back(self, queued: QueuedPod, *, is_error: bool) -> None:
        """Put a pod back after an attempt that failed; after an error it is tried again once its backoff has passed."""
        if self._in_flight.pop(queued.pod.uid, None) is None:
            return  # gone meanwhile
        now = self._clock()
        queued.ready_at = now + self._pacing.backoff_s(queued.attempts)
        # An event during the attempt may be just what it waits for.
        missed_event = queued.event_seen != self._events
        queued.retry_at = None if is_error or missed_event else now + self._pacing.unschedulable_s
        self._arrivals += 1
        queued.arrived = self._arrivals  # behind those that have waited since
        self._waiting[queued.pod.uid] = queued
        self._changed.set()

    def finish(self, uid: str) -> None:
        """Let go of a pod whose attempt succeeded."""
        self._in_flight.pop(uid, None)

    def take_ready(self) -> QueuedPod | None:
        """Take the next pod to try, if one is ready; it is in flight until it is given back, finished or dropped."""
        now = self._clock()
        ready = [queued for queued in self._waiting.values() if _tried_from(queued) <= now]
        return self._take(min(ready, key=lambda queued: (-queued.pod.priority, queued.arrived))) if ready else None

    async def pop(self) -> QueuedPod:
        """Wait for the next pod to try, and take it."""
        while (queued := self.take_ready()) is None:
            await self._wait(min((_tried_from(queued) for queued in self._waiting.values()), default=None))
        return queued

    def _take(self, queued: QueuedPod) -> QueuedPod:
        del self._waiting[queued.pod.uid]
        self._in_flight[queued.pod.uid] = queued
        queued.attempts += 1
        queued.event_seen = self._events
        return queued

    def _is_changed(self, before: PodInfo, now: PodInfo) -> bool:
        is_other_status = (before.raw.get("status") or {}) != (now.raw.get("status") or {})
        return before.fingerprint != now.fingerprint or (self._heeds_status and is_other_status)

    async def _wait(self, until: float | None) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(None if until is None else until - self._clock()):
                await self._changed.wait()
        except TimeoutError:
            return


def _tried_from(queued: QueuedPod) -> float:
    return queued.ready_at if queued.retry_at is None else max(queued.ready_at, queued.retry_at)
