"""Keeps a handler's view of a collection current: lists, watches, resumes a broken stream, lists again if needed.

Guarantees to the handler, whatever happens to the connection:

- Every existing object is eventually ``applied`` with its newest state. An object may be applied again unchanged, so
  the handler must replace the object with the same uid.
- A deleted object is ``deleted``, or missing from the uids of a later ``retained``.
- ``retained`` follows each list: all other objects of the handler were gone at the list's version. Until then, objects
  that were deleted while the watch was down are still present, so a handler that counts room may report too little
  of it for a moment, never too much.
- An older state of an object never follows a newer one. A handler that also gets objects from other sources (a read,
  the answer to a write) must compare with these itself, as ``collections.ObjectCache`` does.

The reflector stores no objects and, outside a list, no names. The handler decides what to keep, through ``decode``.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import GcushareError, NotFoundError, RemoteContractError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.collections import WatchHandler
from gcushare.kube.connection.watch_lines import RawWatchEvent
from gcushare.kube.errors import GoneError, UnansweredError
from gcushare.kube.resources import EVERYTHING, Resource, Selector, is_at_least
from gcushare.wire.objects import HEAD, ObjectMeta

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SLICE = 64
"""Objects handled before other tasks run: about a millisecond, which is less than a filter request may wait."""

_FAILURES_BEFORE_RELIST = 8
"""After every this many failures in a row, everything is listed: a restored etcd never serves a list from a version
that it does not have yet."""

_MOMENT_S = 0.2
"""How long ``catch_up`` waits for the watch to reach a version by itself, as it does if there are many events."""

_ASKING_S = 3.0
"""Duration of a stream that is opened to get the collection's version: a server sends a bookmark two seconds before it
ends a stream. Source: k8s.io/apiserver, ``cacheWatcher.nextBookmarkTime``."""

_MAX_PATIENCE_S = 2.0
"""How long ``catch_up`` waits for that bookmark before it lists everything."""

_HEALTHY_S = 1.0
"""A stream that lasted this long or carried an event was healthy. Others count as failures and are retried slowly."""


@dataclass(frozen=True, slots=True)
class ReflectorSettings:
    """How a reflector lists and watches."""

    from_cache: bool = False
    """False lists the newest state, including the latest writes of other programs. Use it if decisions depend on the
    list. True lets the server answer from its cache, but never older than the state seen before. Use it for thousands
    of nodes that each list their own pods, and which the watch then updates."""
    page_size: int = 250
    """Objects per page. A page is in memory as JSON and decoded at once."""
    watch_s: float = 300.0
    """Duration of a stream, varied at random by a quarter, so that streams do not all end at the same time."""
    stall_s: float = 75.0
    """Silence after which a stream counts as dead. Servers send a bookmark about every minute."""
    ask_above_s: float = 1.5
    """If the last list took longer than this, ``catch_up`` first requests a bookmark instead of a new list."""
    backoff: BackoffPolicy = field(default_factory=BackoffPolicy)


@dataclass(slots=True, eq=False)
class _CatchUp:
    """What a ``catch_up`` waits for: a version, or a list that began after ``lists_begun`` others."""

    version: str
    lists_begun: int
    reached: asyncio.Event = field(default_factory=asyncio.Event)


class Reflector(Generic[T]):
    """Follows one collection for one handler. ``run`` it in its own task.

    ``decode`` converts an object's JSON to what the handler stores. If it raises ``GcushareError``, the object is left
    out, logged and counted.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[Any],
        handler: WatchHandler[T],
        *,
        decode: Callable[[msgspec.Raw], T],
        selector: Selector = EVERYTHING,
        settings: ReflectorSettings | None = None,
        clock: Clock,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._handler = handler
        self._decode = decode
        self._selector = selector
        self._settings = settings or ReflectorSettings()
        self._clock = clock
        self._rng = rng or random.Random()
        self._backoff = Backoff(self._settings.backoff, self._rng)
        self.version = ""
        """The last seen version; empty before the first list."""
        self._must_list = True
        self._page_size: int | None = self._settings.page_size
        self._alive_at: float | None = None
        self._goals: list[_CatchUp] = []
        self._lists_begun = 0
        self._list_took_s = 0.0
        self._turn: asyncio.Timeout | None = None
        self._asks = False
        self._is_open = False
        """Whether the server has begun to answer this turn's watch."""
        self.synced = asyncio.Event()
        """Set after the first complete list; stays set."""
        self.answered = asyncio.Event()
        """Set after the first complete list, or once the server has said that it has no such resource; stays set."""
        self.counters: Counter[str] = Counter()
        """Since the start, for metrics: completed lists, watches (streams opened), failures of either, gone (versions
        that the server no longer had), events, bookmarks, and undecodable objects, whose previous state stays."""

    @property
    def age_s(self) -> float | None:
        """Seconds since the last answer of the server that confirmed the view; None before the first one."""
        return None if self._alive_at is None else self._clock.monotonic() - self._alive_at

    async def run(self) -> None:
        """Follow the collection until cancelled. Errors of the server are logged, counted and retried after a wait.

        Exceptions of the handler are raised.
        """
        while True:
            try:
                async with asyncio.timeout(None) as self._turn:
                    await self._do_turn()
            except TimeoutError:
                if self._turn is None or not self._turn.expired():
                    raise
                phrase = "listing again" if self._must_list else "watching again"
                logger.info("%s %s", phrase, fields(resource=self._resource.plural, version=self.version))

    async def catch_up(self) -> None:
        """Return once the handler has the state that the server had at the time of this call. ``run`` must be running.

        Raises:
            GcushareError: the request for the server's version failed.
        """
        lists_begun = self._lists_begun
        version = await self._client.newest_version(self._resource, self._selector)
        goal = _CatchUp(version, lists_begun)
        self._goals.append(goal)
        try:
            self._check_goals()
            for patience_s in self._hurry():
                with suppress(TimeoutError):
                    async with asyncio.timeout(patience_s):
                        await goal.reached.wait()
                    return
        finally:
            self._goals.remove(goal)

    def _hurry(self) -> Iterator[float | None]:
        """Bring the newest state, each time at a higher price; yields how long to wait for it.

        Versions count the writes of the whole cluster, so a watch of a quiet collection may not reach the server's
        version before the next bookmark, up to a minute later, and a half-open stream never does.
        """
        yield min(self._list_took_s, _MOMENT_S)
        if self._list_took_s > self._settings.ask_above_s and not self._must_list:
            # A new stream has a bookmark after a second, and the events that the old one missed.
            self._asks = True
            self._end_turn()
            yield _MAX_PATIENCE_S
        # At once, even if the reflector is waiting before a retry.
        self._must_list = True
        self._end_turn()
        yield None

    def _end_turn(self) -> None:
        """Interrupt the reflector, so that it begins a new turn at once. Does nothing if it was just interrupted."""
        if self._turn is not None and not self._turn.expired():
            self._turn.reschedule(asyncio.get_running_loop().time())

    async def _do_turn(self) -> None:
        """List if necessary, then watch; after a failure wait."""
        self._is_open = False
        try:
            if self._must_list:
                await self._list()
            healthy = await self._follow()
            failure: GcushareError | None = None
        except GcushareError as error:
            healthy, failure = False, error
            self._on_failure(error)
        if healthy:
            self._backoff.reset()
            return
        delay_s = self._backoff.next_delay_s(failure)
        if failure is not None:
            resource, retry_in_s = self._resource.plural, round(delay_s, 2)
            facts = fields(resource=resource, retry_in_s=retry_in_s, relist=self._must_list, error=failure)
            logger.warning("watch broke %s", facts)
        await self._clock.sleep(delay_s)

    def _on_failure(self, error: GcushareError) -> None:
        self.counters["failures"] += 1
        if isinstance(error, NotFoundError):
            self.answered.set()
        if isinstance(error, GoneError):
            self.counters["gone"] += 1
            if not self._must_list:
                self.version = ""
        # If pages took longer than the server keeps a version: request everything at once, the next time only.
        is_late = isinstance(error, GoneError) and self._must_list and self._page_size is not None
        self._page_size = None if is_late else self._settings.page_size
        failures = self._backoff.failures
        if self._must_list and failures >= _FAILURES_BEFORE_RELIST:
            # Not even a list reaches the version any more, so accept the server's present state.
            self.version = ""
        if not isinstance(error, RetryableError) or (failures and failures % _FAILURES_BEFORE_RELIST == 0):
            self._must_list = True
        if isinstance(error, UnansweredError) and not self._is_open:
            # A server that was away may come back with a store that was restored from a backup. Measured with
            # Kubernetes 1.36: it serves a watch from a version of its future without an error, silently until that
            # version comes, and then without what was changed before.
            self._must_list = True

    async def _list(self) -> None:
        self._lists_begun += 1
        number_of_list, started = self._lists_begun, self._clock.monotonic()
        uids: set[str] = set()
        version = ""
        # The version that the list must reach, so that the handler's view never goes back in time. None: the newest,
        # because ``catch_up`` needs the newest state, which a lagging cache does not have.
        oldest_accepted = None
        if self._settings.from_cache and self._page_size is not None and not self._goals:
            oldest_accepted = (self.version or None) if self.synced.is_set() else "0"
        # With a page size, a server interprets any version but "0" as the exact one and bypasses its cache.
        page_size = self._page_size if oldest_accepted in (None, "0") else None
        pages = self._client.pages(self._resource, self._selector, page_size=page_size, not_older_than=oldest_accepted)
        async with aclosing(pages):
            async for page in pages:
                for number, raw in enumerate(page.entries, start=1):
                    uids.add(self._apply(raw, self._head(raw)))
                    if number % _SLICE == 0:
                        await asyncio.sleep(0)
                version = page.metadata.resource_version
                self._prove_alive()
        self._handler.retained(frozenset(uids), version)
        self.version, self._must_list, self._page_size = version, False, self._settings.page_size
        self.counters["lists"] += 1
        self._list_took_s = self._clock.monotonic() - started
        self.synced.set()
        self.answered.set()
        self._check_goals(newest_list=number_of_list if oldest_accepted is None else 0)
        logger.info("listed %s", fields(resource=self._resource.plural, objects=len(uids), version=version))

    async def _follow(self) -> bool:
        """Watch from the last seen version until the server ends the stream; returns whether the stream was healthy."""
        settings = self._settings
        handled = 0
        timeout_s = _ASKING_S if self._asks else settings.watch_s * self._rng.uniform(0.75, 1.25)
        self._asks = False
        async with self._client.watch(
            self._resource, self._selector, resource_version=self.version, timeout_s=timeout_s, stall_s=settings.stall_s
        ) as events:
            self.counters["watches"] += 1
            self._is_open = True
            opened = self._clock.monotonic()
            self._prove_alive()
            async for event in events:
                self._prove_alive()
                self._handle(event)
                # Only an event of a stream ends a series of failures: lists may work although no watch does. A stream
                # that breaks without an event does not end it, even after a long silence.
                self._backoff.reset()
                handled += 1
                if handled % _SLICE == 0:
                    await asyncio.sleep(0)
        return handled > 0 or self._clock.monotonic() - opened >= _HEALTHY_S

    def _handle(self, event: RawWatchEvent) -> None:
        meta = self._head(event.object)
        match event.type:
            case "BOOKMARK":
                self.counters["bookmarks"] += 1
            case "ADDED" | "MODIFIED":
                self.counters["events"] += 1
                self._apply(event.object, meta)
            case "DELETED":
                self.counters["events"] += 1
                obj = self._decoded(event.object, meta)
                if obj is None:
                    # If it were left out, the handler would keep it forever. A new list removes it.
                    raise RemoteContractError(f"the last state of {self._resource.plural} {meta.name!r} cannot be read")
                self._handler.deleted(obj)
            case _:
                raise RemoteContractError(
                    f"watch of {self._resource.plural} sent event type {event.type!r}, "
                    "expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR"
                )
        self.version = meta.resource_version
        if self._goals:
            self._check_goals()

    def _check_goals(self, *, newest_list: int = 0) -> None:
        """Wake the callers of ``catch_up`` with a reached goal. ``newest_list`` numbers a list of the newest state."""
        for goal in self._goals:
            if newest_list > goal.lists_begun or is_at_least(self.version, goal.version):
                goal.reached.set()

    def _apply(self, raw: msgspec.Raw, meta: ObjectMeta) -> str:
        obj = self._decoded(raw, meta)
        if obj is not None:
            self._handler.applied(obj)
        return meta.uid

    def _decoded(self, raw: msgspec.Raw, meta: ObjectMeta) -> T | None:
        try:
            return self._decode(raw)
        except GcushareError as error:
            self.counters["undecodable"] += 1
            name = f"{meta.namespace}/{meta.name}"
            facts = fields(resource=self._resource.plural, name=name, uid=meta.uid, error=error)
            logger.warning("left out an object %s", facts)
            return None

    def _head(self, raw: msgspec.Raw) -> ObjectMeta:
        try:
            meta = HEAD.read(raw).metadata
        except RemoteContractError as error:
            text = f"an object of {self._resource.plural} has no readable metadata: {error}"
            raise RemoteContractError(text) from error
        if not meta.resource_version:
            text = f"an object of {self._resource.plural} named {meta.name!r} has no resourceVersion"
            raise RemoteContractError(text)
        return meta

    def _prove_alive(self) -> None:
        self._alive_at = self._clock.monotonic()
