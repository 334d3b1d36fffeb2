"""The wiring: settings into watches, the two workers and one server with its metrics, started and stopped in order."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gcushare._version import __version__
from gcushare.claims_controller.claims_controller_settings import NAME, ControllerSettings
from gcushare.claims_controller.node_order import ClusterFill, OrderCounters, OrderWriter
from gcushare.claims_controller.template_keeper import TemplateKeeper
from gcushare.claims_controller.template_plan import OWN_LABELS, TemplatePlan
from gcushare.cluster.connection import open_cluster
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.election import ApiLease, LeaderElector, make_identity
from gcushare.kube.events import EventRecorder
from gcushare.kube.reflector import Reflector
from gcushare.kube.resources import (
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Selector,
)
from gcushare.runtime.health import Health
from gcushare.runtime.http.server import RunningServer, start_server
from gcushare.runtime.metrics import CertificateCollector, RejectedCollector, make_registry, metrics_route
from gcushare.runtime.shutdown import EVENTS_DRAIN_S, REQUESTS_DRAIN_S, Shutdown, root_tasks
from gcushare.wire.contracts import CLAIMS_ENABLED, CLAIMS_LABEL, SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.dra.claims import CLAIMING_POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from gcushare.wire.dra.slices import RESOURCE_SLICE
from gcushare.wire.objects import NODE, ObjectHead
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder

NAMESPACE = BoundedJsonDecoder(ObjectHead, "a namespace", limit_bytes=OBJECT_BYTES, max_depth=None)


async def run(settings: ControllerSettings, shutdown: Shutdown) -> int:
    """Run the controller until the shutdown; returns the exit code."""
    async with open_cluster(settings.kube, program=NAME) as client:
        await Controller(settings, client).run(shutdown)
    return 0


class Controller(Collector):
    """One replica, built from settings and a client. ``server`` is set once it listens.

    ``clock`` and ``rng`` are the machine's if None.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        client: KubeClient,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock or SystemClock()
        self._rng = rng or random.SystemRandom()
        self._registry = make_registry(NAME, __version__)
        self._elector = self._make_elector()
        self._templates_changed = asyncio.Event()
        units = [(vendor, settings.claims.unit_of(vendor)) for vendor in settings.claims.vendor]
        self._plan = TemplatePlan(units, settings.claims.unused_after, self._templates_changed.set)
        self.recorder = EventRecorder(client, NAME, host=socket.gethostname(), clock=self._clock)
        self.keeper = TemplateKeeper(
            client, self._plan, self.recorder, self._templates_changed, self._is_leader, self._clock, self._rng
        )
        self._order: OrderWriter | None = None
        if settings.claims.node_order:
            changed = asyncio.Event()
            fill = ClusterFill([vendor.claims.driver for vendor in settings.claims.vendor], changed.set)
            rate_per_s = settings.claims.node_writes
            self._order = OrderWriter(
                client, fill, changed, self._is_leader, clock=self._clock, rng=self._rng, rate_per_s=rate_per_s
            )
        self._watches = self._make_watches()
        self.server: RunningServer | None = None

    async def run(self, shutdown: Shutdown) -> None:
        """Watch, stand for election and work until the shutdown; then give the Lease up."""
        health = Health()
        health.add_ready("watches", self._check_synced)
        app = web.Application()
        app.add_routes([*health.routes(), metrics_route(self._registry)])
        self._registry.register(self)
        async with root_tasks(shutdown, drain_s=REQUESTS_DRAIN_S) as tasks:
            self.server = await start_server(app, self._settings.serve)
            self._registry.register(CertificateCollector([self.server]))
            self._registry.register(RejectedCollector([self.server]))
            tasks.start("serve", self._serve_until(shutdown, self.server), drains=True)
            for name, watch in self._watches.items():
                tasks.start(f"watch {name}", watch.run())
            tasks.start("post events", self.recorder.run())
            tasks.start("keep templates", self._when_synced(self.keeper.run))
            if self._order is not None:
                tasks.start("keep the order of nodes", self._when_synced(self._order.run))
            if self._elector is not None:
                tasks.start("elect a leader", self._when_synced(self._elector.run))

    def collect(self) -> Iterator[Metric]:
        """Yield what /metrics shows, read from the parts' own counters at each scrape."""
        templates = self.keeper.counters
        order = OrderCounters() if self._order is None else self._order.counters
        yield GaugeMetricFamily("gcushare_leader", "1 if this replica does the work.", value=float(self._is_leader()))
        yield GaugeMetricFamily(
            "gcushare_claims_templates", "Templates of gcushare that exist.", value=float(len(self._plan))
        )
        writes = CounterMetricFamily(
            "gcushare_claims_writes", "Writes to the API server, by what was done.", labels=("what",)
        )
        writes.add_metric(("template-created",), templates.created)
        writes.add_metric(("template-deleted",), templates.deleted)
        writes.add_metric(("node-order",), order.written)
        yield writes
        failures = CounterMetricFamily(
            "gcushare_claims_write_failures", "Writes that failed and are tried again.", labels=("what",)
        )
        failures.add_metric(("template",), templates.failed)
        failures.add_metric(("node-order",), order.failed)
        yield failures
        ages = GaugeMetricFamily(
            "gcushare_watch_age_seconds",
            "Time since the API server last proved the watch current; no series before the first list.",
            labels=("resource",),
        )
        for name, watch in self._watches.items():
            if watch.age_s is not None:
                ages.add_metric((name,), watch.age_s)
        yield ages

    def _make_elector(self) -> LeaderElector | None:
        election = self._settings.election
        if not election.leader_elect:
            return None
        namespace = election.lease_namespace or self._client.config.namespace
        return LeaderElector(
            ApiLease(self._client, namespace, election.lease_name),
            make_identity(self._rng),
            times=election.times(),
            listener=self._on_leadership,
            clock=self._clock,
            rng=self._rng,
        )

    def _make_watches(self) -> dict[str, Reflector[Any]]:
        plan, client = self._plan, self._client
        own = ",".join(f"{key}={value}" for key, value in OWN_LABELS.items())
        found: dict[str, Reflector[Any]] = {
            "pods": Reflector(
                client, PODS, plan.pods, decode=CLAIMING_POD.read, selector=Selector(fields="status.phase=Pending")
            ),
            "namespaces": Reflector(
                client,
                NAMESPACES,
                plan.namespaces,
                decode=NAMESPACE.read,
                selector=Selector(labels=f"{CLAIMS_LABEL}={CLAIMS_ENABLED}"),
            ),
            "templates": Reflector(
                client,
                RESOURCE_CLAIM_TEMPLATES,
                plan.templates,
                decode=RESOURCE_CLAIM_TEMPLATE.read,
                selector=Selector(labels=own),
            ),
        }
        if self._order is not None:
            fill = self._order.fill
            serving = Selector(labels=f"{SERVE_LABEL}={SERVE_CLAIMS}")
            found |= {
                "slices": Reflector(client, RESOURCE_SLICES, fill.slices, decode=RESOURCE_SLICE.read),
                "claims": Reflector(client, RESOURCE_CLAIMS, fill.claims, decode=RESOURCE_CLAIM.read),
                "nodes": Reflector(client, NODES, fill.nodes, decode=NODE.read, selector=serving),
            }
        return found

    async def _when_synced(self, work: Callable[[], Any]) -> None:
        for watch in self._watches.values():
            await watch.synced.wait()
        await work()

    def _is_leader(self) -> bool:
        return self._elector is None or self._elector.is_leader

    def _on_leadership(self, _leads: bool) -> None:
        self._templates_changed.set()
        if self._order is not None:
            self._order.changed.set()

    async def _check_synced(self) -> str | None:
        missing = [name for name, watch in self._watches.items() if not watch.synced.is_set()]
        return f"not read yet: {', '.join(missing)}" if missing else None

    async def _serve_until(self, shutdown: Shutdown, server: RunningServer) -> None:
        await shutdown.wait()
        await server.stop(REQUESTS_DRAIN_S)
        await self.recorder.drain(EVENTS_DRAIN_S)
