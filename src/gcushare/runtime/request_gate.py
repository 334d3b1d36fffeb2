"""The gate in front of every handler: who may call, how much and how slowly they may send, how errors are told."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gcushare.runtime.bodies import BodyBudget
from gcushare.runtime.connections import GuardedConnection
from gcushare.runtime.groups import ServeSettings
from gcushare.runtime.http_errors import error_response, respond_to_failure, respond_to_http
from gcushare.runtime.logs import fields

log = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that answer without a client certificate even where one is required: the kubelet's probes have none."""


class _Rejected(Exception):
    """The request is turned away before any handler sees it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Gate:
    def __init__(self, settings: ServeSettings, budget: BodyBudget) -> None:
        self._budget = budget
        self._timeout_s = settings.request_timeout
        self._needs_certificate = settings.tls_client_ca_file is not None

    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.perf_counter()
        if isinstance(request.protocol, GuardedConnection):
            request.protocol.begin_request()
        response = await self._answer(request, handler)
        if log.isEnabledFor(logging.DEBUG):
            taken_ms = round((time.perf_counter() - started) * 1000, 1)
            facts = fields(method=request.method, path=request.path, status=response.status, ms=taken_ms)
            log.debug("answered %s", facts)
        return response

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check_client(request)
            with self._reserve(request):
                return await handler(await self._read_body(request))
        except _Rejected as error:
            log.info("request turned away %s", _facts(request, error))
            return error_response(error.status, str(error), close=True)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return respond_to_http(error, request.path)
        except ConnectionError:
            raise  # the client has gone; aiohttp ends the connection quietly
        except Exception as error:  # the root of a request: nothing that a handler raises may end the server
            return _respond_to_failure(request, error)

    def _check_client(self, request: web.Request) -> None:
        if not self._needs_certificate or request.path in OPEN_PATHS:
            return
        transport = request.transport
        if transport is None or not transport.get_extra_info("peercert"):
            raise _Rejected(403, "a client certificate is required; present one that the configured authority signed")

    @contextmanager
    def _reserve(self, request: web.Request) -> Iterator[None]:
        """Hold the memory that this request's body may take, until its handler is done."""
        size = self._bound_of(request)
        if not self._budget.take(size):
            raise _Rejected(503, "too many large requests at once, try again later")
        try:
            yield
        finally:
            self._budget.give_back(size)

    def _bound_of(self, request: web.Request) -> int:
        if not request.body_exists:
            return 0
        declared = request.content_length
        if declared is not None and declared > self._budget.largest:
            raise self._too_large(f"{declared} bytes")
        return self._budget.largest if declared is None or "Content-Encoding" in request.headers else declared

    async def _read_body(self, request: web.Request) -> web.Request:
        """Return the request with its body read, so that no handler waits for a slow client."""
        if not request.body_exists:
            return request
        whole = request.clone(client_max_size=self._budget.largest)
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                await whole.read()
        except TimeoutError:
            raise _Rejected(408, f"the request's body did not arrive within {self._timeout_s:g}s") from None
        except web.HTTPRequestEntityTooLarge:
            raise self._too_large("more") from None
        except web.RequestPayloadError as error:
            raise _Rejected(400, f"the request's body is malformed: {error}") from error
        return whole

    def _too_large(self, size: str) -> _Rejected:
        return _Rejected(413, f"the request's body has {size}; accepted: at most {self._budget.largest} bytes")


def _facts(request: web.Request, error: Exception) -> object:
    return fields(peer=request.remote, method=request.method, path=request.path, reason=error)


def _respond_to_failure(request: web.Request, error: Exception) -> web.StreamResponse:
    response = respond_to_failure(error, _facts(request, error))
    if request.writer.output_size > 0:
        # A stream that has begun cannot become an error any more: cutting it is what its reader can notice.
        raise ConnectionResetError("the answer had begun when its handler failed")
    return response


def make_gate(settings: ServeSettings, budget: BodyBudget) -> Middleware:
    """Return the middleware that must stand before all others; ``budget`` bounds the memory of bodies."""
    gate = _Gate(settings, budget)

    @web.middleware
    async def pass_gate(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        return await gate.handle(request, handler)

    return pass_gate
