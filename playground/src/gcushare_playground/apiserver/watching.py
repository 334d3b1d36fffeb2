"""Watches: changes as they happen, until the client, the clock, the history or a fault ends them.

Every watcher reads the collection's history from where it stands, so a slow one costs no memory and gets 410
when the history has moved past it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.rendering import Renderer, error_event
from gcushare_playground.apiserver.requests import Target, flag, number, selector_of
from gcushare_playground.apiserver.selectors import Selector
from gcushare_playground.apiserver.storage import Change, Collection, Expired, Storage

_DEFAULT_TIMEOUT_S = 1800.0
"""kube-apiserver's --min-request-timeout, the least it grants a watch that names none."""
_BOOKMARK_BEFORE_END_S = 2.0


def _next_bookmark(now: float, deadline: float, interval_s: float) -> float:
    """When the next bookmark is due: after the interval, or two seconds before the end, as kube-apiserver has it."""
    before_end = deadline - _BOOKMARK_BEFORE_END_S
    return before_end if now < before_end < now + interval_s else now + interval_s


class Watches:
    """Serves watches of a storage."""

    def __init__(self, storage: Storage, bookmark_interval_s: float) -> None:
        self._storage = storage
        self._bookmark_interval_s = bookmark_interval_s

    async def serve(
        self, request: web.BaseRequest, target: Target, renderer: Renderer, *, cut_after: int | None
    ) -> web.StreamResponse:
        """Stream changes until the watch ends.

        Raises:
            ApiFailure: 400 before anything is sent: parameters that cannot be read, or no version to begin at.
        """
        query = request.query
        if (start := number(query, "resourceVersion") or 0) == 0:
            raise failures.bad_request("a watch begins at a resourceVersion here: list first")
        selector, timeout_s = selector_of(query, target.resource), number(query, "timeoutSeconds") or _DEFAULT_TIMEOUT_S
        collection = self._storage.collection(target.resource.qualified)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        await response.prepare(request)
        bookmarks = flag(query, "allowWatchBookmarks")
        stream = _Stream(request, response, target.namespace, renderer, selector, bookmarks, collection, cut_after)
        collection.subscribers.add(stream.wake)
        try:
            await stream.run(self._storage, start, timeout_s, self._bookmark_interval_s)
        finally:
            collection.subscribers.discard(stream.wake)
        return response


class _Broken(Exception):
    """The connection was cut on purpose."""


@dataclass(slots=True)
class _Stream:
    """The state of one watch while it is served."""

    request: web.BaseRequest
    response: web.StreamResponse
    namespace: str | None
    renderer: Renderer
    selector: Selector
    bookmarks: bool
    collection: Collection
    cut_after: int | None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    delivered: int = 0

    async def run(self, storage: Storage, start: int, timeout_s: float, bookmark_interval_s: float) -> None:
        """Send every change after a version; return when the watch has ended."""
        try:
            await self._follow(storage, start, asyncio.get_running_loop().time() + timeout_s, bookmark_interval_s)
        except Expired as error:
            await self.response.write(error_event(failures.expired(str(error))))
        except _Broken:
            if self.request.transport is not None:
                self.request.transport.abort()

    async def _follow(self, storage: Storage, cursor: int, deadline: float, bookmark_interval_s: float) -> None:
        now = asyncio.get_running_loop().time
        bookmark_at = _next_bookmark(now(), deadline, bookmark_interval_s)
        while True:
            self.wake.clear()
            changes = self.collection.changes_since(cursor)
            reached = max(storage.version, cursor)
            await self._deliver(changes)
            cursor = reached
            if self.bookmarks and now() >= min(bookmark_at, deadline):
                await self.response.write(self.renderer.bookmark(cursor))
                bookmark_at = _next_bookmark(now(), deadline, bookmark_interval_s)
            if now() >= deadline:
                return
            await self._wait(min(bookmark_at if self.bookmarks else deadline, deadline) - now())

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self.wake.wait()
        except TimeoutError:
            return

    async def _deliver(self, changes: list[Change]) -> None:
        here = (each for each in changes if self.namespace in (None, each.revision.key.namespace))
        seen = (change.seen_by(self.selector.matches) for change in here)
        await self._send([self.renderer.event(*event) for event in seen if event is not None])

    async def _send(self, lines: list[bytes]) -> None:
        if self.cut_after is not None and self.delivered + len(lines) >= self.cut_after:
            lines = lines[: self.cut_after - self.delivered]
            if lines:
                await self.response.write(b"".join(lines))
            raise _Broken
        self.delivered += len(lines)
        if lines:
            await self.response.write(b"".join(lines))
