"""The gate in front of every handler that aiohttp calls: it checks the client and reads the body within its bounds."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing

from aiohttp import web
from aiohttp.typedefs import Handler

from gcushare.runtime.http import answers
from gcushare.runtime.http.answers import Cause, RejectedCounts, Rejection
from gcushare.runtime.http.connections import GuardedConnection
from gcushare.runtime.http.request_budgets import BodyBudget, BodyShare, TurnBudget
from gcushare.runtime.settings.serving import ServeSettings

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that need no client certificate, even if the server requires one: the kubelet's probes have none."""


_BODY: web.RequestKey[bytes] = web.RequestKey("BODY", bytes)


def body_of(request: web.Request) -> bytes:
    """Return the body of a request, which the gate has read; empty if it has none.

    Handlers use it instead of ``request.read()``, which finds nothing left: aiohttp would read a whole body before its
    bytes could be counted.
    """
    body: bytes = request.get(_BODY, b"")
    return body


class RequestGate:
    """Its ``handle`` must be the first middleware of all.

    ``budget`` limits the memory of bodies; ``turns`` limits how many requests with a body one turn of the loop handles.
    """

    def __init__(
        self, settings: ServeSettings, budget: BodyBudget, rejected: RejectedCounts, turns: TurnBudget
    ) -> None:
        self._budget = budget
        self._turns = turns
        self._rejected = rejected
        self._timeout_s = settings.request_timeout
        self._needs_certificate = settings.tls_client_ca_file is not None

    @web.middleware
    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.perf_counter()
        if isinstance(request.protocol, GuardedConnection):
            request.protocol.begin_request()
        response = await self._answer(request, handler)
        answers.log_answered(started, **_facts(request), status=response.status)
        return response

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            transport = request.transport
            has_certificate = transport is not None and transport.get_extra_info("peercert")
            if self._needs_certificate and request.path not in OPEN_PATHS and not has_certificate:
                text = "a client certificate is required; present one that the configured authority signed"
                raise Rejection(403, Cause.CERTIFICATE, text)
            if not request.body_exists:
                return await handler(request)
            return await self._answer_body(request, handler)
        except Rejection as rejection:
            return answers.reject(rejection, self._rejected, **_facts(request))
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return answers.respond_to_http(error, request.path)
        except ConnectionError:
            raise  # the client is gone; aiohttp closes the connection quietly
        except Exception as error:  # the root of a request: nothing that a handler raises may end the server
            response = answers.respond_to_failure(error, **_facts(request))
            if request.writer.output_size > 0:
                # A stream that has begun cannot become an error: its reader notices only that it is cut.
                raise ConnectionResetError("the answer had begun when its handler failed") from error
            return response

    async def _answer_body(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request with a body, and keep the body's memory until the handler is done."""
        declared, largest = request.content_length, self._budget.largest_of(request.path)
        if declared is not None and declared > largest:
            raise answers.body_too_large(f"{declared} bytes", largest)
        limit = asyncio.timeout(self._timeout_s)

        def give_up() -> None:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

        with closing(self._budget.open(give_up)) as share:
            connection = request.protocol
            if isinstance(connection, GuardedConnection):
                connection.table.mark_arriving(connection)
            await self._read_body(request, share, limit, largest)
            if isinstance(connection, GuardedConnection):
                connection.table.mark_arrived(connection)
            await self._turns.admit(share.size)
            return await handler(request)

    async def _read_body(self, request: web.Request, share: BodyShare, limit: asyncio.Timeout, largest: int) -> None:
        """Read the body into the request, so that no handler waits for a slow client."""
        body = bytearray()
        try:
            async with limit:
                while chunk := await request.content.readany():
                    if len(body) + len(chunk) > largest:
                        raise answers.body_too_large("more", largest)
                    if not share.grow(len(chunk)):
                        raise answers.no_memory()
                    body += chunk
        except TimeoutError:
            if share.is_cut:
                raise answers.body_cut() from None
            raise answers.body_too_slow(self._timeout_s) from None
        except web.RequestPayloadError as error:
            raise Rejection(400, Cause.MALFORMED, f"the request's body is malformed: {error}") from error
        share.complete()
        request[_BODY] = bytes(body)


def _facts(request: web.Request) -> dict[str, object]:
    peer = None if request.transport is None else request.transport.get_extra_info("peername")
    return {"peer": peer, "method": request.method, "path": request.path}
