"""The server: real HTTP over a storage that outlives it."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from gcushare_playground.apiserver.authorization import AllowAll, Authorizer, RequestRecord
from gcushare_playground.apiserver.bootstrap import ensure_cluster
from gcushare_playground.apiserver.controllers import ControllerManager
from gcushare_playground.apiserver.faults import FaultBoard
from gcushare_playground.apiserver.handling import Handler
from gcushare_playground.apiserver.identities import ADMIN, Identities, User
from gcushare_playground.apiserver.kubeconfig import write_kubeconfig
from gcushare_playground.apiserver.logs import LogProvider, Logs
from gcushare_playground.apiserver.registry import Registry
from gcushare_playground.apiserver.storage import Storage
from gcushare_playground.apiserver.watching import Watches
from gcushare_playground.lifetime import Startable

_log = logging.getLogger(__name__)

_HOST = "127.0.0.1"
_TURNS_TO_ACCEPT = 4
"""Turns of the event loop from the acceptance of a connection to its protocol, and one to spare."""


@dataclass(frozen=True, slots=True)
class ApiServerConfig:
    """How one server is to behave."""

    version: str = "v1.36.2"
    """What /version says; kubectl chooses requests by it."""
    history_limit: int = 10_000
    """Changes remembered per kind: a watch from before them gets 410."""
    bookmark_interval_s: float = 10.0
    """kube-apiserver sends bookmarks about once a minute; here demos and tests are shorter."""
    anonymous: User | None = ADMIN
    """Who a request without a token is; None: no one (401)."""
    authorizer: Authorizer | None = None
    """None: everybody may do everything."""
    runs_controllers: bool = True
    """False: workloads create no pods, services get no endpoints, owners are not collected."""
    clock: Callable[[], float] = time.time


class ApiServer(Startable):
    """A Kubernetes API server double.

    ``async with ApiServer(ApiServerConfig()) as server`` serves until the block ends; :meth:`stop` and
    :meth:`start` in between are a restart that keeps what is stored.
    """

    def __init__(self, config: ApiServerConfig | None = None) -> None:
        self.config = config or ApiServerConfig()
        self.store = Storage(self.config.history_limit)
        self.registry = Registry(self.store, self.config.clock)
        self.faults = FaultBoard()
        self.identities = Identities(self.config.anonymous)
        self.requests = RequestRecord()
        self.authorizer: Authorizer = self.config.authorizer or AllowAll()
        """Asked for every request; may be replaced while serving."""
        self._logs = Logs(self.registry)
        self._watches = Watches(self.store, self.config.bookmark_interval_s)
        self.handler = Handler(self, self._logs, self._watches, self.config.version)
        self._controllers = ControllerManager(self.registry)
        self._port_holder: socket.socket | None = None
        """Bound to our port and silent, so that no one else on this machine gets it while the server is stopped."""
        self._web: web.Server | None = None
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"http://{_HOST}:{self._port_holder.getsockname()[1] if self._port_holder else 0}"

    async def start(self) -> None:
        """Begin to serve, on any free port at first and on the same one later.

        What a cluster always has (namespaces, the kubernetes service) is created where missing.
        """
        if self._listener is not None:
            return
        ensure_cluster(self.registry)
        self._web = web.Server(self.handler, handler_cancellation=True, access_log=None)
        if self._port_holder is None:
            self._port_holder = socket.socket()
            weakref.finalize(self, self._port_holder.close)
            self._port_holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._port_holder.bind((_HOST, 0))
        self._listener = await asyncio.get_running_loop().create_server(
            self._web, _HOST, self._port_holder.getsockname()[1], reuse_port=True
        )
        if self.config.runs_controllers:
            self._controllers.start()
        _log.info("serving url=%s version=%s", self.url, self.config.version)

    async def stop(self) -> None:
        """Refuse connections and break the open ones; everything stored stays."""
        if self._listener is None or self._web is None:
            return
        listener, self._listener = self._listener, None
        listener.close()
        # Connections that were accepted a moment ago get their protocol in the next turns of the loop: left alone they
        # would stay open without anybody to answer, and their clients would wait for their own timeouts.
        for _ in range(_TURNS_TO_ACCEPT):
            self._break_connections(self._web)
            await asyncio.sleep(0)
        await self._web.shutdown(0)
        self._break_connections(self._web)
        await listener.wait_closed()
        await self._controllers.stop()
        _log.info("stopped url=%s", self.url)

    @staticmethod
    def _break_connections(server: web.Server) -> None:
        for connection in list(server.connections):
            if connection.transport is not None:
                connection.transport.abort()

    async def restart(self) -> None:
        """Stop and start on the same port; without its history, as a real one, so that older watches get 410."""
        await self.stop()
        self.store.compact(self.store.version)
        await self.start()

    def add_user(self, user: User) -> str:
        """Return a bearer token for a user."""
        return self.identities.issue(user)

    def kubeconfig(self, path: Path, user: User | None = None, *, namespace: str = "default") -> Path:
        """Write a kubeconfig for this server, with a token where a user is named; return its path."""
        token = self.add_user(user) if user else None
        return write_kubeconfig(path, self.url, token=token, authority=None, namespace=namespace)

    def register_logs(self, node: str, provider: LogProvider) -> None:
        """Let a provider answer ``kubectl logs`` for the pods of a node."""
        self._logs.register(node, provider)
