"""Limit a server's connections: how many there are, and how long a slow client may keep one.

The limits are applied in asyncio's protocol callbacks, below HTTP: only there a client that never finishes a request
can be noticed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast

from aiohttp import web

from gcushare.core.log_fields import fields
from gcushare.runtime.http.answers import Cause, RejectedCounts, Rejection, error_response, reject, write_response
from gcushare.runtime.http.scheduler_fast_path import FastPath, FastPathContext
from gcushare.runtime.settings.serving import ServeSettings

logger = logging.getLogger(__name__)

# How long a refused client may take to read its 503 before the connection is cut.
_REFUSAL_LINGER_S = 1.0


def names_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in a verified certificate, as `ssl.SSLObject.getpeercert` returns it: DNS names, then common names."""
    alternatives = tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS")
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    return alternatives + tuple(value for key, value in subject if key == "commonName")


class ConnectionTable:
    """The connections of one server; the idle ones in the order in which they became idle.

    ``client_name``: if not empty, only a client whose certificate has this name is served.
    """

    def __init__(self, settings: ServeSettings, rejected: RejectedCounts, client_name: str) -> None:
        self.slow_client_s = settings.request_timeout
        """Seconds for the head of a request, and for reading an answer."""
        self._limit = settings.max_connections
        self._client_name = client_name
        self._rejected = rejected
        self.idle: dict[GuardedConnection, None] = {}
        self.busy: set[GuardedConnection] = set()
        """Connections with a request in progress."""
        self._arriving: dict[GuardedConnection, None] = {}
        self._open: set[GuardedConnection] = set()
        self._none_busy = asyncio.Event()
        self._none_busy.set()
        self._none_open = asyncio.Event()
        self._none_open.set()

    def __len__(self) -> int:
        return len(self.idle) + len(self.busy)

    def admit(self, connection: GuardedConnection, wire: asyncio.Transport) -> web.Response | None:
        """Admit a new connection; returns the answer to one that is refused.

        If the table is full, the longest idle connection is closed, else the one whose body has been arriving longest:
        slow clients must not keep others out.
        """
        self._open.add(connection)
        self._none_open.clear()
        peer, accepted = wire.get_extra_info("peername"), self._client_name
        if len(self) >= self._limit and not self._make_room():
            text = "too many connections, try again later"
            rejection = Rejection(503, Cause.CONNECTIONS, text, level=logging.WARNING, event="connection refused")
            return reject(rejection, self._rejected, peer=peer, limit=self._limit)
        self.idle[connection] = None
        names = names_of(wire.get_extra_info("peercert") or {}) if accepted else ()
        if accepted and accepted not in names:
            text = f"this port is for {accepted!r} alone; your certificate names {', '.join(names) or 'no one'}"
            rejection = Rejection(403, Cause.CERTIFICATE, text, level=logging.WARNING, event="client refused")
            return reject(rejection, self._rejected, peer=peer, accepted=accepted)
        return None

    def _make_room(self) -> bool:
        if self.idle:
            longest = next(iter(self.idle))
            del self.idle[longest]
            logger.debug("idle connection closed to make room %s", fields(limit=self._limit))
            longest.force_close()
            return True
        if self._arriving:
            longest = next(iter(self._arriving))
            self._end_busy(longest)
            self._rejected[Cause.SLOW] += 1
            logger.info("slow body cut off to make room %s", fields(limit=self._limit))
            longest.abort()
            return True
        return False

    def mark_busy(self, connection: GuardedConnection) -> None:
        """A request has begun. Does nothing if the connection is gone."""
        if connection in self.idle:
            del self.idle[connection]
            self.busy.add(connection)
            self._none_busy.clear()

    def mark_arriving(self, connection: GuardedConnection) -> None:
        """The body of its request is being read."""
        if connection in self.busy:
            self._arriving[connection] = None

    def mark_arrived(self, connection: GuardedConnection) -> None:
        """The body is complete, or is no longer being read."""
        self._arriving.pop(connection, None)

    def mark_idle(self, connection: GuardedConnection) -> None:
        """Its request was answered; it may be closed to make room."""
        if connection in self.busy:
            self._end_busy(connection)
            self.idle[connection] = None

    def forget(self, connection: GuardedConnection) -> None:
        """The connection is gone."""
        self.idle.pop(connection, None)
        self._end_busy(connection)
        self._open.discard(connection)
        if not self._open:
            self._none_open.set()

    def _end_busy(self, connection: GuardedConnection) -> None:
        self.busy.discard(connection)
        self._arriving.pop(connection, None)
        if not self.busy:
            self._none_busy.set()

    async def wait_quiet(self) -> None:
        await self._none_busy.wait()

    async def cut_all(self) -> None:
        """Abort every connection, and wait until the event loop has closed them."""
        for connection in tuple(self._open):
            connection.abort()
        await self._none_open.wait()


class GuardedConnection(web.RequestHandler):
    """aiohttp's connection of one client, with deadlines for the head of a request and for reading answers.

    The deadline of a body is in `request_gate`. aiohttp's keep-alive closes silent connections.
    """

    __slots__ = ("_fast_path", "_head_timer", "_is_refused", "_stall_timer", "closes_after_answer", "table", "wire")

    def __init__(
        self, table: ConnectionTable, manager: web.Server, fast_paths: FastPathContext | None = None, **options: Any
    ) -> None:
        super().__init__(manager, **options)
        self.table = table
        self._fast_path = None if fast_paths is None else FastPath(fast_paths, self)
        self._is_refused = False
        self.closes_after_answer = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        # aiohttp's own attribute is cleared as soon as it closes the transport, even if output is still queued.
        self.wire: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client, or answer 503 or 403 and cut the connection a second later."""
        self.wire = cast(asyncio.Transport, transport)
        if (refusal := self.table.admit(self, self.wire)) is None:
            super().connection_made(transport)
            return
        self._is_refused = True
        self.wire.write(write_response(refusal, "Connection: close"))
        # Not closed at once: closing on unread input resets the connection, and the client would never see why.
        self._stall_timer = self._loop.call_later(_REFUSAL_LINGER_S, self.wire.abort)

    def data_received(self, data: bytes) -> None:
        """Offer the bytes to the fast path, then to aiohttp. The deadline of a head starts with its first byte."""
        if self._is_refused or (self._fast_path is not None and self._fast_path.take(data)):
            return
        if self._head_timer is None and self in self.table.idle:
            self._head_timer = self._loop.call_later(self.table.slow_client_s, self._cut, "head of a request")
        super().data_received(data)

    def begin_request(self) -> None:
        """The head of a request is complete and its handler begins."""
        self._stop_head_timer()
        self.table.mark_busy(self)

    def begin_fast_request(self) -> None:
        """A request begins that aiohttp does not handle. From now on the fast path checks for silence, not aiohttp."""
        self.keep_alive(True)
        self.table.mark_busy(self)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer. Only then the connection is idle, or closed if the server is stopping."""
        if self.closes_after_answer and not resp.prepared:
            resp.force_close()
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            # Not earlier: an idle connection may be closed to make room, but this one still had an answer to send.
            self.table.mark_idle(self)
            if self.closes_after_answer:
                self.close()

    def close(self) -> None:
        """Close now if idle, else after the answer to the request in progress.

        aiohttp's own method leaves an idle connection open until the drain is over, and stops reading the body of a
        request in progress, which then can never be answered.
        """
        if self in self.table.busy:
            self.closes_after_answer = True
        else:
            self.force_close()

    def abort(self) -> None:
        """Cut the connection; unsent output is lost."""
        if self.wire is not None:
            self.wire.abort()

    def pause_writing(self) -> None:
        """The client does not read its answer: start the deadline."""
        super().pause_writing()
        self._stall_timer = self._loop.call_later(self.table.slow_client_s, self._cut, "reading of an answer")

    def resume_writing(self) -> None:
        self._stop_stall_timer()
        super().resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timers and leave the table."""
        self._stop_head_timer()
        self._stop_stall_timer()
        if self._fast_path is not None:
            self._fast_path.close()
        self.table.forget(self)
        self.wire = None
        if not self._is_refused:
            super().connection_lost(exc)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer malformed HTTP in the JSON of every error, without a stack in the log or in the answer."""
        if status != 400 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        reason = next(iter((message or "").splitlines()), "")[:200]
        logger.info("malformed request %s", fields(peer=self._peer(), status=status, reason=reason))
        return error_response(status, f"malformed HTTP request: {reason}", close=True)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log what aiohttp could not handle, but without a stack if the client caused it: a malformed end of a body, or
        a connection closed, or half closed, in the middle of a request.
        """
        error = kw.get("exc_info")
        if isinstance(error, web.RequestPayloadError):
            logger.debug("malformed body dropped %s", fields(peer=self._peer()))
        elif isinstance(error, ConnectionError) and (self.wire is None or self.wire.is_closing()):
            logger.debug("client gone in the middle of a request %s", fields(reason=error))
        else:
            super().log_exception(*args, **kw)

    def _cut(self, what: str) -> None:
        limit_s = self.table.slow_client_s
        logger.info("slow client cut off %s", fields(peer=self._peer(), slow=what, limit_s=limit_s))
        self.abort()

    def _peer(self) -> object:
        return None if self.wire is None else self.wire.get_extra_info("peername")

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
