"""The fast path: plain POSTs of kube-scheduler, answered without aiohttp's request and response.

kube-scheduler makes three calls per pod. In aiohttp each costs two tasks, mappings of headers, a chain of middlewares
and a response object, four times as much as the answer itself. So here the body is read from the socket and the answer
is written to it.

Only plain requests are taken: a known path, HTTP/1.1, a head in one piece, a few harmless headers, one Content-Length
within the limit. aiohttp gets any other request from its first byte, and all that follows on that connection. So no
bytes are parsed twice in different ways.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING, TypeAlias

from aiohttp import web

from gcushare.runtime.http import answers
from gcushare.runtime.http.answers import RejectedCounts, Rejection
from gcushare.runtime.http.request_budgets import BodyBudget, BodyShare, TurnBudget

if TYPE_CHECKING:
    from gcushare.runtime.http.connections import GuardedConnection

FastPathHandler: TypeAlias = Callable[[bytes], bytes | Awaitable[bytes]]
"""Takes a body and returns the JSON of a 200. Its exceptions are answered like those of any handler."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A path of the fast path. ``largest``: the bytes that its body may have, asked at each request."""

    path: str
    answer: FastPathHandler
    largest: Callable[[], int] | None = None
    """None for the server's own limit, which holds in any case."""


VERBS: web.AppKey[Sequence[Verb]] = web.AppKey("VERBS", Sequence)
"""An application's verbs; added by `server.add_verbs`."""

_PLAIN_HEADERS = frozenset((b"host", b"user-agent", b"content-length", b"content-type", b"accept", b"accept-encoding"))
_LONGEST_HEAD = 4096
_LONGEST_NUMBER = 10
_PRINTABLE = bytes(range(0x20, 0x7F))


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a plain request: its path, and where its body begins in the bytes read and how long it is."""

    path: str
    start: int
    length: int


def read_head(data: bytes) -> Head | None:
    """Read the head of a POST that every parser reads alike; None for any other."""
    end = data.find(b"\r\n\r\n", 0, _LONGEST_HEAD)
    if end < 0 or not data.startswith(b"POST /"):
        return None
    head = data[:end]
    first, *lines = head.split(b"\r\n")
    parts = first.split(b" ")
    if len(parts) != 3 or parts[2] != b"HTTP/1.1" or len(head.translate(None, _PRINTABLE)) != 2 * len(lines):
        return None
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name in headers or name not in _PLAIN_HEADERS:
            return None
        headers[name] = value.strip(b" ")
    number = headers.get(b"content-length", b"")
    if b"host" not in headers or not number.isdigit() or len(number) > _LONGEST_NUMBER:
        return None
    return Head(parts[1].decode(), end + 4, int(number))


@dataclass(slots=True)
class FastPathContext:
    """What the fast paths of one server share."""

    verbs: Mapping[str, Verb]
    budget: BodyBudget
    body_timeout_s: float
    needs_certificate: bool
    rejected: RejectedCounts
    turns: TurnBudget
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Answers in progress."""

    async def end(self) -> None:
        """Cancel the answers in progress: their connections are closed."""
        self.turns.clear()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@dataclass(slots=True)
class _Arriving:
    """A request in progress: the part of its body that arrived, and how many bytes are missing."""

    path: str
    missing: int
    started: float
    body: bytes | bytearray
    """The first piece as it came, then one array: a list of tiny pieces would take many times their bytes."""
    share: BodyShare


class FastPath:
    """One connection's requests on the fast path, one after the other."""

    __slots__ = ("_arriving", "_connection", "_context", "_deadline", "_held", "_idle_since", "_idle_timer", "_is_open")

    def __init__(self, context: FastPathContext, connection: GuardedConnection) -> None:
        self._context = context
        self._connection = connection
        self._is_open = True
        self._arriving: _Arriving | None = None
        self._held = b""
        self._deadline: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0

    def take(self, data: bytes) -> bool:
        """Handle received bytes. False leaves these, and all that follow, to aiohttp."""
        if not self._is_open:
            return False
        arriving = self._arriving
        if arriving is None:
            return self._begin(data)
        missing = arriving.missing
        if not missing:
            self._hold(data)
            return True
        piece = data[:missing]
        if not arriving.share.grow(len(piece)):
            self._reject(arriving, answers.no_memory())
            return True
        if isinstance(arriving.body, bytes):
            arriving.body = bytearray(arriving.body)
        arriving.body += piece
        arriving.missing -= len(piece)
        if len(data) > missing:
            self._hold(data[missing:])
        if not arriving.missing:
            self._connection.table.mark_arrived(self._connection)
            self._answer_in_turn(arriving)
        return True

    def close(self) -> None:
        """Stop every timer; the connection is gone or aiohttp's."""
        self._is_open = False
        for timer in (self._deadline, self._idle_timer):
            if timer is not None:
                timer.cancel()
        if self._arriving is not None and self._arriving.missing:
            self._arriving.share.close()
            self._arriving = None

    def _begin(self, data: bytes) -> bool:
        # A client that does not read its answers gets no more here: aiohttp waits for it.
        head = None if self._connection.writing_paused else read_head(data)
        context, wire = self._context, self._connection.wire
        if (
            head is None
            or head.path not in context.verbs
            or wire is None
            or (context.needs_certificate and not wire.get_extra_info("peercert"))
            or head.length > context.budget.largest_of(head.path)
        ):
            self.close()
            return False
        body = data[head.start : head.start + head.length]

        def give_up() -> None:
            if self._arriving is not None:
                self._reject(self._arriving, answers.body_cut())

        share = context.budget.open(give_up)
        if not share.grow(len(body)):
            share.close()
            self.close()
            return False
        self._connection.begin_fast_request()
        arriving = _Arriving(head.path, head.length - len(body), time.perf_counter(), body, share)
        self._arriving = arriving
        if len(data) > head.start + head.length:
            self._hold(data[head.start + head.length :])
        if not arriving.missing:
            self._answer_in_turn(arriving)
        else:
            self._connection.table.mark_arriving(self._connection)
            limit_s, loop = self._context.body_timeout_s, asyncio.get_running_loop()
            self._deadline = loop.call_later(limit_s, self._reject, arriving, answers.body_too_slow(limit_s))
        return True

    def _hold(self, data: bytes) -> None:
        """Hold bytes of a next request, and stop reading: answers must go out in the order of their requests."""
        self._held += data
        if self._connection.wire is not None:
            self._connection.wire.pause_reading()

    def _reject(self, arriving: _Arriving, rejection: Rejection) -> None:
        self._stop_deadline()
        self._finish(arriving, answers.reject(rejection, self._context.rejected, **self._facts(arriving)))

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _answer_in_turn(self, arriving: _Arriving) -> None:
        self._stop_deadline()
        arriving.share.complete()
        self._context.turns.run(functools.partial(self._answer, arriving), len(arriving.body))

    def _answer(self, arriving: _Arriving) -> None:
        body, arriving.body = bytes(arriving.body), b""
        try:
            answer = self._context.verbs[arriving.path].answer(body)
        except Exception as error:  # the root of a request: nothing that a handler raises may end the server
            self._finish(arriving, answers.respond_to_failure(error, **self._facts(arriving)))
            return
        if isinstance(answer, bytes):
            self._finish(arriving, answer)
            return
        task = asyncio.create_task(self._answer_later(arriving, answer), name=f"answer {arriving.path}")
        self._context.tasks.add(task)
        task.add_done_callback(self._context.tasks.discard)

    async def _answer_later(self, arriving: _Arriving, coming: Awaitable[bytes]) -> None:
        answer: bytes | web.Response
        try:
            answer = await coming
        except Exception as error:  # as above
            answer = answers.respond_to_failure(error, **self._facts(arriving))
        self._finish(arriving, answer)

    def _finish(self, arriving: _Arriving, answer: bytes | web.Response) -> None:
        arriving.share.close()
        self._arriving = None
        connection, wire = self._connection, self._connection.wire
        if wire is None or wire.is_closing():
            return
        closes = connection.closes_after_answer or (isinstance(answer, web.Response) and answer.keep_alive is False)
        wire.write(_write_answer(answer, closes=closes))
        status = 200 if isinstance(answer, bytes) else answer.status
        answers.log_answered(arriving.started, **self._facts(arriving), status=status)
        connection.table.mark_idle(connection)
        if closes:
            connection.force_close()
        elif self._held:
            # A client that does not wait for answers is left to aiohttp, which limits how much it may send ahead.
            held, self._held = self._held, b""
            self.close()
            wire.resume_reading()
            connection.data_received(held)
        else:
            # One timer serves many requests and is set again when it fires.
            loop = asyncio.get_running_loop()
            self._idle_since = loop.time()
            if self._idle_timer is None:
                self._idle_timer = loop.call_later(connection.keepalive_timeout, self._check_idle)

    def _check_idle(self) -> None:
        self._idle_timer = None
        if self._arriving is not None:
            return  # The end of this request sets the timer again.
        loop = asyncio.get_running_loop()
        left_s = self._idle_since + self._connection.keepalive_timeout - loop.time()
        if left_s <= 0:
            self._connection.force_close()
        else:
            self._idle_timer = loop.call_later(left_s, self._check_idle)

    def _facts(self, arriving: _Arriving) -> dict[str, object]:
        wire = self._connection.wire
        peer = None if wire is None else wire.get_extra_info("peername")
        return {"peer": peer, "method": "POST", "path": arriving.path}


@functools.lru_cache(maxsize=1)
def _date_at(second: int) -> str:
    return formatdate(second, usegmt=True)


def _write_answer(answer: bytes | web.Response, *, closes: bool) -> bytes:
    """Write a 200 of JSON, or the answer to a request that failed."""
    date = f"Date: {_date_at(int(time.time()))}"
    closing = ("Connection: close",) if closes else ()
    if not isinstance(answer, bytes):
        return answers.write_response(answer, date, *closing)
    head = "\r\n".join(
        ("HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {len(answer)}", date, *closing, "", "")
    )
    return head.encode() + answer
