"""What both ways of giving out a node's cards have in common; ``app`` and ``claims.app`` are the two.

A node gives its cards in one way at a time. ``device_plugin.program`` starts one, and changes to the other when the
node's label asks for it and nothing holds cards in the first.
"""

from __future__ import annotations

import abc
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from aiohttp import web

from gcushare.cards.health import CardsSnapshot
from gcushare.cards.monitor import CardMonitor
from gcushare.cards.process_owners import ProcessOwners
from gcushare.cards.selection import open_limits, open_source
from gcushare.cluster.watch_handlers import NodeHandler, NodeObserver
from gcushare.core.cards import Inventory
from gcushare.device_plugin.adapters import HostAdapters, OwnPodsHandler
from gcushare.device_plugin.claims.claim_pods import ClaimPods
from gcushare.device_plugin.claims.node_agent import ClaimsAgent
from gcushare.device_plugin.node.agent import NodeAgent
from gcushare.device_plugin.plugin_settings import COMPONENT, PluginSettings
from gcushare.device_plugin.reporting.own_devices import OwnDevicesReport
from gcushare.kube.client import KubeClient
from gcushare.kube.events import EventRecorder
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import NODES, PODS_WITH_CLAIMS, Selector
from gcushare.node.api_server import EventAnnouncer
from gcushare.node.card_and_pod_metrics import NodeMetrics
from gcushare.node.cards import longest_silence_s, monitor_settings, source_options
from gcushare.node.driver_limits.driver_limiter import DriverLimiter
from gcushare.node.driver_limits.pods import DriverLimits
from gcushare.node.grant_form import follow_cards
from gcushare.node.memory_limiter import MemoryLimiter
from gcushare.node.mps.limits import MpsLimiter
from gcushare.node.mps.state import MpsDaemon, MpsFolders
from gcushare.node.mps.watch import MpsWatch
from gcushare.node.node_settings import LimitSettings, MemoryLimit, OtherSystems
from gcushare.node.over_use.parts import OverUseParts
from gcushare.node.pod_use import PodMemoryMonitor
from gcushare.node.pods import NodePods
from gcushare.node.status import is_own_machine, without_uids
from gcushare.runtime.health import HealthChecks
from gcushare.runtime.metrics import metrics_route
from gcushare.runtime.shutdown import EVENTS_DRAIN_S, REQUESTS_DRAIN_S, RootTasks, Shutdown, root_tasks
from gcushare.wire.documents.plugin_status import PluginStatus
from gcushare.wire.dra.claims import POD_WITH_CLAIMS, PodWithClaims
from gcushare.wire.objects import NODE, Node

FACTS_TIMEOUT_S = 10.0
"""How long the start waits for the API server. Running pods and the kubelet must not wait for it longer."""
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Way(abc.ABC):
    """One way for one vendor's cards of this node: cards, limits, use, events and pages.

    ``leaving`` says that the node's label asks for the other way, in which case nothing new is given out; "" if not.
    """

    _agent: NodeAgent | ClaimsAgent

    def __init__(
        self,
        settings: PluginSettings,
        client: KubeClient,
        metrics: NodeMetrics[Any],
        adapters: HostAdapters | None,
    ) -> None:
        self._settings = settings
        self._client = client
        self.metrics = metrics
        self._adapters = adapters or HostAdapters()
        self._vendor = settings.cards.vendor
        self._node_name = settings.kubelet.node_name
        clock = self._adapters.clock
        self._recorder = EventRecorder(client, COMPONENT, host=self._node_name, clock=clock)
        self._announcer = EventAnnouncer(self._recorder, self._node_name)
        self._follows_cards = follow_cards(self._vendor, settings.kubelet.device_list_strategy)
        self._source_options = source_options(settings.cards, settings.health)
        self._monitor = CardMonitor(
            self._adapters.cards or open_source(self._source_options),
            self._cards_changed,
            monitor_settings(settings.cards, by_uuid=self._follows_cards),
            clock.monotonic,
        )
        self._limiter = self._make_limiter(settings.limits)
        self._mps: MpsWatch | None = None
        self._driver_limits: DriverLimits | None = None
        self._pod_use: PodMemoryMonitor | None = None
        self.pages: Mapping[str, Handler] = {}
        """The handlers of the plugin's HTTP port, by path."""

    @property
    def leaving(self) -> str:
        return self._agent.leaving

    @property
    @abc.abstractmethod
    def holders(self) -> str:
        """What holds cards in this way, as far as is known now; "" if nothing does."""

    @abc.abstractmethod
    async def find_holders(self) -> str:
        """The same, after all who know were asked; why it is not known, if one of them does not answer."""

    @abc.abstractmethod
    def _offer(self, cards: CardsSnapshot) -> None:
        """Offer these cards from now on."""

    @abc.abstractmethod
    def _start(self, tasks: RootTasks) -> None:
        """Start the tasks that only this way has."""

    async def run(self, shutdown: Shutdown) -> None:
        """Give out cards until the shutdown."""
        async with root_tasks(shutdown, drain_s=REQUESTS_DRAIN_S) as tasks:
            tasks.start("events", self._recorder.run())
            tasks.start("last events", self._drain(shutdown), drains=True)
            if self._mps is not None:
                tasks.start("MPS daemon", self._mps.run())
            if self._driver_limits is not None:
                tasks.start("memory limits", self._driver_limits.run())
            self._start(tasks)

    async def _drain(self, shutdown: Shutdown) -> None:
        """Wait until events from before the shutdown are posted, while their task still runs."""
        await shutdown.wait()
        await self._recorder.drain(EVENTS_DRAIN_S)

    def _cards_changed(self, cards: CardsSnapshot) -> None:
        """Offer the cards, except those whose memory limit is required but failed."""
        self._offer(cards if self._limiter is None else self._limiter.close_cards(cards))

    def _offer_again(self) -> None:
        if self._monitor.polls:
            self._cards_changed(self._monitor.snapshot)

    async def _read_cards(self) -> None:
        """Read the cards for the first time, and before them whether their memory can be limited."""
        if self._mps is not None:
            await self._mps.poll()
        if self._driver_limits is not None:
            await self._driver_limits.poll()
        await self._monitor.poll()

    def _watch_node(self, observer: NodeObserver) -> Reflector[Node]:
        adapters, selector = self._adapters, Selector(fields=f"metadata.name={self._node_name}")
        handler = NodeHandler([observer])
        return Reflector(
            self._client, NODES, handler, decode=NODE.read, selector=selector, clock=adapters.clock, rng=adapters.rng
        )

    def _watch_pods(self, *observers: NodeAgent | ClaimPods | OwnDevicesReport) -> Reflector[PodWithClaims]:
        return Reflector(
            self._client,
            PODS_WITH_CLAIMS,
            OwnPodsHandler(observers, self._client.config.namespace),
            decode=POD_WITH_CLAIMS.read,
            selector=Selector(fields=f"spec.nodeName={self._node_name}"),
            settings=ReflectorSettings(from_cache=True),
            clock=self._adapters.clock,
            rng=self._adapters.rng,
        )

    def _make_limiter(self, settings: LimitSettings) -> MemoryLimiter | None:
        mps = MpsLimiter(MpsFolders(settings.mps_root), settings.limit_fallback) if settings.uses_mps else None
        if settings.memory_limit is not MemoryLimit.DRIVER:
            return mps
        # A second process for the library: the first one waits for events most of the time, a kubelet waits here.
        return DriverLimiter(settings.limit_fallback, self._adapters.limits or open_limits(self._source_options), mps)

    def _follow_pods(
        self,
        pods: NodePods,
        inventory: Callable[[], Inventory | None],
        gives_cards: Callable[[], bool],
    ) -> None:
        """Keep the limits of these pods, and measure what they use.

        ``gives_cards``: whether this program gives out the cards now, so that another system does not.
        """
        settings, limiter = self._settings, self._limiter
        count = None
        if isinstance(limiter, DriverLimiter):
            self._driver_limits = DriverLimits(
                limiter,
                settings.limits.cgroup_dir,
                pods,
                self._monitor,
                self._announcer,
                self._offer_again,
                inventory=inventory,
            )
            count, limiter = self._driver_limits.count, limiter.mps
        if isinstance(limiter, MpsLimiter):
            daemon = MpsDaemon(limiter.folders)
            self._mps = MpsWatch(daemon, limiter, pods, self._announcer, self._offer_again)
        if settings.cards.pod_use:
            owners = ProcessOwners(settings.cards.proc_root)
            self._pod_use = PodMemoryMonitor(self._monitor, pods, owners, own_pid=os.getpid(), count=count)
        is_refusing = settings.cards.other_systems is OtherSystems.REFUSE
        self._over_use = OverUseParts(
            settings.over_use,
            settings.idle,
            self._pod_use,
            self._monitor,
            pods,
            announcer=self._announcer,
            client=self._client,
            inventory=inventory,
            hands_out_alone=lambda: is_refusing and gives_cards(),
            longest_wait_s=settings.kubelet.longest_wait_for_containers,
            longest_gap_s=longest_silence_s(settings.cards),
            clock=self._adapters.clock,
        )

    def _make_pages(self, health: HealthChecks, describe: Callable[[], PluginStatus]) -> None:
        async def get_status(request: web.Request) -> web.Response:
            has_certificate = request.transport is not None and request.transport.get_extra_info("peercert")
            found = describe() if has_certificate or is_own_machine(request.remote) else without_uids(describe())
            return web.Response(body=msgspec.json.encode(found), content_type="application/json")

        async def find_removed() -> str | None:
            for folder in (self._settings.kubelet.device_plugin_dir, self._settings.kubelet.plugins_registry):
                # A mount shows a removed folder for good; only a container that starts gets the new one.
                with contextlib.suppress(OSError):
                    if folder.stat().st_nlink == 0:
                        return f"{folder} was removed from the node"
            return None

        health.add_live("kubelet's folders", find_removed)
        metrics = metrics_route(self.metrics.registry)
        self.pages = {
            **{str(route.path): route.handler for route in health.routes()},
            metrics.path: metrics.handler,
            "/status": get_status,
        }
