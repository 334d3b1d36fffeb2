"""The two ports that answer the scheduler: its own over mutual TLS, and the first one until every node has moved."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.resources import CONFIG_MAPS
from gcushare.runtime.http.scheduler_fast_path import FastPathHandler, Verb
from gcushare.runtime.http.server import RunningServer, add_verbs, start_server
from gcushare.runtime.settings.parsers import ObjectName
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.shutdown import RootTasks, Shutdown
from gcushare.scheduler_extender.mutual_tls.mutual_tls_settings import Verbs, VerbsSettings
from gcushare.wire.contracts import PROBED_PATH, VERBS_PORT
from gcushare.wire.documents.node_report import Calls, decode_node_reports
from gcushare.wire.objects import Node

if TYPE_CHECKING:
    from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper

logger = logging.getLogger(__name__)

_CHECK_EVERY_S = 10.0
_MOVED = frozenset({Calls.MUTUAL_TLS.value, Calls.NONE.value})


class FirstPort:
    """Whether the first port answers the scheduler's calls too; an observer of nodes.

    On an upgrade to ``verbs tls`` the config-managers move one scheduler after another. Until the last one has
    reported, ``run`` keeps this port open for those that were not moved yet. In a cluster that begins with mutual TLS
    it is never open.
    """

    def __init__(self, verbs: Verbs, client: KubeClient, *, clock: Clock | None = None) -> None:
        self._verbs = verbs
        self._client = client
        self._clock = clock or SystemClock()
        self.is_open = verbs in (Verbs.PLAIN, Verbs.BOTH)
        self._nodes: set[str] = set()
        """The names of all nodes. Reports of nodes that are gone do not count."""
        self._waits_for: tuple[str, ...] = ()
        self._problem = ""

    def on_node_update(self, node: Node) -> None:
        self._nodes.add(node.metadata.name)

    def on_node_delete(self, name: str) -> None:
        self._nodes.discard(name)

    def guard(self, verbs: Sequence[Verb]) -> list[Verb]:
        """The calls that this port knows: each checks first whether the port is open."""

        def ask(answer: FastPathHandler, body: bytes) -> bytes | Awaitable[bytes]:
            if not self.is_open:
                raise ForbiddenError(
                    f"the scheduler's calls are answered over mutual TLS on port {VERBS_PORT} alone; "
                    "a scheduler that cannot needs scheduler.verbs=plain, see docs/security.md"
                )
            return answer(body)

        if self._verbs is Verbs.OFF:
            return []
        return [replace(verb, answer=partial(ask, verb.answer)) for verb in verbs]

    async def run(self, reports: ObjectName, synced: Callable[[], Awaitable[None]]) -> None:
        """Check the nodes' reports until cancelled, from when ``synced`` returns: then all nodes are known."""
        await synced()
        while True:
            await self.check(reports)
            await self._clock.sleep(_CHECK_EVERY_S)

    async def check(self, reports: ObjectName) -> None:
        """Check once. If the reports cannot be read, nothing changes."""
        try:
            found = await self._client.get(CONFIG_MAPS, reports.name, namespace=reports.namespace)
        except NotFoundError:
            found = {}
        except GcushareError as error:
            if str(error) != self._problem:
                logger.warning("reports of nodes not read %s", fields(config_map=reports, reason=error))
            self._problem = str(error)
            return
        self._problem = ""
        reported = decode_node_reports(found.get("data") or {})
        waits_for = tuple(each.node for each in reported if each.node in self._nodes and each.calls not in _MOVED)
        if waits_for != self._waits_for:
            logger.info("schedulers that do not call over mutual TLS %s", fields(nodes=", ".join(waits_for) or "none"))
        self._waits_for = waits_for
        self.is_open = bool(waits_for)


class VerbsPort:
    """The scheduler's own port, if the settings ask for one, and whether the first port answers the scheduler too."""

    def __init__(self, settings: VerbsSettings, serve: ServeSettings, client: KubeClient) -> None:
        self._settings = settings
        self._serve = serve
        self.is_wanted = settings.verbs.needs_certificates
        self.folder: AbstractContextManager[object] = nullcontext()
        """Holds the files of the certificates until it is left."""
        self.keeper: CertificateKeeper | None = None
        """Keeps the certificates, if they are in a Secret; it knows when those of both sides end."""
        if (self.is_wanted or settings.tls_from_verbs_secret) and settings.verbs_secret is not None:
            # Imported here: ``cryptography`` takes 0.15 s to import.
            from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper
            from gcushare.scheduler_extender.mutual_tls.issuing import Terms

            self.folder = folder = tempfile.TemporaryDirectory(prefix="gcushare-verbs-")
            terms = Terms(settings.verbs_server_name)
            self.keeper = CertificateKeeper(client, settings.verbs_secret, terms, Path(folder.name))
        self.first_port = FirstPort(settings.verbs, client)
        self.server: RunningServer | None = None

    async def find_obstacle(self) -> str | None:
        """Why the scheduler cannot call yet, for readiness; None if it can."""
        if not self.is_wanted or self.server is not None:
            return None
        return self.keeper.obstacle if self.keeper is not None and self.keeper.obstacle else "its port is not open"

    def start_loops(self, tasks: RootTasks, synced: Callable[[], Awaitable[None]]) -> None:
        """Start the loops that keep the certificates and follow the nodes' move."""
        if self.keeper is not None:
            tasks.start("keep the certificates of the scheduler's calls", self.keeper.run())
        if self._settings.verbs is Verbs.TLS and self._settings.verbs_reports is not None:
            following = self.first_port.run(self._settings.verbs_reports, synced)
            tasks.start("follow the schedulers' move to mutual TLS", following)

    async def first_port_settings(self, shutdown: Shutdown) -> ServeSettings | None:
        """How the first port is served; None if the program has to stop before there is a certificate for it."""
        if self.keeper is None or not self._settings.tls_from_verbs_secret:
            return self._serve
        waits = [asyncio.ensure_future(each.wait()) for each in (self.keeper.ready, shutdown)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        if not self.keeper.ready.is_set():
            return None
        files = self.keeper.files
        return replace(self._serve, tls_cert_file=files.cert, tls_key_file=files.key)

    async def open(self, verbs: Sequence[Verb]) -> RunningServer:
        """Open the port once there are certificates.

        Raises:
            ConfigError: as `start_server` does.
        """
        settings = self._settings
        cert, key, ca = settings.verbs_tls_cert_file, settings.verbs_tls_key_file, settings.verbs_tls_client_ca_file
        if self.keeper is not None:
            await self.keeper.ready.wait()
            files = self.keeper.files
            cert, key, ca = files.cert, files.key, files.client_ca

        async def answer_probe(_: web.Request) -> web.Response:
            return web.Response(text="ok\n")

        app = web.Application()
        add_verbs(app, verbs)
        app.add_routes([web.get(PROBED_PATH, answer_probe)])
        serve = replace(
            self._serve, listen_port=settings.verbs_port, tls_cert_file=cert, tls_key_file=key, tls_client_ca_file=ca
        )
        self.server = await start_server(app, serve, only_client=settings.verbs_client_name)
        return self.server
