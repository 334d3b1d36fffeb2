"""Limit how many connections a server has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gcushare.core.log_fields import fields
from gcushare.runtime.http.answers import Cause, Rejection

logger = logging.getLogger(__name__)


class ConnectionTable:
    """The connections of one server; the idle ones in the order in which they became idle.

    If it is full, the longest idle one makes room. If none is idle, ``make_idle`` may end a request of a slow client.
    """

    def __init__(self, limit: int, make_idle: Callable[[], object] = lambda: None) -> None:
        self._limit = limit
        self._make_idle = make_idle
        self.idle: dict[asyncio.Transport, None] = {}
        self.busy: set[asyncio.Transport] = set()
        """Connections with a request in progress."""
        self._open: set[asyncio.Transport] = set()
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
        self._open.add(wire)
        self._none_open.clear()
        if len(self) >= self._limit:
            if not self.idle:
                self._make_idle()
            if not self.idle:
                text = "too many connections, try again later"
                raise Rejection(503, Cause.CONNECTIONS, text, level=logging.WARNING, event="connection refused")
            longest = next(iter(self.idle))
            del self.idle[longest]
            logger.debug("idle connection cut off to make room %s", fields(limit=self._limit))
            longest.abort()
        self.idle[wire] = None

    def mark_busy(self, wire: asyncio.Transport) -> None:
        """A request has begun. Does nothing if the connection is gone."""
        if wire in self.idle:
            del self.idle[wire]
            self.busy.add(wire)
            self._none_busy.clear()

    def mark_idle(self, wire: asyncio.Transport) -> None:
        """Its request was answered; it may be closed to make room."""
        if wire in self.busy:
            self._end_busy(wire)
            self.idle[wire] = None

    def forget(self, wire: asyncio.Transport) -> None:
        """The connection is gone."""
        self.idle.pop(wire, None)
        self._end_busy(wire)
        self._open.discard(wire)
        if not self._open:
            self._none_open.set()

    def _end_busy(self, wire: asyncio.Transport) -> None:
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
