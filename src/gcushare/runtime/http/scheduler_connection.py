"""A connection of the scheduler's port: one request after the other, read from the socket and answered to it.

kube-scheduler makes three calls per pod, so a call costs little more than its handler here: no task and no response
object. The time that a client may take is limited here too: only there a client that never finishes a request can be
noticed.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qsl

from aiohttp import web

from gcushare.core.log_fields import fields
from gcushare.runtime.http import answers
from gcushare.runtime.http.answers import Cause, RejectedCounts, Rejection
from gcushare.runtime.http.connections import ClientDeadline, ConnectionTable
from gcushare.runtime.http.scheduler_requests import (
    Call,
    GetPath,
    Head,
    Verb,
    find_head_end,
    find_page,
    malformed,
    read_head,
)
from gcushare.runtime.http.shared_budgets import BodyBudget, TurnBudget
from gcushare.runtime.settings.serving import ServeSettings

logger = logging.getLogger(__name__)

# How long a client may take to read its last answer. Closing on unread input resets the connection, and the client
# would never see why.
_LINGER_S = 1.0
_JSON = "Content-Type: application/json"


@dataclass(slots=True)
class Site:
    """What the connections of one server share."""

    verbs: Mapping[str, Verb]
    pages: Sequence[GetPath]
    settings: ServeSettings
    client_name: str
    """If not empty, only a client whose certificate has this name is served."""
    table: ConnectionTable
    budget: BodyBudget
    rejected: RejectedCounts
    turns: TurnBudget = field(default_factory=TurnBudget)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Answers in progress."""

    async def end(self, drain_s: float) -> None:
        """Let requests end in time, then cancel them."""
        await self.table.drain(drain_s)
        self.turns.clear()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@dataclass(slots=True, eq=False)
class _Request:
    """A request in progress: how many bytes of its body are missing, and those that came."""

    head: Head
    verb: Verb | None
    give_up: Callable[[], None]
    missing: int
    started: float
    held: int = 0
    body: bytes | bytearray = b""
    """The first piece as it came, then one array: a list of tiny pieces would take many times their bytes."""
    task: asyncio.Task[None] | None = None
    is_streaming: bool = False


class _Reading(enum.Enum):
    """What the connection does with what comes."""

    HEAD = "it is of a request's head"
    BODY = "it is of a request's body"
    ANSWER = "it is dropped, and the connection ends after the answer that is under way"
    LAST_ANSWER_WRITTEN = "it is dropped: the client has a moment to read the last answer"


class SchedulerConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._wire: asyncio.Transport
        self._peer: object = None
        self._request: _Request | None = None
        self._head = b""
        """The beginning of a head."""
        self._reading = _Reading.HEAD
        self._closes = False
        """Whether the client said, or sent, something after which the connection ends."""
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._deadline = ClientDeadline()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)
        self._peer = transport.get_extra_info("peername")
        try:
            self._site.table.admit(self._wire)
            accepted, names = self._site.client_name, names_of(self._wire.get_extra_info("peercert") or {})
            if accepted and accepted not in names:
                text = f"this port is for {accepted!r} alone; your certificate names {', '.join(names) or 'no one'}"
                raise Rejection(403, Cause.CERTIFICATE, text, level=logging.WARNING, event="client refused")
        except Rejection as rejection:
            self._turn_away(answers.reject(rejection, self._site.rejected, peer=self._peer))
        else:
            self._deadline.set(self._site.settings.idle_timeout, self._wire.close)

    def data_received(self, data: bytes) -> None:
        match self._reading:
            case _Reading.HEAD:
                self._begin(self._head + data)
            case _Reading.BODY:
                assert self._request is not None
                self._take_body(self._request, data)
            case _Reading.ANSWER:
                self._closes = True

    def connection_lost(self, exc: BaseException | None) -> None:
        self._site.table.forget(self._wire)
        self._deadline.clear()
        request, self._request = self._request, None
        if request is not None and request.missing:
            self._site.budget.release(request)
        elif request is not None and request.verb is None and request.task is not None:
            request.task.cancel()  # A call of the scheduler goes on: a bind has begun.

    def pause_writing(self) -> None:
        self._can_write.clear()
        if self._reading is not _Reading.LAST_ANSWER_WRITTEN:
            self._wire.pause_reading()
            self._deadline.set(
                self._site.settings.request_timeout, functools.partial(self._cut, "reading of an answer")
            )

    def resume_writing(self) -> None:
        self._can_write.set()
        if self._reading is not _Reading.LAST_ANSWER_WRITTEN and not self._wire.is_closing():
            self._wire.resume_reading()
            self._deadline.clear()
            if self._reading is _Reading.HEAD:
                self._deadline.set(self._site.settings.idle_timeout, self._wire.close)

    def _cut(self, what: str) -> None:
        limit_s = self._site.settings.request_timeout
        logger.info("slow client cut off %s", fields(peer=self._peer, slow=what, limit_s=limit_s))
        self._wire.abort()

    def _begin(self, data: bytes) -> None:
        """Read the head of a request. From its first byte on, the client has some seconds to send it."""
        head: Head | None = None
        try:
            end = find_head_end(data)
            if end < 0:
                if not self._head:
                    limit_s = self._site.settings.request_timeout
                    self._deadline.set(limit_s, functools.partial(self._cut, "head of a request"))
                self._head = data
                return
            self._head = b""
            self._deadline.clear()
            head = read_head(data[:end])
            verb = self._site.verbs.get(head.path) if head.method == "POST" else None
            if verb is None:
                self._begin_page(head, data[end + 4 :])
            else:
                self._begin_call(head, verb, data[end + 4 :])
        except Rejection as rejection:
            self._turn_away(answers.reject(rejection, self._site.rejected, **self._facts(head)))
        except web.HTTPException as error:
            self._turn_away(answers.respond_to_http(error, "" if head is None else head.path))

    def _begin_call(self, head: Head, verb: Verb, rest: bytes) -> None:
        largest = self._site.settings.max_request_size
        if verb.largest is not None:
            largest = min(largest, verb.largest())
        if head.length > largest:
            raise Rejection(
                413, Cause.SIZE, f"the request's body has {head.length} bytes; accepted: at most {largest} bytes"
            )
        request = self._open(head, verb)
        self._site.budget.begin(request)
        self._take_body(request, rest)
        if self._reading is _Reading.BODY:
            limit_s = self._site.settings.request_timeout
            late = Rejection(408, Cause.SLOW, f"the request's body did not arrive within {limit_s:g}s")
            self._deadline.set(limit_s, functools.partial(self._give_up, request, late))

    def _begin_page(self, head: Head, rest: bytes) -> None:
        site = self._site
        found = find_page(site.pages, head.path)
        if found is None or head.method != "GET":
            allowed = [*(() if found is None else ("GET",)), *(("POST",) if head.path in site.verbs else ())]
            raise web.HTTPMethodNotAllowed(head.method, allowed) if allowed else web.HTTPNotFound()
        if head.length:
            raise malformed("a GET with a body; accepted: a body with POST only")
        request = self._open(head, None)
        self._closes = self._closes or bool(rest)
        self._start(request, self._answer_page(request, *found))

    def _open(self, head: Head, verb: Verb | None) -> _Request:
        def cut() -> None:
            text = "the request's body came slower than others that needed its place, try again later"
            self._give_up(request, Rejection(503, Cause.MEMORY, text))

        self._request = request = _Request(head, verb, cut, head.length, time.perf_counter())
        self._reading = _Reading.ANSWER if verb is None else _Reading.BODY
        self._closes = self._closes or head.closes
        self._site.table.mark_busy(self._wire, cut if verb is not None else None)
        return request

    def _take_body(self, request: _Request, data: bytes) -> None:
        piece = data[: request.missing]
        if not self._site.budget.take(request, len(piece)):
            text = "too many large requests at once, try again later"
            self._give_up(request, Rejection(503, Cause.MEMORY, text))
            return
        if not request.body:
            request.body = piece
        else:
            if isinstance(request.body, bytes):
                request.body = bytearray(request.body)
            request.body += piece
        request.missing -= len(piece)
        self._closes = self._closes or len(data) > len(piece)
        if not request.missing:
            self._reading = _Reading.ANSWER
            self._deadline.clear()
            self._site.table.end_body(self._wire)
            self._site.budget.complete(request)
            self._site.turns.run(functools.partial(self._answer_call, request), len(request.body))

    def _give_up(self, request: _Request, rejection: Rejection) -> None:
        """End a request whose body does not come, or is not kept."""
        self._site.budget.release(request)
        self._request = None
        self._turn_away(answers.reject(rejection, self._site.rejected, **self._facts(request.head)))

    def _turn_away(self, response: web.Response) -> None:
        """Send a last answer."""
        self._write(answers.write_response(response, closes=True))
        self._end_connection()

    def _end_connection(self) -> None:
        """The last answer is written: the client has a moment to read it."""
        self._reading = _Reading.LAST_ANSWER_WRITTEN
        self._site.table.mark_idle(self._wire)
        if not self._wire.is_closing():
            self._deadline.set(_LINGER_S, self._wire.abort)
            if self._wire.can_write_eof():
                self._wire.write_eof()
            else:
                self._wire.close()

    def _answer_call(self, request: _Request) -> None:
        assert request.verb is not None, "only calls have bodies"
        body, request.body = bytes(request.body), b""
        try:
            answer = request.verb.answer(body)
        except Exception as error:  # the root of a request: nothing that a handler raises may end the server
            self._finish(request, answers.respond_to_failure(error, **self._facts(request.head)))
            return
        if isinstance(answer, bytes):
            self._finish(request, answer)
            return

        async def answer_later() -> None:
            later: bytes | web.Response
            try:
                later = await answer
            except Exception as error:  # as above
                later = answers.respond_to_failure(error, **self._facts(request.head))
            self._finish(request, later)

        self._start(request, answer_later())

    def _start(self, request: _Request, answering: Coroutine[None, None, None]) -> None:
        request.task = asyncio.create_task(answering, name=f"answer {request.head.path}")
        self._site.tasks.add(request.task)
        request.task.add_done_callback(self._site.tasks.discard)

    async def _answer_page(self, request: _Request, page: GetPath, names: Sequence[str]) -> None:
        try:
            head, has_certificate = request.head, bool(self._wire.get_extra_info("peercert"))
            query = dict(parse_qsl(head.query, keep_blank_values=True))
            answer = await page.answer(Call(names, query, head.headers, has_certificate))
            if not isinstance(answer, web.Response):
                await self._stream(request, answer)
                return
        except Exception as error:  # the root of a request
            answer = answers.respond_to_failure(error, **self._facts(request.head))
            if request.is_streaming:
                # An answer that has begun cannot become an error: its reader notices only that it is cut.
                self._wire.abort()
                return
        self._finish(request, answer)

    async def _stream(self, request: _Request, pieces: AsyncGenerator[bytes, None]) -> None:
        """Send pieces of JSON as they come, no faster than the client reads."""
        async with aclosing(pieces):
            self._write(answers.write_head("200 OK", _JSON, "Transfer-Encoding: chunked", closes=self._must_close()))
            request.is_streaming = True
            async for piece in pieces:
                if piece:
                    self._write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    await self._can_write.wait()
            self._write(b"0\r\n\r\n")
        self._end(request, 200)

    def _finish(self, request: _Request, answer: bytes | web.Response) -> None:
        if isinstance(answer, bytes):
            head = answers.write_head("200 OK", _JSON, f"Content-Length: {len(answer)}", closes=self._must_close())
            self._write(head + answer)
        else:
            self._write(answers.write_response(answer, closes=self._must_close()))
        self._end(request, 200 if isinstance(answer, bytes) else answer.status)

    def _write(self, data: bytes) -> None:
        if not self._wire.is_closing():
            self._wire.write(data)

    def _end(self, request: _Request, status: int) -> None:
        """The answer is written: close the connection, or be ready for the next request."""
        self._site.budget.release(request)
        if self._wire.is_closing():
            return
        self._request, self._reading = None, _Reading.HEAD
        answers.log_answered(request.started, **self._facts(request.head), status=status)
        if self._must_close():
            self._end_connection()
            return
        self._site.table.mark_idle(self._wire)
        if self._can_write.is_set():
            self._deadline.set(self._site.settings.idle_timeout, self._wire.close)

    def _must_close(self) -> bool:
        """Whether the connection ends after this answer."""
        return self._closes or self._site.table.is_stopping

    def _facts(self, head: Head | None) -> dict[str, object]:
        return {"peer": self._peer} | ({} if head is None else {"method": head.method, "path": head.path})


def names_of(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in a verified certificate, as `ssl.SSLObject.getpeercert` returns it: DNS names, then common names."""
    alternatives = tuple(name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS")
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    return alternatives + tuple(value for key, value in subject if key == "commonName")
