"""Posts Events about pods and nodes, which people see in ``kubectl describe``.

Callers never wait: they queue an event and continue. One task posts the events, at most one per object and reason per
minute; its count says how often it happened since. If the queue is full, events are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, deque
from dataclasses import dataclass

from gcushare.core.assignments import PodRef
from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, rfc3339
from gcushare.kube.collections import Newest
from gcushare.kube.errors import AlreadyExistsError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import EVENTS
from gcushare.kube.write_rate import TokenBucket
from gcushare.wire.objects import Event, EventSource, ObjectMeta, ObjectReference

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 1024
"""The API server's limit for a message."""

_MAX_NAME_CHARS = 230
"""Leaves room for the time in the 253 characters of a name."""

_ATTEMPTS = 3
_RETRY = BackoffPolicy(first_s=1.0, cap_s=2.0)


@dataclass(frozen=True, slots=True)
class RecorderLimits:
    """Limits of the recorder. ``interval_s`` is the shortest time between two posts of one series."""

    interval_s: float = 60.0
    queue: int = 256
    series: int = 4096
    """Series in memory. The least recently used one is forgotten first; its count then starts again."""
    rate_per_s: float = 5.0
    """Posts per second on average over all series, with bursts of ``burst``."""
    burst: int = 25


@dataclass(slots=True)
class _Series:
    about: ObjectReference
    reason: str
    warning: bool = False
    message: str = ""
    name: str = ""
    first_timestamp: str = ""
    posted_count: int = 0
    pending: int = 0
    posted_at: float = -math.inf
    queued: bool = False


class EventRecorder:
    """Records events from any task of the loop. ``run`` it in its own task, and ``drain`` it before you cancel that."""

    def __init__(
        self,
        client: KubeClient,
        component: str,
        *,
        host: str = "",
        limits: RecorderLimits | None = None,
        clock: Clock,
    ) -> None:
        self._client = client
        self._component = component
        self._host = host
        self._limits = limits or RecorderLimits()
        self._clock = clock
        self._bucket = TokenBucket(self._limits.rate_per_s, self._limits.burst, self._clock)
        self._series = Newest[tuple[str, str, str, str, str], _Series](self._limits.series)
        self._queue: deque[_Series] = deque()
        self._is_posting = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._sequence = 0
        self.counters: Counter[str] = Counter()
        """Events by outcome, for metrics: posted; merged, which the next post of their series has; dropped; failed."""

    def record(
        self, about: ObjectReference, reason: str, message: str, *, warning: bool = False, corrects: bool = False
    ) -> None:
        """Queue an event. Returns at once and never raises. ``message`` is cut to the API server's limit.

        ``corrects``: the last of its series is no longer true, so this one is posted within the interval, too.
        """
        # A node's Events are of its cards: what is said of one is not the end of what was said of another.
        key = (about.kind, about.name, about.uid, reason, message if about.kind == "Node" else "")
        series = self._series[key] = self._series.get(key) or _Series(about, reason)
        series.warning, series.message = warning, cut_message(message)
        is_soon = self._clock.monotonic() < series.posted_at + self._limits.interval_s
        if series.queued or (is_soon and not corrects):
            series.pending += 1
            self.counters["merged"] += 1
        elif len(self._queue) >= self._limits.queue:
            self.counters["dropped"] += 1
        else:
            series.pending += 1
            series.queued = True
            self._queue.append(series)
            self._idle.clear()
            self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            while self._queue:
                await self._bucket.take()
                series = self._queue.popleft()
                self._is_posting = True
                await self._post(series)
                self._is_posting = False
            self._wake.clear()
            self._idle.set()

    async def drain(self, timeout_s: float) -> bool:
        """Wait until all queued events are posted or have failed; False if that takes longer than ``timeout_s``."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("events left behind %s", fields(count=len(self._queue) + self._is_posting))
            return False
        return True

    async def _post(self, series: _Series) -> None:
        series.queued = False
        # Events recorded during this post wait for the next interval, even if it fails: a server that refuses events
        # must not get one after another.
        series.posted_at = self._clock.monotonic()
        occurrences, series.pending = series.pending, 0
        backoff = Backoff(_RETRY)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._write(series, series.posted_count + occurrences)
            except RetryableError as error:
                if attempt < _ATTEMPTS:
                    await self._clock.sleep(backoff.next_delay_s(error))
                    continue
                self._give_up(series, occurrences, error)
            except GcushareError as error:
                self._give_up(series, occurrences, error)
            else:
                series.posted_count += occurrences
                self.counters["posted"] += 1
            break
        series.posted_at = self._clock.monotonic()

    def _give_up(self, series: _Series, occurrences: int, error: GcushareError) -> None:
        series.pending += occurrences
        self.counters["failed"] += 1
        about = f"{series.about.kind}/{series.about.namespace}/{series.about.name}"
        logger.warning("event not posted %s", fields(about=about, reason=series.reason, error=error))

    async def _write(self, series: _Series, count: int) -> None:
        now = rfc3339(self._clock.now())
        namespace = series.about.namespace or "default"  # that of events of nodes and other cluster-scoped objects
        if series.posted_count > 0:
            try:
                body = {"count": count, "message": series.message, "lastTimestamp": now}
                await self._client.patch(EVENTS, series.name, Patch(PatchKind.MERGE, body), namespace=namespace)
                return
            except NotFoundError:
                # Events expire after an hour; the series continues in a new one.
                series.name = ""
        if not series.name:
            self._sequence += 1
            moment = round(self._clock.now().timestamp() * 1_000_000) * 1000 + self._sequence % 1000
            series.name = f"{series.about.name[:_MAX_NAME_CHARS]}.{moment:x}"
            series.first_timestamp = series.first_timestamp or now
        event = Event(
            api_version="v1",
            kind="Event",
            metadata=ObjectMeta(name=series.name, namespace=namespace),
            involved_object=series.about,
            type="Warning" if series.warning else "Normal",
            reason=series.reason,
            message=series.message,
            count=count,
            first_timestamp=series.first_timestamp,
            last_timestamp=now,
            source=EventSource(component=self._component, host=self._host),
            reporting_component=self._component,
            reporting_instance=self._host or self._component,
        )
        try:
            await self._client.create(EVENTS, event, namespace=namespace)
        except AlreadyExistsError:
            # The name is unique to us: an earlier attempt, whose answer was lost, has created it.
            logger.debug("event was there already %s", fields(name=series.name))
        except ConflictError as error:
            raise RetryableError(str(error)) from error


def about_pod(pod: PodRef) -> ObjectReference:
    """The object of an event about a pod."""
    return ObjectReference(api_version="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)


def cut_message(message: str) -> str:
    """Cut a message to ``MAX_MESSAGE_BYTES`` of UTF-8, at a character's boundary, with an ellipsis."""
    encoded = message.encode()
    if len(encoded) <= MAX_MESSAGE_BYTES:
        return message
    return encoded[: MAX_MESSAGE_BYTES - len("…".encode())].decode(errors="ignore") + "…"
