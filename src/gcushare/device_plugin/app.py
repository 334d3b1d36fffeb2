"""The plugin's wiring: parts built once from the settings, their tasks owned by one group."""

from __future__ import annotations

import asyncio
import logging
import os
import time

import prometheus_client
from aiohttp import web

from gcushare._version import __version__
from gcushare.cards.auto import SourceOptions, open_source
from gcushare.cards.monitor import CardMonitor, MonitorSettings
from gcushare.core.errors import DeviceError
from gcushare.device_plugin.allocating import Allocator
from gcushare.device_plugin.api_edges import ApiPatcher, EventAnnouncer, NodeSink, PodSink, decode_node, decode_pod
from gcushare.device_plugin.cdi import CdiSpecFile
from gcushare.device_plugin.delivery import Delivery, Strategy
from gcushare.device_plugin.device_table import DeviceTable
from gcushare.device_plugin.endpoint import Endpoint, EndpointSettings
from gcushare.device_plugin.kubelet_record import CHECKPOINT_NAME, KubeletRecord, KubeletRecordReader
from gcushare.device_plugin.metrics import Observed, PluginMetrics
from gcushare.device_plugin.node_agent import CardsSeen, NodeAgent, Parts
from gcushare.device_plugin.planning import CardStatus, Offer
from gcushare.device_plugin.pod_book import PodBook, RecordWrite
from gcushare.device_plugin.publishing import Publisher
from gcushare.device_plugin.record_keeping import RecordKeeper
from gcushare.device_plugin.service import DevicePluginService
from gcushare.device_plugin.settings import PluginSettings
from gcushare.device_plugin.status import describe_node, problems
from gcushare.kube.client import KubeClient
from gcushare.kube.config import ConfigSources, load_config
from gcushare.kube.events import EventRecorder
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import NODES, PODS, Selector
from gcushare.runtime.health import Health
from gcushare.runtime.logs import fields
from gcushare.runtime.serving import RunningServer, start_server
from gcushare.runtime.shutdown import RootTasks, Shutdown, root_tasks
from gcushare.vendors import VENDORS_BY_NAME

logger = logging.getLogger(__name__)

COMPONENT = "gcushare-device-plugin"
DRAIN_S = 3.0
FACTS_TIMEOUT_S = 10.0
"""How long the start waits for the API server: running pods and the kubelet must not wait for it longer."""


class _Observer:
    """Breaks the circle between keeper and agent: the keeper reports to it, the agent is set once it is built."""

    agent: NodeAgent

    def record_written(self, write: RecordWrite) -> None:
        self.agent.record_written(write)

    def kubelet_record_read(self, record: KubeletRecord) -> None:
        self.agent.kubelet_record_read(record)


class PluginApp:
    """One node's plugin for one vendor."""

    def __init__(self, settings: PluginSettings, client: KubeClient) -> None:
        vendor = VENDORS_BY_NAME[settings.cards.vendor.value]
        kubelet = settings.kubelet
        self._settings = settings
        self._client = client
        self._recorder = EventRecorder(client, COMPONENT, host=kubelet.node_name)
        self.metrics = PluginMetrics()
        table, book, patcher, observer = (
            DeviceTable(),
            PodBook(vendor),
            ApiPatcher(client, kubelet.node_name),
            _Observer(),
        )
        self._reader = KubeletRecordReader(
            vendor.memory_resource,
            pod_resources_socket=kubelet.pod_resources_socket,
            checkpoint=kubelet.device_plugin_dir / CHECKPOINT_NAME,
            clock=time.monotonic,
        )
        self._keeper = RecordKeeper(
            book, self._reader, patcher, observer, clock=time.monotonic, wall_clock_ns=time.time_ns
        )
        allocator = Allocator(
            book,
            Delivery(vendor, kubelet.device_list_strategy),
            wait_for_pod_s=kubelet.wait_for_pod,
            clock=time.monotonic,
            on_allocated=self._keeper.note_allocation,
        )
        self._publisher = Publisher(vendor, patcher)
        announcer = EventAnnouncer(self._recorder, kubelet.node_name)
        offer = Offer(
            vendor=vendor, unit=settings.cards.memory_unit or vendor.default_unit, reserve=settings.cards.reserve
        )
        parts = Parts(book, table, allocator, self._keeper, self._publisher, announcer)
        self._agent = observer.agent = NodeAgent(offer, parts)
        service = DevicePluginService(table, allocator, clock=time.perf_counter, observe=self.metrics.observe_call)
        self._endpoint = Endpoint(
            EndpointSettings(kubelet.device_plugin_dir, vendor.memory_resource, vendor.plugin_socket),
            service.handler(),
            table,
            on_registered=self._keeper.check_soon,
        )
        self._monitor = CardMonitor(
            open_source(_source_options(settings)),
            lambda _changes: self._take_cards(),
            MonitorSettings(poll_interval_s=settings.cards.poll_interval),
        )
        self._cdi = CdiSpecFile(kubelet.cdi_dir, vendor) if Strategy.CDI in kubelet.device_list_strategy else None
        self._observed = Observed(
            vendor=vendor.name,
            node=kubelet.node_name,
            agent=self._agent,
            book=book,
            keeper=self._keeper,
            endpoint=self._endpoint,
            states=lambda: self._monitor.states,
        )
        self.metrics.follow(self._observed)
        self._pods = Reflector(
            client,
            PODS,
            PodSink(self._agent),
            decode=decode_pod,
            selector=Selector(fields=f"spec.nodeName={kubelet.node_name}"),
            settings=ReflectorSettings(from_cache=True),
        )
        self._node = Reflector(
            client,
            NODES,
            NodeSink(self._agent),
            decode=decode_node,
            selector=Selector(fields=f"metadata.name={kubelet.node_name}"),
        )

    async def run(self, shutdown: Shutdown) -> int:
        """Run until the shutdown; returns the exit code."""
        server = await start_server(self._web(), self._settings.serve)
        logger.info("serving %s", fields(url=server.url, version=__version__, node=self._settings.kubelet.node_name))
        try:
            async with root_tasks(shutdown, drain_s=DRAIN_S) as tasks:
                self._start(tasks)
        finally:
            await server.stop(DRAIN_S)
            await self._recorder.drain(1.0)
            await self._reader.close()
        return 0

    def _start(self, tasks: RootTasks) -> None:
        tasks.start("pod watch", self._pods.run())
        tasks.start("node watch", self._node.run())
        tasks.start("events", self._recorder.run())
        tasks.start("cards", self._run_cards())
        tasks.start("kubelet record", self._keeper.run_checks())
        tasks.start("pod records", self._keeper.run_writes())
        tasks.start("node publishing", self._publisher.run())
        tasks.start("kubelet registration", self._register())

    async def _run_cards(self) -> None:
        if self._settings.cards.fail_without_cards:
            await self._monitor.look()
            if not self._monitor.states:
                raise DeviceError(f"no cards and --fail-without-cards: {self._monitor.problem}")
        await self._wait_for_facts()
        await self._monitor.look()
        self._take_cards()
        await self._monitor.run()

    async def _wait_for_facts(self) -> None:
        """Know the Node (its cordons, the unit before) and who holds what before the first list; bounded."""
        await self._keeper.check()
        try:
            async with asyncio.timeout(FACTS_TIMEOUT_S):
                await self._node.synced.wait()
        except TimeoutError:
            logger.warning("starting without the Node object %s", fields(node=self._settings.kubelet.node_name))

    async def _register(self) -> None:
        """Register once there is a list to tell, and stay registered."""
        await self._agent.offered.wait()
        await self._endpoint.run()

    def _take_cards(self) -> None:
        statuses = tuple(CardStatus(state.card, state.health, state.reason) for state in self._monitor.states)
        self._agent.cards_changed(
            CardsSeen(statuses, self._monitor.left_out, self._monitor.driver, "" if statuses else self._monitor.problem)
        )
        if self._cdi is not None and self._agent.inventory is not None:
            self._cdi.write(self._agent.inventory)

    def _web(self) -> web.Application:
        app = web.Application()
        health = Health()
        health.add_ready("plugin", self._check_ready)
        app.add_routes(health.routes())
        app.add_routes([web.get("/metrics", self._get_metrics), web.get("/status", self._get_status)])
        return app

    async def _check_ready(self) -> str | None:
        found = problems(self._observed)
        return "; ".join(f"{name}: {problem}" for name, problem in found.items()) or None

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        body = prometheus_client.generate_latest(self.metrics.registry)
        return web.Response(body=body, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})

    async def _get_status(self, _request: web.Request) -> web.Response:
        return web.json_response(describe_node(self._observed))


def _source_options(settings: PluginSettings) -> SourceOptions:
    cards = settings.cards
    return SourceOptions(
        cards=cards.cards,
        efml_library=str(cards.efml_library or ""),
        nvml_library=str(cards.nvml_library or ""),
        prefer="efml" if cards.vendor.value == "enflame" else "nvml",
    )


async def run_plugin(settings: PluginSettings, shutdown: Shutdown) -> int:
    """Run the plugin of this node until the shutdown."""
    environ = {**os.environ, "KUBECONFIG": settings.kube.kubeconfig or ""}
    config = load_config(ConfigSources(context=settings.kube.kube_context, environ=environ))
    async with KubeClient(config) as client:
        return await PluginApp(settings, client).run(shutdown)


__all__ = ["PluginApp", "RunningServer", "run_plugin"]
