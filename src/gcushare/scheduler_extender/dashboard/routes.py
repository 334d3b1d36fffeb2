"""The page's endpoints below ``/dashboard``. They read; nothing here changes anything."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

from gcushare.core.errors import GcushareError, NotFoundError, RetryableError
from gcushare.core.wording import counted
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.scheduler_extender.dashboard.assets import load_assets
from gcushare.scheduler_extender.dashboard.dashboard_settings import Access, DashboardSettings
from gcushare.scheduler_extender.dashboard.feed import Feed, parse_mark
from gcushare.scheduler_extender.dashboard.feed_documents import ReplicaDocument
from gcushare.scheduler_extender.dashboard.reviewed_tokens import TokenGuard
from gcushare.scheduler_extender.dashboard.security_headers import SECURITY_HEADERS
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.leadership import Serving
from gcushare.wire.documents.explain import encode_explanation

PREFIX = "/dashboard"
_EVENTS_HEADERS = {
    **SECURITY_HEADERS,
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    # An nginx in front of the page would otherwise hold events back until its buffer is full.
    "X-Accel-Buffering": "no",
}
_NEVER_KEPT = {**SECURITY_HEADERS, "Content-Type": "application/json", "Cache-Control": "no-store"}


@dataclass(eq=False)
class Dashboard:
    """The page of one replica. ``explains`` is by the vendor's name.

    ``feed`` must exist before the watches, which update it. ``watch_age_s``: seconds since their caches were proven
    current.
    """

    settings: DashboardSettings
    client: KubeClient
    feed: Feed
    serving: Serving
    watch_age_s: Callable[[], float | None]
    explains: Mapping[str, ExplainService]
    clock: Clock

    def __post_init__(self) -> None:
        self._guard = None if self.settings.dashboard is Access.OPEN else TokenGuard(self.client, clock=self.clock)
        self._assets = load_assets()
        self._readers = 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(PREFIX, self._go_to_page),
            web.get(f"{PREFIX}/", self._assets.page),
            web.get(f"{PREFIX}/static/{{version}}/{{name}}", self._assets.file),
            web.get(f"{PREFIX}/api/cluster", self._guarded(self._cluster)),
            web.get(f"{PREFIX}/api/changes", self._guarded(self._changes)),
            web.get(f"{PREFIX}/api/explain/{{vendor}}/{{namespace}}/{{pod}}", self._guarded(self._explain)),
        ]

    def _guarded(self, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            await self._admit(request)
            self.serving.require_synced()
            return await handler(request)

        return handle

    async def _admit(self, request: web.Request) -> None:
        """Admit a caller whose token may read; without a guard, every caller."""
        if self._guard is not None:
            await self._guard.admit(request)

    async def _go_to_page(self, _: web.Request) -> web.Response:
        # Relative, so that it also works behind a proxy that puts a path before ours.
        return web.Response(status=308, headers={**SECURITY_HEADERS, "Location": "dashboard/"})

    async def _cluster(self, request: web.Request) -> web.StreamResponse:
        headers = {**_NEVER_KEPT, "Vary": "Accept-Encoding"}
        return await send_pieces(request, self.feed.snapshot(self._replica()), headers, packed=True)

    async def _changes(self, request: web.Request) -> web.StreamResponse:
        readers = counted(self.settings.dashboard_readers, "reader", "follow")
        if self._readers >= self.settings.dashboard_readers:
            raise RetryableError(f"{readers} changes already; try again later", delay_s=5.0)
        mark = parse_mark(request.headers.get("Last-Event-ID", "") or request.query.get("since", ""))

        async def find_refusal() -> str | None:
            """Review the reader's token again. An unavailable API server ends no stream."""
            try:
                await self._admit(request)
            except web.HTTPUnauthorized as error:
                return error.text or error.reason
            except RetryableError:
                return None
            except GcushareError as error:
                return str(error)
            return None

        self._readers += 1
        try:
            events = self.feed.events(mark, self._replica, find_refusal, self.serving)
            return await send_pieces(request, events, _EVENTS_HEADERS)
        finally:
            self._readers -= 1

    async def _explain(self, request: web.Request) -> web.Response:
        names = request.match_info
        service = self.explains.get(names["vendor"])
        if service is None:
            known = ", ".join(sorted(self.explains))
            raise NotFoundError(f"vendor {names['vendor'][:80]!r} is not served here; accepted: {known}")
        document = await service.explain(names["namespace"], names["pod"])
        return web.Response(body=encode_explanation(document), headers=_NEVER_KEPT)

    def _replica(self) -> ReplicaDocument:
        age_s, leadership = self.watch_age_s(), self.serving.leadership
        # Our wall clock, so that a reader's wrong one does not make pods older than they are.
        now_ms = time.time_ns() // 1_000_000
        return ReplicaDocument(
            leadership.is_leader, leadership.holder, None if age_s is None else round(age_s, 1), now_ms
        )


async def send_pieces(
    request: web.Request, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str], *, packed: bool = False
) -> web.StreamResponse:
    """Send pieces as they come, compressed if ``packed``, until there are no more or the reader disconnects."""
    response = web.StreamResponse(headers=headers)
    if packed:
        response.enable_compression()
    await response.prepare(request)
    if request.method != "GET":
        return response
    with suppress(ConnectionError):  # A reader that disconnects is not an error.
        async with aclosing(pieces):
            async for piece in pieces:
                if request.transport is None or request.transport.is_closing():
                    return response
                if piece:
                    await response.write(piece)
            await response.write_eof()
    return response
