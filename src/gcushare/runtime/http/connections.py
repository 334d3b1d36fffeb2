"""Limit how many connections a server has, and how long a client may take."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

from gcushare.core.log_fields import fields
from gcushare.runtime.http.answers import Cause, Rejection

logger = logging.getLogger(__name__)

SLOW_BODY_S = 1.0
"""A body that has not arrived by then is cut before anything else. One of kube-scheduler's takes milliseconds."""


class ConnectionTable:
    """The connections of one server; the idle ones in the order in which they became idle.

    If it is full, one makes room: the oldest request whose body has not arrived for ``SLOW_BODY_S``, or else, of the
    address with most connections, the oldest request whose body arrives, or the longest idle connection. So neither
    many clients that never finish nor one that opens many connections cut the scheduler's, which is idle between calls.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self.idle: dict[asyncio.Transport, None] = {}
        self.busy: set[asyncio.Transport] = set()
        """Connections with a request in progress."""
        self._arriving: dict[asyncio.Transport, tuple[float, Callable[[], None]]] = {}
        """Those of ``busy`` whose body arrives, since when, and what gives the request up; the oldest first."""
        self._open: dict[asyncio.Transport, str] = {}
        """All, with their clients' addresses."""
        self._none_busy = asyncio.Event()
        self._none_busy.set()
        self._none_open = asyncio.Event()
        self._none_open.set()
        self.is_stopping = False
        """Whether every connection ends after its answer."""

    def __len__(self) -> int:
        return len(self.idle) + len(self.busy)

    def admit(self, wire: asyncio.Transport) -> None:
        """Admit a new connection.

        Raises:
            Rejection: the table is full.
        """
        peer = wire.get_extra_info("peername")
        self._open[wire] = str(peer[0]) if peer else ""
        self._none_open.clear()
        if len(self) >= self._limit:
            self._make_room()
        self.idle[wire] = None

    def _make_room(self) -> None:
        oldest = next(iter(self._arriving), None)
        if oldest is None or self._clock() - self._arriving[oldest][0] < SLOW_BODY_S:
            counts = Counter(self._open.values())
            able = (*self._arriving, *self.idle)
            oldest = max(able, key=lambda wire: counts[self._open[wire]], default=None)
        if oldest is None:
            text = "too many connections, try again later"
            raise Rejection(503, Cause.CONNECTIONS, text, level=logging.WARNING, event="connection refused")
        logger.debug("connection cut off to make room %s", fields(limit=self._limit, address=self._open[oldest]))
        if oldest in self._arriving:
            self._arriving[oldest][1]()
        self.idle.pop(oldest, None)
        oldest.abort()

    def mark_busy(self, wire: asyncio.Transport, give_up: Callable[[], None] | None = None) -> None:
        """A request has begun; ``give_up`` ends it as long as its body arrives. Does nothing if the client is gone."""
        if wire in self.idle:
            del self.idle[wire]
            self.busy.add(wire)
            self._none_busy.clear()
            if give_up is not None:
                self._arriving[wire] = self._clock(), give_up

    def end_body(self, wire: asyncio.Transport) -> None:
        """The body of its request has arrived: from now on it is not cut to make room."""
        self._arriving.pop(wire, None)

    def mark_idle(self, wire: asyncio.Transport) -> None:
        """Its request was answered; it may be closed to make room."""
        if wire in self.busy:
            self._end_busy(wire)
            self.idle[wire] = None

    def forget(self, wire: asyncio.Transport) -> None:
        """The connection is gone."""
        self.idle.pop(wire, None)
        self._end_busy(wire)
        self._open.pop(wire, None)
        if not self._open:
            self._none_open.set()

    def _end_busy(self, wire: asyncio.Transport) -> None:
        self._arriving.pop(wire, None)
        self.busy.discard(wire)
        if not self.busy:
            self._none_busy.set()

    async def drain(self, drain_s: float) -> None:
        """Close the idle connections now, and the others after their answers, for which they have some seconds."""
        self.is_stopping = True
        for wire in self.idle:
            wire.close()
        try:
            async with asyncio.timeout(drain_s):
                await self._none_busy.wait()
        except TimeoutError:
            logger.warning("requests cancelled %s", fields(drain_s=drain_s, connections=len(self)))

    async def cut_all(self) -> None:
        """Abort every connection, and wait until the event loop has closed them."""
        for wire in tuple(self._open):
            wire.abort()
        await self._none_open.wait()


class ClientDeadline:
    """How long the client of a connection may take now."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def set(self, limit_s: float, late: Callable[[], None]) -> None:
        """Call ``late`` after some seconds, and what was set before no more."""
        self.clear()
        self._timer = asyncio.get_running_loop().call_later(limit_s, late)

    def clear(self) -> None:
        """The client is not waited for."""
        if self._timer is not None:
            self._timer.cancel()
