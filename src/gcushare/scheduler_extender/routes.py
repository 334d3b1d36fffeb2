"""The HTTP routes. Services decide, and ``runtime.http.answers`` turns errors into answers."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict

from gcushare._version import __version__
from gcushare.core.errors import NotFoundError, RetryableError
from gcushare.runtime.http.scheduler_fast_path import Verb
from gcushare.scheduler_extender.leadership import NotLeader, NotReady, Serving
from gcushare.scheduler_extender.verbs.dispatch import Dispatcher, Services
from gcushare.scheduler_extender.verbs.pod_lookup import PodApi
from gcushare.scheduler_extender.verbs.request_metrics import (
    VERB_NAMES,
    RequestMetrics,
    VerbAnswer,
    reason_of,
    result_of,
)
from gcushare.vendors import Vendor
from gcushare.wire.documents.explain import encode_explanation, render_explanation, without_uid
from gcushare.wire.documents.inspect import indent
from gcushare.wire.extender_api import MAX_BIND_BYTES, largest_filter
from gcushare.wire.extender_preempt import MAX_PREEMPT_BYTES

_JSON = CIMultiDict({"Content-Type": "application/json"})
_MAX_WATCHERS = 64
"""Readers that may watch inspect at once; each has a connection and a set of names."""


class VendorRoutes:
    """The endpoints under one vendor's prefix. ``services``: those of that vendor first, then the others."""

    def __init__(self, services: Sequence[Services], api: PodApi, serving: Serving, metrics: RequestMetrics) -> None:
        self._services = services[0]
        self._dispatcher = dispatcher = Dispatcher(services, api)
        self._serving = serving
        self._metrics = metrics
        self._watchers = 0
        prefix = self._services.state.vendor.url_prefix
        self.verbs = (
            Verb(f"{prefix}/filter", partial(self._answer, "filter", dispatcher.filter), self._largest_filter),
            Verb(
                f"{prefix}/prioritize", partial(self._answer, "prioritize", dispatcher.prioritize), self._largest_filter
            ),
            Verb(f"{prefix}/preempt", partial(self._answer, "preempt", dispatcher.preempt), lambda: MAX_PREEMPT_BYTES),
            Verb(f"{prefix}/bind", partial(self._answer, "bind", dispatcher.bind), lambda: MAX_BIND_BYTES),
        )
        """The scheduler's calls."""

    def routes(self) -> list[web.RouteDef]:
        """The routes that only read."""
        prefix = self._services.state.vendor.url_prefix
        return [
            *_get(f"{prefix}/explain/{{namespace}}/{{pod}}", self._explain),
            *_get(f"{prefix}/inspect", self._inspect),
            *_get(f"{prefix}/inspect/{{node}}", self._inspect),
        ]

    def _largest_filter(self) -> int:
        return largest_filter(self._services.state.max_nodes_asked)

    @contextmanager
    def _counting_failures(self, verb: str, started: float) -> Iterator[None]:
        """Count errors for which the verb's answer has no field, so that they become HTTP errors."""
        try:
            yield
        except (NotLeader, NotReady) as error:
            # Without its time: a thousand answers of a microsecond would make all answers look fast.
            reason = "not_leader" if isinstance(error, NotLeader) else "not_ready"
            self._metrics.count(self._services.vendor_name, verb, "turned_away", None, reason)
            raise
        except Exception as error:
            taken_s = time.perf_counter() - started
            self._metrics.count(self._services.vendor_name, verb, result_of(error), taken_s, reason_of(error))
            raise

    def _answer(
        self, verb: str, ask: Callable[[bytes], VerbAnswer | Awaitable[VerbAnswer]], body: bytes
    ) -> bytes | Awaitable[bytes]:
        """Answer a call: filter and prioritize at once if the pod is known, everything else later."""
        started = time.perf_counter()
        with self._counting_failures(verb, started):
            self._serving.require()
            answer = ask(body)
        if not isinstance(answer, VerbAnswer):
            return self._answer_later(verb, answer, started)
        self._metrics.count(answer.vendor, verb, answer.result, time.perf_counter() - started, answer.reason)
        return answer.body

    async def _answer_later(self, verb: str, coming: Awaitable[VerbAnswer], started: float) -> bytes:
        with self._counting_failures(verb, started):
            answer = await coming
            if verb in ("filter", "prioritize"):
                self._serving.require()  # Another replica may have begun to bind since.
        self._metrics.count(answer.vendor, verb, answer.result, time.perf_counter() - started, answer.reason)
        return answer.body

    async def _explain(self, request: web.Request) -> web.Response:
        self._serving.require_synced()
        document = await self._dispatcher.explain(request.match_info["namespace"], request.match_info["pod"])
        if request.transport is None or not request.transport.get_extra_info("peercert"):
            document = without_uid(document)
        if _wants_text(request):
            return web.Response(text=render_explanation(document))
        return web.Response(body=encode_explanation(document), headers=_JSON)

    async def _inspect(self, request: web.Request) -> web.StreamResponse:
        node = request.match_info.get("node") or None
        self._serving.require_synced()
        if node is not None:
            self._services.inspects.require(node)
        if _is_on(request, "watch"):
            return await self._watch(request, node)
        pieces = self._services.inspects.document(node)
        if _is_on(request, "pretty"):
            whole = b"".join([piece async for piece in pieces])
            return web.Response(body=indent(whole), headers=_JSON)
        return await send_pieces(request, pieces, _JSON)

    async def _watch(self, request: web.Request, node: str | None) -> web.StreamResponse:
        if self._watchers >= _MAX_WATCHERS:
            raise RetryableError(f"{_MAX_WATCHERS} readers follow inspect already; try again later")
        self._watchers += 1
        try:
            return await send_pieces(request, self._services.inspects.watch(self._serving, node), _JSON)
        finally:
            self._watchers -= 1


async def send_pieces(
    request: web.Request, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str], *, packed: bool = False
) -> web.StreamResponse:
    """Send pieces as they come, ``packed`` by gzip if asked, until there are no more or the reader disconnects."""
    response = web.StreamResponse(headers=headers)
    if packed:
        response.enable_compression(web.ContentCoding.gzip)
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


def _is_on(request: web.Request, name: str) -> bool:
    """Whether a switch is in the query: ``?watch``, ``?watch=1`` or ``?watch=true``."""
    return request.query.get(name, "0").lower() in ("", "1", "true")


def _wants_text(request: web.Request) -> bool:
    """Whether the Accept header prefers text/plain to JSON: it names it first, or alone."""
    kinds = [part.partition(";")[0].strip().lower() for part in request.headers.get("Accept", "").split(",")]
    text = kinds.index("text/plain") if "text/plain" in kinds else None
    json = kinds.index("application/json") if "application/json" in kinds else len(kinds)
    return text is not None and text < json


def root_routes(services: list[Services], more: Iterable[tuple[str, str]] = ()) -> list[web.RouteDef]:
    """The routes outside the vendors' prefixes: the version, and the list of endpoints."""
    endpoints = [
        ("GET  /", "this page"),
        ("GET  /version", "the version"),
        ("GET  /healthz, /readyz", "whether it lives; whether it serves (one replica does)"),
        ("GET  /metrics", "figures for Prometheus"),
    ]
    for each in services:
        prefix, word = each.state.vendor.url_prefix, each.state.vendor.device_word
        endpoints += [
            (f"GET  {prefix}/inspect", f"every node's {word} cards and who uses them; ?pretty, ?watch"),
            (f"GET  {prefix}/inspect/<node>", "one node's"),
            (
                f"GET  {prefix}/explain/<namespace>/<pod>",
                "why a pod has no card, or which; Accept: text/plain for people",
            ),
            (f"POST {prefix}/filter, /prioritize, /bind, /preempt", "for kube-scheduler"),
        ]
    lines = [f"{path:<52} {text}" for path, text in (*endpoints, *more)]
    index = "\n".join([f"gcushare-scheduler-extender v{__version__}", "", *lines, ""])

    async def show_version(_: web.Request) -> web.Response:
        return web.Response(text=f"v{__version__}\n")

    async def show_index(_: web.Request) -> web.Response:
        return web.Response(text=index)

    return [*_get("/version", show_version), web.get("/", show_index)]


def _get(path: str, handler: Handler) -> list[web.RouteDef]:
    """Answer a path with and without a slash at its end: upstream gpushare's router redirects the one to the other."""
    return [web.get(path, handler), web.get(f"{path}/", handler)]


class UnservedVendor:
    """Answers under the prefix of a vendor that this replica does not serve, and names the vendor that it serves."""

    def __init__(self, vendor: Vendor, served: Sequence[Vendor]) -> None:
        names = " and ".join(f"{each.name} cards under {each.url_prefix}" for each in served)
        self._text = (
            f"{vendor.url_prefix} is for {vendor.name} cards, but this scheduler extender serves {names}; start it "
            f"with --vendor {vendor.name}, or with --vendor both (chart value vendor), or use the other prefix"
        )
        self.verbs = tuple(Verb(f"{vendor.url_prefix}/{name}", self._refuse_call) for name in VERB_NAMES)
        """The scheduler's calls, which come to either port."""
        self.routes = [web.route("*", f"{vendor.url_prefix}{path}", self._refuse) for path in ("", "/{rest:.*}")]

    def _refuse_call(self, _body: bytes) -> bytes:
        raise NotFoundError(self._text)

    async def _refuse(self, _request: web.Request) -> web.Response:
        raise NotFoundError(self._text)
