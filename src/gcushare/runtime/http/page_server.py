"""Pages, streams, metrics and health: an aiohttp application.

Its requests have no bodies. The scheduler's port is another server, see `scheduler_server`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, cast

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gcushare.core.log_fields import fields
from gcushare.runtime.http import answers
from gcushare.runtime.http.answers import Cause, RejectedCounts, Rejection
from gcushare.runtime.http.connections import ClientDeadline, ConnectionTable
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.settings.serving import ServeSettings

logger = logging.getLogger(__name__)

# Streams end at once when a program stops, and pages take milliseconds. aiohttp waits so long for requests in progress,
# and once more after it has cancelled them.
_DRAIN_S = 1.0
_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that need no client certificate, even if the server requires one: the kubelet's probes have none."""


class PageConnection(web.RequestHandler):
    """aiohttp's connection of one client. To the table it is always idle: if the table is full, the oldest one goes.

    aiohttp's keep-alive closes the connection of a client that is silent, or does not finish a head.
    """

    __slots__ = ("_deadline", "_slow_s", "_table", "_wire")

    def __init__(self, table: ConnectionTable, slow_s: float, manager: web.Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self._table = table
        self._slow_s = slow_s
        self._deadline = ClientDeadline()
        # aiohttp's own attribute is cleared as soon as it closes the transport, even if output is still queued.
        self._wire: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)
        self._table.admit(self._wire)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._table.forget(self._wire)
        self._deadline.clear()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read its answer: limit how long."""
        super().pause_writing()
        self._deadline.set(self._slow_s, self._wire.abort)

    def resume_writing(self) -> None:
        self._deadline.clear()
        super().resume_writing()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer malformed HTTP in the JSON of every error, without a stack in the log or in the answer."""
        if status != 400 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        reason = next(iter((message or "").splitlines()), "")[:200]
        logger.info("malformed request %s", fields(peer=self.peername, status=status, reason=reason))
        return answers.error_response(status, f"malformed HTTP request: {reason}", close=True)

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log what aiohttp could not handle, but without a stack if the client caused it: a malformed body, or a
        connection closed, or half closed, in the middle of a request.
        """
        error = kw.get("exc_info")
        if isinstance(error, (web.RequestPayloadError, ConnectionError)):
            logger.debug("client gone in the middle of a request %s", fields(peer=self.peername, reason=error))
        else:
            super().log_exception(*args, **kw)


async def start_server(app: web.Application, settings: ServeSettings) -> RunningServer:
    """Serve ``app`` as the settings say; port 0 is read back as ``RunningServer.port``.

    Limits connections, the time of a head and the time to read an answer; a request with a body is refused. Errors of
    our families become JSON answers (see `answers`), anything else a 500 without details.

    Effects: puts a middleware before the application's own and freezes it.

    Raises:
        ConfigError: the address cannot be listened on, or the TLS files cannot be used.
    """
    table = ConnectionTable(settings.max_connections)
    server = RunningServer(settings, table)

    app.middlewares.insert(0, _make_gate(server.rejected, needs_certificate=settings.tls_client_ca_file is not None))
    runner = web.AppRunner(app, shutdown_timeout=_DRAIN_S)
    await runner.setup()
    manager = cast(web.Server, runner.server)  # Set up just now.
    loop = asyncio.get_running_loop()

    def make() -> asyncio.Protocol:
        slow_s = settings.request_timeout
        options = {"loop": loop, "keepalive_timeout": slow_s, "access_log": None, "logger": logger}
        return PageConnection(table, slow_s, manager, **options)

    try:
        await server.listen(make, lambda _drain_s: runner.cleanup())
    except BaseException:
        await runner.cleanup()
        raise
    return server


def _make_gate(rejected: RejectedCounts, *, needs_certificate: bool) -> Middleware:
    """Make the middleware in front of every handler: it checks the client, and turns errors into answers."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.perf_counter()
        facts: dict[str, object] = {"peer": request.protocol.peername, "method": request.method, "path": request.path}
        response: web.StreamResponse
        try:
            has_certificate = request.transport is not None and request.transport.get_extra_info("peercert")
            if needs_certificate and request.path not in _OPEN_PATHS and not has_certificate:
                text = "a client certificate is required; present one that the configured authority signed"
                raise Rejection(403, Cause.CERTIFICATE, text)
            if request.body_exists and request.content_length != 0:
                raise Rejection(413, Cause.SIZE, "the request has a body; accepted on this port: none")
            response = await handler(request)
        except Rejection as rejection:
            response = answers.reject(rejection, rejected, **facts)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            response = answers.respond_to_http(error, request.path)
        except ConnectionError:
            raise  # the client is gone; aiohttp closes the connection quietly
        except Exception as error:  # the root of a request: nothing that a handler raises may end the server
            response = answers.respond_to_failure(error, **facts)
            if request.writer.output_size > 0:
                # A stream that has begun cannot become an error: its reader notices only that it is cut.
                raise ConnectionResetError("the answer had begun when its handler failed") from error
        answers.log_answered(started, **facts, status=response.status)
        return response

    return answer
