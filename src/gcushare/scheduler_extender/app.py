"""The program's wiring: settings into states, watches, services and a server, started and stopped in order."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web

from gcushare.cluster.connection import open_cluster
from gcushare.cluster.watch_handlers import ClaimHandler, NodeHandler, PodHandler
from gcushare.core.other_resources import SpareResources
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.election import ApiLease, LeaseTimes, make_identity
from gcushare.kube.events import EventRecorder
from gcushare.kube.reflector import Reflector
from gcushare.runtime.health import HealthChecks, Heartbeat
from gcushare.runtime.http.page_server import start_server
from gcushare.runtime.http.scheduler_requests import GetPath, Verb
from gcushare.runtime.http.scheduler_server import start_scheduler_server
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.metrics import (
    CertificateCollector,
    HasCertificates,
    RejectedCollector,
    make_registry,
    metrics_route,
)
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.shutdown import RootTasks, Shutdown, root_tasks
from gcushare.scheduler_extender import maintenance
from gcushare.scheduler_extender.autoscaling import AutoscalingWriter
from gcushare.scheduler_extender.claims.service import ExtenderClaims
from gcushare.scheduler_extender.dashboard.dashboard_settings import Access
from gcushare.scheduler_extender.dashboard.feed import Feed
from gcushare.scheduler_extender.dashboard.metadata_cache import MetadataCache
from gcushare.scheduler_extender.dashboard.routes import Dashboard
from gcushare.scheduler_extender.explain.failed_scheduling_events import FailedSchedulingReporter
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.extender_settings import NAME, ExtenderSettings
from gcushare.scheduler_extender.leader_label import LeaderLabel
from gcushare.scheduler_extender.leadership import STALE_SHARE, AlwaysLeader, Leadership, ReplicaLeadership, Serving
from gcushare.scheduler_extender.metrics import ReplicaCollector, VendorCollector
from gcushare.scheduler_extender.mutual_tls.ports import VerbsPort, first_port_verbs
from gcushare.scheduler_extender.routes import UnservedVendor, VendorRoutes, index_page, version_page
from gcushare.scheduler_extender.state.pod_change_log import PodChangeLog
from gcushare.scheduler_extender.state.preferences import SpareObserver
from gcushare.scheduler_extender.state.scheduling_request import Policies, SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.scheduler_extender.verbs.dispatch import Dispatcher, Services
from gcushare.scheduler_extender.verbs.filter import FilterService
from gcushare.scheduler_extender.verbs.preempt import PreemptService
from gcushare.scheduler_extender.verbs.request_metrics import RequestMetrics
from gcushare.scheduler_extender.waking.waker import RoomWaker
from gcushare.scheduler_extender.watches import Watches
from gcushare.vendors import VENDORS, Vendor

REQUESTS_DRAIN_S = BindTimes().total_s + 0.5
"""For requests in progress at the end: more than a bind may take."""
BINDS_DRAIN_S = BindTimes().total_s + 0.5
"""For binds whose caller is gone; they may have begun just before the last request was cut."""
EVENTS_DRAIN_S = 0.5
DRAIN_S = REQUESTS_DRAIN_S + BINDS_DRAIN_S + EVENTS_DRAIN_S + 1.0
"""For all of these in sequence, and for stopping the servers. The Lease is released after that."""

_LIVE_GRACE_S = 30.0

ServePages = Callable[[web.Application, ServeSettings], Awaitable[RunningServer]]
ServeScheduler = Callable[[Sequence[Verb], Sequence[GetPath], ServeSettings], Awaitable[RunningServer]]
"""Make a server that listens."""


async def run(settings: ExtenderSettings, shutdown: Shutdown) -> int:
    """Run the extender until the shutdown; returns the exit code."""
    async with open_cluster(settings.kube, program=NAME) as client:
        await Extender(settings, client, after_sync=freeze_gc).run(shutdown)
    return 0


def freeze_gc() -> None:
    """Exclude the objects of the first lists from garbage collection.

    They have no cycles and live as long as their pods. With 5,000 nodes and 50,000 pods, a collection that visits them
    takes 0.1 to 0.3 s, in the middle of a filter call.
    """
    gc.collect()
    gc.freeze()


class Extender:
    """One replica, built from settings and a client. ``server`` and ``page_server`` are set when they listen.

    ``after_sync`` is called once, after the first lists of nodes and pods. ``identity`` names the replica in the Lease
    and must differ between processes, restarts included. By default, ``identity``, ``clock`` and ``rng`` are the
    machine's own.
    """

    def __init__(
        self,
        settings: ExtenderSettings,
        client: KubeClient,
        *,
        after_sync: Callable[[], None] | None = None,
        identity: str | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        serve: ServeScheduler = start_scheduler_server,
        serve_pages: ServePages = start_server,
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._rng = rng or random.SystemRandom()
        self._serve = serve
        self._serve_pages = serve_pages
        self._after_sync = after_sync
        self._identity = identity or make_identity(self._rng)
        self._spare, serves_claims = SpareResources(), asyncio.Event()
        self.states = [self._make_state(vendor, serves_claims) for vendor in settings.placement.vendor]
        self._feed = None if settings.dashboard.dashboard is Access.OFF else Feed(self.states)
        self.verbs = VerbsPort(settings.verbs, settings.serve, client, self._clock)
        self.recorder = EventRecorder(client, NAME, host=socket.gethostname(), clock=self._clock)
        self.claims = self._make_claims(client) if settings.claims.claims else None
        self._label = self._make_label(client)
        self._autoscaling = AutoscalingWriter(
            client,
            self.states,
            lambda: self.leadership.is_leader,
            clock=self._clock,
            rng=self._rng,
        )
        self.watches = self._make_watches(client, serves_claims)
        self.leadership = self._make_leadership(client)
        self.serving = Serving(self.leadership)
        self._api = client
        self.services = [self._make_services(state) for state in self.states]
        self._registry = make_registry(NAME)
        metrics = RequestMetrics(self._registry, [each.vendor_name for each in self.services])
        self._drifts = [(state, metrics.drifts[state.vendor.name]) for state in self.states]
        recount_s = settings.follow.recount_interval + _LIVE_GRACE_S
        self._heartbeat = Heartbeat("recount", recount_s, self._clock.monotonic)
        own_first = ([own, *(each for each in self.services if each is not own)] for own in self.services)
        self._vendor_routes = [
            VendorRoutes(each[0], Dispatcher(each, client, self._clock), self.serving, metrics) for each in own_first
        ]
        served = settings.placement.vendor
        self._unserved = [UnservedVendor(vendor, served) for vendor in VENDORS if vendor not in served]
        self._verbs = [verb for each in self._vendor_routes for verb in each.verbs]
        self._verbs += [verb for each in self._unserved for verb in each.verbs]
        """The scheduler's calls under every vendor's prefix."""
        self._servers: list[RunningServer] = []
        self._certificates: list[HasCertificates] = []
        self.server: RunningServer | None = None
        """The first port."""
        self.page_server: RunningServer | None = None

    def _make_state(self, vendor: Vendor, serves_claims: asyncio.Event) -> VendorState:
        placement = self._settings.placement
        return VendorState(
            vendor,
            Policies(placement.node_policy, placement.card_policy, placement.whole_card_policy),
            unit=self._settings.claims.given_unit,
            spare=self._spare,
            monotonic=self._clock.monotonic,
            on_claims_node=serves_claims.set,
        )

    def _make_claims(self, client: KubeClient) -> ExtenderClaims:
        return ExtenderClaims(
            self._settings.claims,
            self._settings.placement.vendor,
            [state.ledger for state in self.states],
            client,
            self.recorder,
            lambda: self.leadership.is_leader,
            clock=self._clock,
            rng=self._rng,
        )

    def _make_watches(self, client: KubeClient, serves_claims: asyncio.Event) -> Watches:
        observers: list[VendorState | MetadataCache | SpareObserver] = [
            SpareObserver(self._spare),
            *self.states,
            *([] if self._feed is None else [self._feed.metadata]),  # after the states, whose results it shows
        ]
        order = None if self.claims is None else self.claims.order
        return Watches(
            client,
            self._settings.follow,
            NodeHandler([*observers, self._autoscaling, *([] if order is None else [order])]),
            PodHandler(
                [
                    *observers,
                    PodChangeLog([state.vendor for state in self.states]),
                    *([] if self.claims is None else [self.claims.plan]),
                    *([] if self._label is None else [self._label]),
                ]
            ),
            ClaimHandler(self.states),
            serves_claims,
            clock=self._clock,
            rng=self._rng,
        )

    async def run(self, shutdown: Shutdown) -> None:
        """Watch, take part in the election and serve until the shutdown; then drain requests, binds and events."""
        with self.verbs.folder:
            async with root_tasks(shutdown, drain_s=DRAIN_S) as tasks:
                if self.verbs.keeper is not None:
                    tasks.start("keep the certificates of the scheduler's calls", self.verbs.keeper.run())
                serve = await self.verbs.first_port_settings(shutdown)
                if serve is None:
                    return
                pages = [page for each in self._vendor_routes for page in each.pages()]
                pages += [version_page(), index_page(self.services), *(each.page for each in self._unserved)]
                self.server = await self._serve(self.make_verbs(), pages, serve)
                self._servers.append(self.server)
                self._certificates.append(self.server)
                serve = replace(serve, listen_port=self._settings.dashboard.page_port)
                self.page_server = await self._serve_pages(self._make_application(), serve)
                self._servers.append(self.page_server)
                self._registry.register(CertificateCollector(self._certificates))
                self._registry.register(RejectedCollector(self._servers))
                tasks.start("serve", self._serve_until(shutdown), drains=True)
                self._start_loops(tasks)

    def make_verbs(self) -> list[Verb]:
        """The scheduler's calls as the first port answers them."""
        return first_port_verbs(self._settings.verbs.verbs, self._verbs)

    def _make_application(self) -> web.Application:
        """The page, metrics and health."""
        app = web.Application()
        health = HealthChecks()
        health.add_live("recount", self._heartbeat.check)
        health.add_ready("caches", self._check_synced)
        if self._label is not None:
            health.add_ready("label", self._label.find_obstacle)
        health.add_ready("verbs", self.verbs.find_obstacle)
        app.add_routes(health.routes())
        if self._feed is not None:
            explains = {each.vendor_name: each.explains for each in self.services}
            settings, age_s = self._settings.dashboard, self.watches.age_s
            page = Dashboard(settings, self._api, self._feed, self.serving, age_s, explains, self._clock)
            app.add_routes(page.routes())
        self._registry.register(VendorCollector(self.services))
        shown: dict[str, Reflector[Any]] = dict(self.watches.caches)
        if self.claims is not None:
            shown |= {"claims": self.watches.claims, **self.claims.watches}
            self._registry.register(self.claims)
        self._registry.register(
            ReplicaCollector(self._answers_scheduler, self._settings.verbs.verbs, shown, self.recorder.counters)
        )
        app.add_routes([metrics_route(self._registry)])
        return app

    async def _open_verbs(self) -> None:
        """Answer the scheduler on its own port, once there are certificates, until the shutdown."""
        server = await self.verbs.open(self._verbs, [version_page()])
        try:
            self._servers.append(server)
            self._certificates.append(self.verbs.keeper or server)
            await asyncio.Event().wait()
        finally:
            # Needed if the shutdown came while the port was opened; otherwise it is stopped already.
            await server.stop(0)

    def _start_loops(self, tasks: RootTasks) -> None:
        follow = self._settings.follow
        if self.verbs.is_wanted:
            tasks.start("serve the scheduler", self._open_verbs())
        tasks.start("watch nodes", self.watches.nodes.run())
        tasks.start("watch pods", self.watches.pods.run())
        tasks.start("watch claims", self.watches.watch_claims())
        tasks.start("learn typical requests", self._learn_when_synced())
        tasks.start("post events", self.recorder.run())
        tasks.start("recount", maintenance.recount_periodically(self._drifts, follow.recount_interval, self._heartbeat))
        for state in self.states:
            tasks.start(f"score nodes of {state.vendor.name}", state.preferences.run())
        for each in self.services:
            tasks.start(f"report refusals of {each.vendor_name}", each.reports.run())
            tasks.start(f"wake pods of {each.vendor_name}", each.wakes.run())
        tasks.start(
            "confirm reservations",
            maintenance.confirm_periodically([each.binds for each in self.services], follow.confirm_after),
        )
        if self.claims is not None:
            self.claims.start(tasks, self.watches.pods, self.watches.claims)
        tasks.start("write for the autoscaler", self._autoscaling.run(self.watches.wait_complete))
        if self._label is not None:
            tasks.start("label the leader", self._label.run())
        if isinstance(self.leadership, ReplicaLeadership):
            tasks.start("elect a leader", self._elect_when_synced(self.leadership))

    async def _learn_when_synced(self) -> None:
        """Learn before anything is answered, and then as pods come and go."""
        await self.watches.wait_synced()
        await maintenance.learn_changes(self.states)
        self.serving.is_synced = True
        if self._after_sync is not None:
            self._after_sync()
        while True:
            await asyncio.sleep(maintenance.LEARN_EVERY_S)
            await maintenance.learn_changes(self.states)

    async def _elect_when_synced(self, leading: ReplicaLeadership) -> None:
        """Join the election only with complete watch caches: a leader that cannot answer is worse than none."""
        await self.watches.wait_synced()
        await leading.run()

    async def _serve_until(self, shutdown: Shutdown) -> None:
        await shutdown.wait()
        self.serving.stopping.set()
        async with asyncio.TaskGroup() as tasks:
            for server in self._servers:
                tasks.create_task(server.stop(REQUESTS_DRAIN_S), name=f"stop {server.url}")
        async with asyncio.TaskGroup() as tasks:
            for each in self.services:
                tasks.create_task(each.binds.drain(BINDS_DRAIN_S), name=f"drain binds of {each.vendor_name}")
        await self.recorder.drain(EVENTS_DRAIN_S)

    async def _check_synced(self) -> str | None:
        return None if self.serving.is_synced else "nodes and pods are not read yet"

    def _answers_scheduler(self) -> bool:
        """Whether the scheduler is answered: this replica serves, and the port for its calls is open."""
        return self.serving.is_serving() and (not self.verbs.is_wanted or self.verbs.server is not None)

    def _now_ns(self) -> int:
        return round(self._clock.now().timestamp() * 1_000_000) * 1000

    def _make_leadership(self, client: KubeClient) -> Leadership:
        election = self._settings.election
        if not election.leader_elect:
            return AlwaysLeader()
        return ReplicaLeadership(
            ApiLease(client, election.lease_namespace or client.config.namespace, election.lease_name),
            self._identity,
            self.watches.caches,
            times=LeaseTimes(election.lease_duration, election.lease_renew_deadline, election.lease_retry),
            stale_s=STALE_SHARE * self._settings.follow.watch_stall,
            on_lead=self._on_lead,
            clock=self._clock,
            rng=self._rng,
        )

    def _on_lead(self) -> None:
        if self._label is not None:
            self._label.wake()
        self._autoscaling.wake()
        if self.claims is not None:
            self.claims.wake()

    def _make_label(self, client: KubeClient) -> LeaderLabel | None:
        election = self._settings.election
        if election.pod_name is None:
            return None
        return LeaderLabel(
            client,
            lambda: self.leadership.is_leader,
            namespace=election.lease_namespace or client.config.namespace,
            pod=election.pod_name,
            lease=election.lease_name,
            clock=self._clock,
        )

    def _make_services(self, state: VendorState) -> Services:
        explains = ExplainService(state)
        reports = FailedSchedulingReporter(explains, self.recorder, clock=self._clock)
        wakes = RoomWaker(state, self._api, self.serving.is_serving, clock=self._clock)

        def on_refused(request: SchedulingRequest) -> None:
            reports.on_refused(request)
            wakes.on_refused(request)

        named = self._settings.placement.filter_answer
        return Services(
            state=state,
            filters=FilterService(state, named=named, refusals=on_refused, offers=wakes.on_offered),
            binds=BindService(state, self._api, self.leadership, now_ns=self._now_ns, monotonic=self._clock.monotonic),
            preempts=PreemptService(state, self._api, wakes.on_put_off),
            explains=explains,
            reports=reports,
            wakes=wakes,
        )
