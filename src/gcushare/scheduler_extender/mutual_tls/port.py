"""The port of the scheduler's calls: it opens once its certificates exist, and answers the scheduler alone."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from aiohttp import web
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gcushare.kube.client import KubeClient
from gcushare.runtime.http.scheduler_fast_path import Verb
from gcushare.runtime.http.server import RunningServer, add_verbs, start_server
from gcushare.runtime.metrics import HasCertificates
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.shutdown import RootTasks
from gcushare.scheduler_extender.mutual_tls.migration import FirstPort, MovingNodes, NodeNames
from gcushare.scheduler_extender.mutual_tls.mutual_tls_settings import Verbs, VerbsSettings
from gcushare.wire.contracts import PROBED_PATH

if TYPE_CHECKING:
    from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper


class VerbsPort:
    """The scheduler's own port, if the settings ask for one, and whether the first port answers the scheduler too.

    A context manager: on exit it removes the files of the certificates.
    """

    def __init__(self, settings: VerbsSettings, serve: ServeSettings, client: KubeClient) -> None:
        self._settings = settings
        self._serve = serve
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._keeper: CertificateKeeper | None = None
        if self.is_wanted and settings.verbs_secret is not None:
            # Imported here: ``cryptography`` takes 0.15 s to import.
            from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper
            from gcushare.scheduler_extender.mutual_tls.issuing import Terms

            self._folder = tempfile.TemporaryDirectory(prefix="gcushare-verbs-")
            terms = Terms(settings.verbs_server_name, timedelta(days=settings.verbs_certificate_days))
            self._keeper = CertificateKeeper(client, settings.verbs_secret, terms, Path(self._folder.name))
        self.first_port = FirstPort(is_open=settings.verbs in (Verbs.PLAIN, Verbs.BOTH))
        self.nodes = NodeNames()
        """Must be an observer of the watch of nodes."""
        self._moving: MovingNodes | None = None
        if settings.verbs is Verbs.TLS and settings.verbs_reports is not None:
            self._moving = MovingNodes(client, settings.verbs_reports, self.nodes, self.first_port)
        self.server: RunningServer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def is_wanted(self) -> bool:
        return self._settings.verbs.needs_certificates

    def on_first_port(self, verbs: Sequence[Verb]) -> list[Verb]:
        """The calls that the first port knows; it may refuse them for a while."""
        return [] if self._settings.verbs is Verbs.OFF else self.first_port.guard(verbs)

    def certificate_source(self, server: RunningServer) -> HasCertificates:
        """The object that knows when the certificates of this port end; the keeper knows the client's, too."""
        return self._keeper or server

    async def find_obstacle(self) -> str | None:
        """Why the scheduler cannot call yet, for readiness; None if it can."""
        if not self.is_wanted or self.server is not None:
            return None
        return self._keeper.obstacle if self._keeper is not None and self._keeper.obstacle else "its port is not open"

    def start_loops(self, tasks: RootTasks, synced: Callable[[], Awaitable[None]]) -> None:
        """Start the loops that keep the certificates and follow the nodes' move."""
        if self._keeper is not None:
            tasks.start("keep the certificates of the scheduler's calls", self._keeper.run())
        if self._moving is not None:
            tasks.start("follow the schedulers' move to mutual TLS", self._moving.run(synced))

    async def open(self, verbs: Sequence[Verb]) -> RunningServer:
        """Open the port once there are certificates.

        Raises:
            ConfigError: as `start_server` does.
        """
        settings = self._settings
        cert, key, ca = settings.verbs_tls_cert_file, settings.verbs_tls_key_file, settings.verbs_tls_client_ca_file
        if self._keeper is not None:
            await self._keeper.ready.wait()
            files = self._keeper.files
            cert, key, ca = files.cert, files.key, files.client_ca
        app = web.Application()
        add_verbs(app, verbs)
        app.add_routes([web.get(PROBED_PATH, _answer)])
        serve = replace(
            self._serve,
            listen_port=settings.verbs_port,
            tls_cert_file=cert,
            tls_key_file=key,
            tls_client_ca_file=ca,
        )
        self.server = await start_server(app, serve, only_client=settings.verbs_client_name)
        return self.server


async def _answer(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


class FirstPortCollector(Collector):
    """Whether the first port answers the scheduler's calls, for every caller who reaches it."""

    def __init__(self, port: FirstPort) -> None:
        self._port = port

    def collect(self) -> Iterator[Metric]:
        """Compute the figure."""
        yield GaugeMetricFamily(
            "gcushare_extender_open_verbs",
            "Whether the scheduler's calls are answered without mutual TLS, on the first port.",
            value=float(self._port.is_open),
        )
