"""A server's socket: TLS if configured, its connections, and a drain at the end."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable

from gcushare.core.errors import ConfigError
from gcushare.core.log_fields import fields
from gcushare.runtime.http.answers import Cause, RejectedCounts
from gcushare.runtime.http.connections import ConnectionTable
from gcushare.runtime.http.handshakes import TlsListener
from gcushare.runtime.http.tls import CertificateEnd, FollowedTls, TlsFiles
from gcushare.runtime.settings.serving import ServeSettings

logger = logging.getLogger(__name__)

# Connections that the kernel completes while the loop is busy; Linux caps it at net.core.somaxconn.
_BACKLOG = 1024


class RunningServer:
    """A server that listens; started by `page_server` or `scheduler_server`, ended by `stop`.

    With ``requires_client``, the handshake of a client without a certificate fails.

    Raises:
        ConfigError: the TLS files cannot be used.
    """

    def __init__(self, settings: ServeSettings, connections: ConnectionTable, *, requires_client: bool = False) -> None:
        self._settings = settings
        self.connections = connections
        """The connections now: `len` counts the open ones."""
        self.rejected = RejectedCounts()
        files = TlsFiles.from_settings(settings, requires_client=requires_client)
        self._tls = None if files is None else FollowedTls(files, lambda: self.rejected.update([Cause.HANDSHAKE]))
        self._end: Callable[[float], Awaitable[None]] = connections.drain
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

    async def listen(self, make: Callable[[], asyncio.Protocol], end: Callable[[float], Awaitable[None]]) -> None:
        """Open the socket. ``make`` creates the protocol of a connection; ``end`` ends the requests, in some seconds.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        settings, tls = self._settings, self._tls
        sock = _open_socket(settings.listen_address, settings.listen_port)
        self.host, self.port = sock.getsockname()[:2]
        self._end = end

        def report_follower(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                logger.error("TLS files are no longer followed, restart to load new ones", exc_info=task.exception())

        if tls is None:
            self._listener = await asyncio.get_running_loop().create_server(make, sock=sock, backlog=_BACKLOG)
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
        if self._listener is not None:
            self._listener.close()
        if self._tls_listener is not None:
            await self._tls_listener.close()
        await self._end(drain_s)
        await self.connections.cut_all()
        if self._follower is not None:
            await self._follower
        logger.info("stopped serving %s", fields(url=self.url))


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
