"""Serve an aiohttp application with limits on its clients, TLS if configured, and a drain at the end."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Sequence
from functools import partial

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

from gcushare.core.errors import ConfigError
from gcushare.core.log_fields import fields
from gcushare.runtime.http.answers import Cause, RejectedCounts
from gcushare.runtime.http.connections import ConnectionTable, GuardedConnection
from gcushare.runtime.http.handshakes import TlsListener
from gcushare.runtime.http.request_budgets import BodyBudget, TurnBudget
from gcushare.runtime.http.request_gate import RequestGate, body_of
from gcushare.runtime.http.scheduler_fast_path import VERBS, FastPathContext, Verb
from gcushare.runtime.http.tls import CertificateEnd, FollowedTls, TlsFiles
from gcushare.runtime.settings.serving import ServeSettings

logger = logging.getLogger(__name__)

# How long a body is still read after its answer, so that its sender sees the answer instead of a reset.
_LINGER_S = 2.0
# How long requests may go on after the drain: once to end, and once more after they are cancelled.
_CANCEL_S = 0.1
# Connections that the kernel completes while the loop is busy; Linux caps it at net.core.somaxconn.
_BACKLOG = 1024
# Below the deadline of a health check, so that the reason is ours.
_PROBE_TIMEOUT_S = 0.7


class RunningServer:
    """A server that listens; made by `start_server`, ended by `stop`."""

    def __init__(
        self, runner: web.AppRunner, connections: ConnectionTable, fast_paths: FastPathContext, tls: FollowedTls | None
    ) -> None:
        self._runner = runner
        self.connections = connections
        """The connections now: `len` counts the open ones, ``busy`` has those with a request in progress."""
        self._fast_paths = fast_paths
        self.rejected = fast_paths.rejected
        self._tls = tls
        self._drain_s = 0.0
        self._stopping = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._tls_listener: TlsListener | None = None
        self._follower: asyncio.Task[None] | None = None
        self.host = ""
        self.port = 0

    @property
    def url(self) -> str:
        """The server's URL. A wildcard address becomes the loopback address, so that the URL can be called."""
        address = ipaddress.ip_address(self.host.partition("%")[0])
        host = "127.0.0.1" if address.is_unspecified else f"[{self.host}]" if address.version == 6 else self.host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}"

    @property
    def certificate_ends(self) -> tuple[CertificateEnd, ...]:
        """When the certificates in use end, for metrics; none over plain HTTP."""
        return () if self._tls is None else self._tls.ends

    async def listen(self, settings: ServeSettings) -> None:
        """Open the socket.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        manager = self._runner.server
        if manager is None:
            raise RuntimeError("the application's runner is not set up")
        loop = asyncio.get_running_loop()
        sock = _open_socket(settings.listen_address, settings.listen_port)
        self.host, self.port = sock.getsockname()[:2]
        tls = self._tls

        def make() -> asyncio.Protocol:
            return GuardedConnection(
                self.connections,
                manager,
                self._fast_paths,
                loop=loop,
                keepalive_timeout=settings.idle_timeout,
                lingering_time=_LINGER_S,
                access_log=None,
                logger=logger,
            )

        def report_follower(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                logger.error("TLS files are no longer followed, restart to load new ones", exc_info=task.exception())

        if tls is None:
            self._listener = await loop.create_server(make, sock=sock, backlog=_BACKLOG)
        else:
            self._tls_listener = TlsListener(sock, tls.context, settings, self.rejected, make)
            self._follower = asyncio.create_task(tls.follow(self._stopping), name="follow TLS files")
            self._follower.add_done_callback(report_follower)
        logger.info("listening %s", fields(url=self.url, address=self.host))

    async def stop(self, drain_s: float) -> None:
        """Stop accepting, wait up to ``drain_s`` seconds for requests in progress, then cut the rest; repeatable."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._drain_s = drain_s
        if self._listener is not None:
            self._listener.close()
        if self._tls_listener is not None:
            await self._tls_listener.close()
        await self._runner.cleanup()
        await self._fast_paths.end()
        await self.connections.cut_all()
        if self._follower is not None:
            await self._follower
        logger.info("stopped serving %s", fields(url=self.url))

    async def drain(self, _app: web.Application) -> None:
        """Wait for requests in progress. The application's shutdown calls it after the program's own hooks."""
        try:
            async with asyncio.timeout(self._drain_s):
                await self.connections.wait_quiet()
        except TimeoutError:
            logger.warning("requests cancelled %s", fields(drain_s=self._drain_s, connections=len(self.connections)))

    async def probe(self, path: str = "/healthz") -> str | None:
        """Call our own port, for readiness. Returns None if it answers 200, else the problem."""
        # Our own certificate names the service, not the loopback address, and we know what answers here.
        connector = TCPConnector(ssl=False, force_close=True)
        timeout = ClientTimeout(total=_PROBE_TIMEOUT_S)
        try:
            async with (
                ClientSession(connector=connector, timeout=timeout) as session,
                session.get(self.url + path) as got,
            ):
                return None if got.status == 200 else f"{path} answers {got.status}"
        except (ClientError, TimeoutError) as error:
            return f"{path} does not answer: {type(error).__name__}: {error}"


def add_verbs(app: web.Application, verbs: Sequence[Verb]) -> None:
    """Answer ``verbs`` on the fast path, and requests that are not plain enough for it on ordinary routes."""
    app[VERBS] = (*app.get(VERBS, ()), *verbs)

    async def answer_ordinary(verb: Verb, request: web.Request) -> web.Response:
        answer = verb.answer(body_of(request))
        body = answer if isinstance(answer, bytes) else await answer
        return web.Response(body=body, content_type="application/json")

    app.add_routes([web.post(verb.path, partial(answer_ordinary, verb)) for verb in verbs])


async def start_server(app: web.Application, settings: ServeSettings, *, only_client: str = "") -> RunningServer:
    """Serve ``app`` as the settings say; port 0 is read back as ``RunningServer.port``.

    With ``only_client`` a client is served only if its certificate, signed by ``tls_client_ca_file``, has that name.
    A client without a certificate fails the handshake, whatever the path.

    Limits every client: connections, size and time of head and body, time to read the answer. Handlers get a complete
    body; errors of our families become JSON answers (see `answers`), anything else a 500 without details.
    Plain requests to the verbs of the application skip aiohttp, see `scheduler_fast_path`.

    Effects: puts a middleware before the application's own and freezes it.

    Raises:
        ConfigError: the address cannot be listened on, or the TLS files cannot be used.
    """
    files = TlsFiles.from_settings(settings, requires_client=bool(only_client))
    if only_client and (files is None or files.client_ca is None):
        raise ConfigError(f"only {only_client!r} may call, which needs tls-cert-file, tls-key-file, tls-client-ca-file")
    rejected = RejectedCounts()
    tls = None if files is None else FollowedTls(files, lambda: rejected.update([Cause.HANDSHAKE]))
    connections = ConnectionTable(settings, rejected, only_client)
    verbs = {verb.path: verb for verb in app.get(VERBS, ())}
    largest = {path: verb.largest for path, verb in verbs.items() if verb.largest is not None}
    budget = BodyBudget(settings.max_request_size, largest)
    needs_certificate = settings.tls_client_ca_file is not None
    turns = TurnBudget()
    fast_paths = FastPathContext(verbs, budget, settings.request_timeout, needs_certificate, rejected, turns)
    app.middlewares.insert(0, RequestGate(settings, budget, rejected, turns).handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CANCEL_S)
    server = RunningServer(runner, connections, fast_paths, tls)
    app.on_shutdown.append(server.drain)
    await runner.setup()
    try:
        await server.listen(settings)
    except BaseException:
        await runner.cleanup()
        raise
    return server


def _has_ipv6() -> bool:
    """Whether one socket can serve both families: it cannot if the kernel was started with ipv6.disable=1."""
    if not socket.has_dualstack_ipv6():
        return False
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
        try:
            tried.bind(("::", 0))
        except OSError:
            return False
    return True


def _open_socket(address: str, port: int) -> socket.socket:
    is_dual = address == "::" and _has_ipv6()
    bound = "0.0.0.0" if address == "::" and not is_dual else address
    try:
        found = socket.getaddrinfo(bound, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        return socket.create_server(where[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=is_dual)
    except OSError as error:
        raise ConfigError(
            f"listen-address {address!r} with listen-port {port}: cannot listen: {error.strerror or error}; "
            "give an address of this machine and a free port, or port 0 for any"
        ) from error
