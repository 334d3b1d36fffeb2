"""The page over real HTTP without an API server: the extender's own states, the dashboard's own routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from aiohttp import web

from gcushare.cluster.watch_handlers import NodeHandler, PodHandler
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.connection.config import KubeConfig
from gcushare.runtime.http.page_server import start_server
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.scheduler_extender.dashboard.dashboard_settings import Access, DashboardSettings
from gcushare.scheduler_extender.dashboard.feed import Feed
from gcushare.scheduler_extender.dashboard.metadata_cache import MetadataCache
from gcushare.scheduler_extender.dashboard.routes import Dashboard
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.leadership import Serving
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.annotations import PodRecord
from gcushare.wire.objects import Node, Pod
from tests.extender_objects import DEFAULT_POLICIES, a_pod, on_card
from tests.unit.extender_binds import Office

NOWHERE = "http://127.0.0.1:9"


def handed_out(index: int, units: int) -> PodRecord:
    """The record of a pod whose containers run."""
    return replace(on_card(index, units), assigned=True)


def holding(name: str, node: str, units: int, *, index: int = 0, **options: Any) -> Pod:
    """A pod that runs on a card of a node."""
    return a_pod(name, units, node=node, record=handed_out(index, units), **options)


class PageRig:
    """Serves the page. ``see`` and ``lose`` are what the watches would bring; ``client`` reviews tokens."""

    def __init__(
        self,
        *,
        vendors: Sequence[Vendor] = (ENFLAME,),
        access: Access = Access.OPEN,
        client: KubeClient | None = None,
        readers: int = 64,
        port: int = 0,
    ) -> None:
        self._port = port
        self.states = [VendorState(vendor, DEFAULT_POLICIES) for vendor in vendors]
        self._settings = DashboardSettings(dashboard=access, dashboard_readers=readers)
        self._client = client or KubeClient(KubeConfig(NOWHERE, "nowhere"))
        self.feed = Feed(self.states)
        observers: list[VendorState | MetadataCache] = [*self.states, self.feed.metadata]
        self.nodes: NodeHandler = NodeHandler(observers)
        self.pods: PodHandler = PodHandler(observers)
        self.watch_age_s: float | None = 0.5
        self.leadership = Office(holder="extender-0_1_abcd")
        self.serving = Serving(self.leadership)
        self.serving.is_synced = True
        self.server: RunningServer

    async def __aenter__(self) -> Self:
        app = web.Application()
        explains = {state.vendor.name: ExplainService(state) for state in self.states}
        page = Dashboard(
            self._settings, self._client, self.feed, self.serving, lambda: self.watch_age_s, explains, SystemClock()
        )
        app.add_routes(page.routes())
        self.server = await start_server(app, ServeSettings(listen_address="127.0.0.1", listen_port=self._port))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.serving.stopping.set()
        await self.server.stop(1.0)

    @property
    def url(self) -> str:
        """The page."""
        return f"{self.server.url}/dashboard/"

    def see(self, *objects: Node | Pod) -> None:
        """Let the watches bring these."""
        for each in objects:
            if isinstance(each, Node):
                self.nodes.applied(each)
            else:
                self.pods.applied(each)

    def lose(self, *objects: Node | Pod) -> None:
        """Let the watches say that these are gone."""
        for each in objects:
            if isinstance(each, Node):
                self.nodes.deleted(each)
            else:
                self.pods.deleted(each)
