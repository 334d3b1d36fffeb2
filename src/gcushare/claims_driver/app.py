"""The driver's wiring: parts built once from the settings, their tasks owned by one group."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from pathlib import Path

import msgspec
from aiohttp import web

from gcushare._version import __version__
from gcushare.cards.health import CardsSnapshot
from gcushare.cards.libraries import PCI_DEVICES
from gcushare.cards.pci import PciBus
from gcushare.cards.process_owners import ProcessOwners
from gcushare.claims_driver.claim_checks import ClaimChecks
from gcushare.claims_driver.claim_files import CheckpointFile, ClaimCdiFiles
from gcushare.claims_driver.claim_pods import ClaimPods
from gcushare.claims_driver.claims_driver_settings import COMPONENT, ClaimsDriverSettings
from gcushare.claims_driver.node_agent import NodeAgent, Offer
from gcushare.claims_driver.prepared_claims import GrantForm, PreparedClaims, list_claims
from gcushare.claims_driver.publishers import InventoryWriter, SlicePublisher
from gcushare.claims_driver.registration import Registration
from gcushare.claims_driver.reporting import DriverMetrics, Observed, describe, make_health
from gcushare.claims_driver.service import ClaimsService, HealthStream
from gcushare.claims_driver.slice_plan import SlicePlan
from gcushare.cluster.connection import open_cluster
from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import GcushareError, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.events import EventRecorder
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import NODES, PODS_WITH_CLAIMS, RESOURCE_SLICES, Selector
from gcushare.node.api_server import EventAnnouncer, SliceDrivers
from gcushare.node.cards import open_monitor
from gcushare.node.cdi import CdiSpecFile, CdiSpecPublisher
from gcushare.node.mps.limits import make_limiter
from gcushare.node.mps.watch import make_mps_watch
from gcushare.node.node_settings import OtherSystems, Strategy
from gcushare.node.over_use.parts import OverUseParts, make_over_use
from gcushare.node.pod_resources import list_claims_of_containers
from gcushare.node.pod_use import PodMemoryMonitor
from gcushare.node.status import REGISTRATION_AGE_S
from gcushare.runtime.health import Heartbeat
from gcushare.runtime.http.server import RunningServer, start_server
from gcushare.runtime.metrics import CertificateCollector, metrics_route
from gcushare.runtime.shutdown import EVENTS_DRAIN_S, REQUESTS_DRAIN_S, RootTasks, Shutdown, root_tasks
from gcushare.wire.dra.claims import POD_WITH_CLAIMS
from gcushare.wire.dra.slices import RESOURCE_SLICE
from gcushare.wire.objects import NODE

logger = logging.getLogger(__name__)


class ClaimsDriverApp:
    """One node's driver for one vendor; ``server`` is set once it listens."""

    def __init__(self, settings: ClaimsDriverSettings, client: KubeClient, metrics: DriverMetrics) -> None:
        self._settings, cards = settings, settings.cards
        self._vendor = vendor = cards.vendor
        self._driver = driver = vendor.claims.driver
        self._node_name = node = settings.node.node_name
        self._kubelet_dir = settings.node.kubelet_dir
        self._pod_resources = self._kubelet_dir / "pod-resources" / "kubelet.sock"
        self._client = client
        self._recorder = EventRecorder(client, COMPONENT, host=node)
        self._recovery = "the checkpoint was not read yet"
        self.metrics = metrics
        self.server: RunningServer | None = None
        rng = random.Random()
        self._limiter = make_limiter(settings.limits)
        form = GrantForm(vendor, settings.node.device_list_strategy, settings.node.driver_dirs, self._limiter)
        cdi_files = ClaimCdiFiles(settings.node.cdi_dir, driver)
        directory = self._kubelet_dir / "plugins" / driver
        self._prepared = PreparedClaims(form, node, CheckpointFile(directory), cdi_files)
        self._pods = ClaimPods(self._prepared, cards.unit, node)
        self._publisher = SlicePublisher(client, driver, node, rng)
        self._health = HealthStream(node, time.time)
        wants_cdi = Strategy.CDI in settings.node.device_list_strategy
        self._cdi = CdiSpecPublisher(CdiSpecFile(settings.node.cdi_dir, vendor), is_wanted=wants_cdi)
        self._writer = InventoryWriter(client, node, vendor.inventory_annotation, rng)
        self._agent = NodeAgent(
            Offer(cards.unit, cards.reserve, cards.card_policy, cards.other_systems),
            SlicePlan(vendor, node, PciBus(PCI_DEVICES).root),
            self._prepared,
            self._publisher,
            self._health,
            self._cdi,
            self._writer,
        )
        self._monitor = open_monitor(cards, settings.health, self._on_cards, time.monotonic)
        self._registration = self._make_registration(directory)
        self._checks = ClaimChecks(
            self._prepared,
            self._pods,
            client,
            claims_of_containers=lambda: list_claims_of_containers(self._pod_resources),
            running=self._read_running,
            announce=self._announce,
            clock=time.monotonic,
        )
        self._announcer = EventAnnouncer(self._recorder, node)
        self._pod_use: PodMemoryMonitor | None = None
        self._over_use: OverUseParts | None = None
        if cards.pod_use:
            self._follow_use(client, rng)
        self._mps = make_mps_watch(
            self._limiter, self._pods, self._announcer, self._offer_again, is_known=lambda: not self._recovery
        )
        self._node_watch = Reflector(
            client, NODES, self._agent, decode=NODE.read, selector=Selector(fields=f"metadata.name={node}"), rng=rng
        )
        own_slices = Selector(fields=f"spec.nodeName={node},spec.driver={driver}")
        self._slice_drivers = SliceDrivers(client, node)
        self._slice_watch = Reflector(
            client, RESOURCE_SLICES, self._publisher, decode=RESOURCE_SLICE.read, selector=own_slices, rng=rng
        )
        self.observed = self._observe()
        self.metrics.follow(self.observed)

    def _observe(self) -> Observed:
        return Observed(
            vendor=self._vendor.name,
            node=self._node_name,
            inventory=lambda: self._agent.inventory,
            pods=self._pods,
            pod_use=self._pod_use,
            over_use=self._over_use,
            mps=self._mps,
            agent=self._agent,
            checks=self._checks,
            prepared=self._prepared,
            publisher=self._publisher,
            writer=self._writer,
            registration=self._registration,
            cdi=self._cdi,
            cards=lambda: self._monitor.snapshot,
            recovery=lambda: self._recovery,
        )

    def _on_cards(self, cards: CardsSnapshot) -> None:
        """Offer the cards, except those whose memory limit is required but failed."""
        self._agent.on_cards(cards if self._limiter is None else self._limiter.close_cards(cards))

    def _offer_again(self) -> None:
        if self._monitor.polls:
            self._on_cards(self._monitor.snapshot)

    def _follow_use(self, client: KubeClient, rng: random.Random) -> None:
        """Watch this node's pods, and read what each of them uses of the cards."""
        settings, node = self._settings, self._node_name
        owners = ProcessOwners(settings.cards.proc_root)
        pod_use = self._pod_use = PodMemoryMonitor(self._monitor, self._pods, owners, own_pid=os.getpid())
        self._pod_watch = Reflector(
            client,
            PODS_WITH_CLAIMS,
            self._pods,
            decode=POD_WITH_CLAIMS.read,
            selector=Selector(fields=f"spec.nodeName={node}"),
            settings=ReflectorSettings(from_cache=True),
            rng=rng,
        )
        self._over_use = make_over_use(
            settings.over_use,
            pod_use,
            self._monitor,
            self._pods,
            announcer=self._announcer,
            client=client,
            inventory=lambda: self._agent.inventory,
            hands_out_alone=lambda: (
                self._settings.cards.other_systems is OtherSystems.REFUSE and not self._agent.problem
            ),
        )

    def _make_registration(self, directory: Path) -> Registration:
        """Build the sockets through which the kubelet finds and calls the driver; nothing is served yet."""
        service = ClaimsService(
            self._prepared,
            self._client,
            self._health,
            inventory=self._agent.inventory_to_grant,
            claims_of_containers=lambda: list_claims_of_containers(self._pod_resources),
            pool=self._node_name,
            clock=time.perf_counter,
            observe=self.metrics.observe_call,
        )
        driver = self._driver
        return Registration(
            driver,
            socket=directory / "dra.sock",
            registry_socket=self._kubelet_dir / "plugins_registry" / f"{driver}-reg.sock",
            handlers=service.handlers(),
            pulse=Heartbeat("registration", REGISTRATION_AGE_S),
        )

    async def run(self, shutdown: Shutdown) -> int:
        """Run until the shutdown; returns the exit code."""
        server = self.server = await start_server(self._web(), self._settings.serve)
        self.metrics.registry.register(CertificateCollector([server]))
        logger.info("serving %s", fields(url=server.url, version=__version__, node=self._node_name))
        try:
            async with root_tasks(shutdown, drain_s=REQUESTS_DRAIN_S) as tasks:
                self._start(tasks, shutdown)
        finally:
            await server.stop(REQUESTS_DRAIN_S)
        return 0

    def _start(self, tasks: RootTasks, shutdown: Shutdown) -> None:
        tasks.start("node watch", self._node_watch.run())
        tasks.start("slice watch", self._slice_watch.run())
        tasks.start("slices", self._publisher.run())
        tasks.start("inventory", self._writer.run())
        tasks.start("events", self._recorder.run())
        tasks.start("last events", self._drain(shutdown), drains=True)
        tasks.start("driver", self._serve_claims())
        if self._mps is not None:
            tasks.start("MPS daemon", self._mps.run())
        if self._over_use is not None:
            tasks.start("pod watch", self._pod_watch.run())
            self._over_use.start(tasks)

    async def _drain(self, shutdown: Shutdown) -> None:
        """End the health streams, and let events that were recorded before the stop be posted."""
        await shutdown.wait()
        self._health.hang_up()
        await self._recorder.drain(EVENTS_DRAIN_S)

    async def _serve_claims(self) -> None:
        """Serve only what is known: the checkpoint first, then the cards, then registration and slices."""
        await self._load_checkpoint()
        if self._mps is not None:
            self._mps.poll()
        await self._monitor.poll()
        self._agent.on_drivers(await self._slice_drivers.read())
        self._on_cards(self._monitor.snapshot)
        async with asyncio.TaskGroup() as group:
            drivers = self._agent.follow_drivers(self._slice_drivers, self._announce)
            group.create_task(drivers, name="other drivers")
            group.create_task(self._monitor.run(), name="cards")
            group.create_task(self._registration.run(), name="registration")
            plugin_pods = self._agent.follow_plugin_pods(self._pod_resources, self._announce)
            group.create_task(plugin_pods, name="plugin's holdings")
            group.create_task(self._checks.run(), name="orphaned claims")

    async def _load_checkpoint(self) -> None:
        """Read the checkpoint, or rebuild an unreadable one from the API server's claims, however long that takes.

        Until then nothing is served: the kubelet waits for a driver that is away.
        """
        backoff = Backoff(BackoffPolicy(), random.Random())
        while True:
            try:
                await self._load_or_rebuild()
            except GcushareError as error:
                delay_s = backoff.next_delay_s(error)
                self._recovery = str(error)
                logger.error("claims not known; will retry %s", fields(reason=error, delay_s=round(delay_s, 1)))
                self._registration.pulse.beat()
                await asyncio.sleep(delay_s)
            else:
                self._recovery = ""
                return

    async def _load_or_rebuild(self) -> None:
        try:
            self._prepared.load()
        except RemoteContractError as error:
            self._announce("CheckpointUnreadable", f"{error}; it is rebuilt from the claims on this node")
            found = await list_claims(self._client, self._driver, self._node_name)
            aside = self._prepared.rebuild(found)
            logger.error(
                "the checkpoint was unreadable and was rebuilt %s",
                fields(reason=error, copy=aside, claims=len(self._prepared.claims)),
            )

    async def _read_running(self) -> frozenset[str] | None:
        """The pods with processes on this machine, if it may be looked at."""
        if self._pod_use is None:
            return None
        return await asyncio.to_thread(ProcessOwners(self._settings.cards.proc_root).running_pods)

    def _announce(self, reason: str, message: str) -> None:
        logger.warning("%s", message)
        self._announcer.about_node(reason, message, warning=True)

    def _web(self) -> web.Application:
        app = web.Application()
        interval_s = self._settings.cards.poll_interval
        app.add_routes(make_health(self.observed, lambda: self._monitor.polls, interval_s).routes())
        app.add_routes([metrics_route(self.metrics.registry), web.get("/status", self._get_status)])
        return app

    async def _get_status(self, _request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(describe(self.observed)), content_type="application/json")


async def run_claims_driver(settings: ClaimsDriverSettings, shutdown: Shutdown) -> int:
    """Run the driver of this node until the shutdown."""
    metrics = DriverMetrics()
    async with open_cluster(settings.kube, program=COMPONENT, observer=metrics.observe_request) as client:
        return await ClaimsDriverApp(settings, client, metrics).run(shutdown)
