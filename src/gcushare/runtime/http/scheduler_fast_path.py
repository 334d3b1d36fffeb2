"""The fast path: plain POSTs of a program that calls all day, answered without aiohttp's request and response.

kube-scheduler makes three calls per pod. Two tasks, mappings of headers, a chain of middlewares and a response object
for each of them cost four times what the answer costs, so the body is taken straight from the socket and the answer
written straight to it.

Only what is beyond doubt is taken: a known path, HTTP/1.1, a head that came in one piece, a few harmless headers, one
Content-Length within bounds. Anything else belongs to aiohttp from its first byte, and so does all that follows on that
connection: there is no second reading of whatever could be read in two ways.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING, TypeAlias

from aiohttp import web

from gcushare.runtime.http.body_limits import BodyBudget, BodyShare
from gcushare.runtime.http.errors import CUT_FOR_OTHERS, NO_MEMORY, error_response, respond_to_failure
from gcushare.runtime.http.rejected import Cause, RejectedCounts
from gcushare.runtime.http.turn_budget import TurnBudget
from gcushare.runtime.logs import fields

if TYPE_CHECKING:
    from gcushare.runtime.http.connections import GuardedConnection

log = logging.getLogger(__name__)

FastPathHandler: TypeAlias = Callable[[bytes], bytes | Awaitable[bytes]]
"""Takes a body, returns the JSON of a 200; what it raises is answered as for any other handler."""

FAST_PATHS: web.AppKey[Mapping[str, FastPathHandler]] = web.AppKey("FAST_PATHS", Mapping)
"""An application's fast paths. Each has an ordinary route too, for requests that are not plain."""

_PLAIN_HEADERS = frozenset((b"host", b"user-agent", b"content-length", b"content-type", b"accept", b"accept-encoding"))
_LONGEST_HEAD = 4096
_LONGEST_NUMBER = 10
_PRINTABLE = bytes(range(0x20, 0x7F))


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a plain request: whose it is, and where its body begins and ends in what was read."""

    path: str
    start: int
    length: int


def read_head(data: bytes) -> Head | None:
    """Read the head of a POST that no one could read differently; None for all others."""
    end = data.find(b"\r\n\r\n", 0, _LONGEST_HEAD)
    if end < 0 or not data.startswith(b"POST /"):
        return None
    head = data[:end]
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or words[2] != b"HTTP/1.1" or len(head.translate(None, _PRINTABLE)) != 2 * len(lines):
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
    return Head(words[1].decode(), end + 4, int(number))


@dataclass(slots=True)
class FastPathContext:
    """What the fast paths of one server share."""

    handlers: Mapping[str, FastPathHandler]
    budget: BodyBudget
    body_timeout_s: float
    needs_certificate: bool
    rejected: RejectedCounts
    turns: TurnBudget
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Answers that are being waited for."""

    async def end(self) -> None:
        """Cancel the answers that no one can get any more."""
        self.turns.clear()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@dataclass(slots=True)
class _Arriving:
    """A request in work: its body as far as it came, and how much of it is missing."""

    path: str
    missing: int
    started: float
    body: bytes | bytearray
    """One piece as it came, several in one array: a list of tiny pieces would take many times their bytes."""
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
        """Take what was received; False leaves it, and all that follows, to aiohttp."""
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
            self._turn_away(arriving, Cause.MEMORY, 503, NO_MEMORY)
            return True
        if isinstance(arriving.body, bytes):
            arriving.body = bytearray(arriving.body)
        arriving.body += piece
        arriving.missing -= len(piece)
        if len(data) > missing:
            self._hold(data[missing:])
        if not arriving.missing:
            self._connection.end_body()
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
        # A client that does not read its answers gets no more of them: aiohttp waits for it.
        head = None if self._connection.writing_paused else read_head(data)
        if head is None or not self._may_take(head):
            self.close()
            return False
        body = data[head.start : head.start + head.length]
        share = self._context.budget.open(self._give_way)
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
            self._connection.begin_body()
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._context.body_timeout_s, self._give_up, arriving)
        return True

    def _may_take(self, head: Head) -> bool:
        context, wire = self._context, self._connection.wire
        if head.path not in context.handlers or wire is None:
            return False
        if context.needs_certificate and not wire.get_extra_info("peercert"):
            return False
        return head.length <= context.budget.largest_of(head.path)

    def _hold(self, data: bytes) -> None:
        """Keep back what came before its time, and let no more come: answers go out in the order of their requests."""
        self._held += data
        if self._connection.wire is not None:
            self._connection.wire.pause_reading()

    def _give_up(self, arriving: _Arriving) -> None:
        text = f"the request's body did not arrive within {self._context.body_timeout_s:g}s"
        self._turn_away(arriving, Cause.SLOW, 408, text)

    def _give_way(self) -> None:
        """Drop a body that comes slower than others which need its memory."""
        if self._arriving is not None:
            self._turn_away(self._arriving, Cause.MEMORY, 503, CUT_FOR_OTHERS)

    def _turn_away(self, arriving: _Arriving, cause: Cause, status: int, text: str) -> None:
        self._stop_deadline()
        self._context.rejected.note(cause)
        log.info("request turned away %s", self._facts(arriving, reason=text))
        self._finish(arriving, error_response(status, text, close=True))

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
            answer = self._context.handlers[arriving.path](body)
        except Exception as error:  # the root of a request: nothing that a handler raises may end the server
            self._finish(arriving, respond_to_failure(error, self._facts(arriving, reason=error)))
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
            answer = respond_to_failure(error, self._facts(arriving, reason=error))
        self._finish(arriving, answer)

    def _finish(self, arriving: _Arriving, answer: bytes | web.Response) -> None:
        arriving.share.close()
        self._arriving = None
        connection, wire = self._connection, self._connection.wire
        if wire is None or wire.is_closing():
            return
        closes = connection.closes_after_answer or (isinstance(answer, web.Response) and answer.keep_alive is False)
        wire.write(_write_answer(answer, closes=closes))
        if log.isEnabledFor(logging.DEBUG):
            taken_ms = round((time.perf_counter() - arriving.started) * 1000, 1)
            log.debug("answered %s", self._facts(arriving, ms=taken_ms))
        connection.end_fast_request()
        if closes:
            connection.force_close()
            return
        if self._held:
            self._hand_over(wire)
        else:
            self._note_idle()

    def _hand_over(self, wire: asyncio.Transport) -> None:
        """Leave a client that does not wait for answers to aiohttp, which bounds what it may send ahead."""
        held, self._held = self._held, b""
        self.close()
        wire.resume_reading()
        self._connection.data_received(held)

    def _note_idle(self) -> None:
        """Begin a silence; its timer runs on over many requests and is set again only when it rings."""
        loop = asyncio.get_running_loop()
        self._idle_since = loop.time()
        if self._idle_timer is None:
            self._idle_timer = loop.call_later(self._connection.keepalive_timeout, self._check_idle)

    def _check_idle(self) -> None:
        self._idle_timer = None
        if self._arriving is not None:
            return  # Not silent; the end of this request begins the next silence.
        loop = asyncio.get_running_loop()
        left_s = self._idle_since + self._connection.keepalive_timeout - loop.time()
        if left_s <= 0:
            self._connection.force_close()
        else:
            self._idle_timer = loop.call_later(left_s, self._check_idle)

    def _facts(self, arriving: _Arriving, **more: object) -> object:
        wire = self._connection.wire
        peer = None if wire is None else wire.get_extra_info("peername")
        return fields(peer=peer, method="POST", path=arriving.path, **more)


@functools.lru_cache(maxsize=1)
def _date_at(second: int) -> str:
    return formatdate(second, usegmt=True)


def _write_answer(answer: bytes | web.Response, *, closes: bool) -> bytes:
    """Write a 200 of JSON, or the answer to a request that failed."""
    if isinstance(answer, bytes):
        head, body = "200 OK\r\nContent-Type: application/json\r\n", answer
    else:
        body = answer.body if isinstance(answer.body, bytes) else b""
        fields_of_it = (f"{name}: {value}\r\n" for name, value in answer.headers.items() if name != "Content-Length")
        head = f"{answer.status} {answer.reason}\r\n" + "".join(fields_of_it)
    end = "Connection: close\r\n\r\n" if closes else "\r\n"
    date = _date_at(int(time.time()))
    return f"HTTP/1.1 {head}Content-Length: {len(body)}\r\nDate: {date}\r\n{end}".encode() + body
