"""Changes as server-sent events: what changed, when a reader must begin again, and a sign of life in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress

import msgspec
from aiohttp import web

from gcushare.core.errors import GcushareError, RetryableError
from gcushare.scheduler_extender.dashboard.assets import SECURITY_HEADERS
from gcushare.scheduler_extender.dashboard.feed import Feed, Mark, parse_mark
from gcushare.scheduler_extender.dashboard.feed_documents import ReplicaDocument
from gcushare.scheduler_extender.leadership import Serving
from gcushare.scheduler_extender.routes import send_pieces

PAUSE_S = 0.2
"""Changes within this time are sent together: five updates a second are what people can follow."""

BEAT_S = 15.0
"""The longest silence: proxies cut connections that are silent for 30 to 60 seconds."""

_HEADERS = {
    **SECURITY_HEADERS,
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    # An nginx in front of the page would otherwise hold events back until its buffer is full.
    "X-Accel-Buffering": "no",
}
_encoder = msgspec.json.Encoder()


class Streams:
    """The readers that follow changes. ``replica`` says who answers; the end of serving ends every stream."""

    def __init__(self, feed: Feed, replica: Callable[[], ReplicaDocument], serving: Serving, *, limit: int) -> None:
        self._feed = feed
        self._replica = replica
        self._serving = serving
        self._limit = limit
        self._readers = 0

    async def serve(self, request: web.Request, admit: Callable[[], Awaitable[None]]) -> web.StreamResponse:
        """Send changes to one reader until it disconnects, is no longer admitted, or serving ends.

        Raises:
            RetryableError: as many readers as the settings allow follow already.
        """
        if self._readers >= self._limit:
            raise RetryableError(f"{self._limit} readers follow changes already; try again later", delay_s=5.0)
        mark = parse_mark(request.headers.get("Last-Event-ID", "") or request.query.get("since", ""))
        self._readers += 1
        try:
            return await send_pieces(request, self._events(mark, admit), _HEADERS)
        finally:
            self._readers -= 1

    async def _events(self, mark: Mark | None, admit: Callable[[], Awaitable[None]]) -> AsyncGenerator[bytes, None]:
        sent, sent_at = self._replica(), time.monotonic()
        yield _event("replica", _encoder.encode(sent))
        while not self._serving.stopping.is_set():
            changes = None if mark is None else self._feed.changes(mark)
            end = self._feed.mark
            if changes is None:
                # The reader's snapshot is of another process, or too old: on this event it reads a new one.
                yield _event("reset", b"{}", end)
            else:
                async with aclosing(_marked(changes, end)) as pieces:
                    async for piece in pieces:
                        yield piece
            mark = end
            if await self._serving.wait_for(self._feed.wait_past(mark), BEAT_S + PAUSE_S):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._serving.stopping.wait(), PAUSE_S)  # Other changes join this one.
            if (refusal := await _find_refusal(admit)) is not None:
                yield _event("refused", _encoder.encode({"error": refusal}))
                return
            now = self._replica()
            if (now.leads, now.holder) != (sent.leads, sent.holder) or time.monotonic() >= sent_at + BEAT_S:
                sent, sent_at = now, time.monotonic()
                yield _event("replica", _encoder.encode(sent))


async def _marked(changes: Iterator[bytes], end: Mark) -> AsyncGenerator[bytes, None]:
    """Send pieces with turns for others; only the last carries the mark, so a reader cut before it asks again."""
    held: bytes | None = None
    for piece in changes:
        if held is not None:
            yield _event("changes", held)
            await asyncio.sleep(0)
        held = piece
    if held is not None:
        yield _event("changes", held, end)


async def _find_refusal(admit: Callable[[], Awaitable[None]]) -> str | None:
    """Review a reader's token again; None while it may go on. An unavailable API server ends no stream."""
    try:
        await admit()
    except web.HTTPUnauthorized as error:
        return error.text or error.reason
    except RetryableError:
        return None
    except GcushareError as error:
        return str(error)
    return None


def _event(name: str, data: bytes, mark: Mark | None = None) -> bytes:
    head = b"" if mark is None else b"id: %b\n" % str(mark).encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, name.encode(), data)
