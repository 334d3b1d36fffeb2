"""The paths of the scheduler's port. Services decide, and ``runtime.http.answers`` turns errors into answers."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from aiohttp import web

from gcushare._version import __version__
from gcushare.core.errors import NotFoundError
from gcushare.runtime.http.scheduler_requests import Call, GetPath, Verb
from gcushare.scheduler_extender.cooperative_yield import join_in_pieces
from gcushare.scheduler_extender.leadership import NotLeader, NotReady, Serving
from gcushare.scheduler_extender.verbs.dispatch import Dispatcher, Services
from gcushare.scheduler_extender.verbs.request_metrics import (
    VERB_NAMES,
    RequestMetrics,
    VerbAnswer,
    reason_of,
    result_of,
)
from gcushare.vendors import Vendor
from gcushare.wire.documents.explain import encode_explanation, without_uid
from gcushare.wire.documents.explain_text import render_explanation
from gcushare.wire.documents.inspect import CLOSING, OPENING, encode_node, indent
from gcushare.wire.extender_api import MAX_BIND_BYTES, largest_filter
from gcushare.wire.extender_preempt import MAX_PREEMPT_BYTES

_JSON = {"Content-Type": "application/json"}


class VendorRoutes:
    """The endpoints under one vendor's prefix. ``dispatcher`` answers the calls, ``services`` are that vendor's."""

    def __init__(self, services: Services, dispatcher: Dispatcher, serving: Serving, metrics: RequestMetrics) -> None:
        self._services = services
        self._dispatcher = dispatcher
        self._serving = serving
        self._metrics = metrics
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

    def pages(self) -> list[GetPath]:
        """The paths that only read."""
        prefix = self._services.state.vendor.url_prefix
        return [GetPath(f"{prefix}/explain", self._explain, (2,)), GetPath(f"{prefix}/inspect", self._inspect, (0, 1))]

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

    async def _explain(self, call: Call) -> web.Response:
        self._serving.require_synced()
        document = await self._dispatcher.explain(*call.names)
        if not call.has_certificate:
            document = without_uid(document)
        if _wants_text(call):
            return web.Response(text=render_explanation(document))
        return web.Response(body=encode_explanation(document), headers=_JSON)

    async def _inspect(self, call: Call) -> web.Response | AsyncGenerator[bytes, None]:
        """All nodes by name, or one node.

        A document of 5,000 nodes has megabytes. It is written node by node and yields to other requests in between, so
        that a curl never delays the scheduler. Each node is consistent; the whole document is not of one instant.
        """
        self._serving.require_synced()
        vendor, nodes = self._services.state.vendor, self._services.state.ledger.nodes
        names = call.names or sorted(name for name, node in nodes.items() if node.known)
        if call.names and ((node := nodes.get(names[0])) is None or not node.known):
            raise NotFoundError(
                f"node {names[0]!r} has no {vendor.device_word} cards that the scheduler extender knows of"
            )
        found = filter(None, map(nodes.get, names))
        pieces = join_in_pieces(OPENING, (encode_node(vendor, node) for node in found if node.known), CLOSING)
        if call.query.get("pretty", "0").lower() in ("", "1", "true"):
            whole = b"".join([piece async for piece in pieces])
            return web.Response(body=indent(whole), headers=_JSON)
        return pieces


def _wants_text(call: Call) -> bool:
    """Whether the Accept header prefers text/plain to JSON: it names it first, or alone."""
    kinds = [part.partition(";")[0].strip().lower() for part in call.headers.get("accept", "").split(",")]
    text = kinds.index("text/plain") if "text/plain" in kinds else None
    json = kinds.index("application/json") if "application/json" in kinds else len(kinds)
    return text is not None and text < json


def version_page() -> GetPath:
    return _fixed_page("/version", f"v{__version__}\n")


def index_page(services: Sequence[Services]) -> GetPath:
    """The list of this port's endpoints."""
    endpoints = [
        ("GET  /", "this page"),
        ("GET  /version", "the version"),
    ]
    for each in services:
        prefix, word = each.state.vendor.url_prefix, each.state.vendor.device_word
        endpoints += [
            (f"GET  {prefix}/inspect", f"every node's {word} cards and who uses them; ?pretty"),
            (f"GET  {prefix}/inspect/<node>", "one node's"),
            (
                f"GET  {prefix}/explain/<namespace>/<pod>",
                "why a pod has no card, or which; Accept: text/plain for people",
            ),
            (f"POST {prefix}/filter, /prioritize, /bind, /preempt", "for kube-scheduler"),
        ]
    lines = [f"{path:<52} {text}" for path, text in endpoints]
    return _fixed_page("", "\n".join([f"gcushare-scheduler-extender v{__version__}", "", *lines, ""]))


def _fixed_page(path: str, text: str) -> GetPath:
    async def show(_: Call) -> web.Response:
        return web.Response(text=text)

    return GetPath(path, show)


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
        self.page = GetPath(vendor.url_prefix, self._refuse, range(9))

    def _refuse_call(self, _body: bytes) -> bytes:
        raise NotFoundError(self._text)

    async def _refuse(self, _: Call) -> web.Response:
        raise NotFoundError(self._text)
