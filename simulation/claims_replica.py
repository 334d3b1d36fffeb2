"""One replica of the real claims controller: its election, its watches and the templates that it keeps."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from gcushare.claims_controller.app import NAMESPACE
from gcushare.claims_controller.node_order import ClusterFill, OrderWriter
from gcushare.claims_controller.template_keeper import TemplateKeeper
from gcushare.claims_controller.template_plan import OWN_LABELS, TemplatePlan
from gcushare.core.lease_times import LeaseTimes
from gcushare.kube.client import KubeClient
from gcushare.kube.collections import Kept
from gcushare.kube.election import ApiLease, LeaderElector
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
from gcushare.vendors import ENFLAME
from gcushare.wire.dra.claims import CLAIMING_POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from gcushare.wire.dra.slices import RESOURCE_SLICE
from gcushare.wire.objects import NODE
from simulation.claims_node import UNIT
from simulation.claims_views import watch_views
from simulation.process import Process
from simulation.program import CONFIG, ProcessClock
from simulation.transport import SimulatedTransport
from simulation.weather import Weather

if TYPE_CHECKING:
    from simulation.claims_world import ClaimsWorld

UNUSED_S = 60.0
"""How long a template is kept that no waiting pod names."""
_WALL_SKEW_S = 3600.0


class ClaimsReplica:
    """A replica that starts again whenever it was killed; its wall clock may be an hour off."""

    def __init__(self, world: ClaimsWorld, number: int) -> None:
        self.world = world
        self.name = f"claims-controller-{number}"
        self.rng = random.Random(f"claims/{world.seed}/{self.name}")
        self.weather = Weather(self.rng, world.faults)
        self.process = Process(self.name)
        self.process.is_alive = False
        self._elector: LeaderElector | None = None
        self.views: dict[str, Kept[Any]] = {}
        """What it knows of the API server, by kind."""
        self.fill: ClusterFill | None = None
        self._starts = 0

    @property
    def is_leader(self) -> bool:
        """Whether it may write now."""
        if not self.process.is_alive or self._elector is None:
            return False
        return self.world.schedule.planted == "leads without a lease" or self._elector.is_leader

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.process.is_alive:
            return
        self._starts, self._elector = self._starts + 1, None
        offset_s, skew_s = self.rng.uniform(0, 1e5), self.rng.uniform(-_WALL_SKEW_S, _WALL_SKEW_S)
        process = self.process = Process(self.name, offset_s=offset_s, wall_offset_s=skew_s)
        process.on_end[0] = lambda: self._ended(process)
        self.world.note(f"{self.name} starts")
        self.world.loop.create_task(self._live(process), context=process.context)

    def _ended(self, process: Process) -> None:
        self.world.gateway.drop(process)
        self.world.note(f"{self.name} was killed")
        self.world.loop.call_world(self.rng.uniform(0.2, 20.0), self.start)

    async def _live(self, process: Process) -> None:
        try:
            await self._run(process)
        except Exception as error:
            if process.is_alive:
                self.world.fail("no process ends by any input", f"{self.name} ended: {type(error).__name__}: {error}")

    async def _run(self, process: Process) -> None:
        clock = ProcessClock(self.world.loop, process)
        rng = random.Random(self.rng.getrandbits(64))
        transport = SimulatedTransport(self.world.gateway, process, self.weather)
        client = KubeClient(CONFIG, program="claims-controller", transport=transport)
        changed = asyncio.Event()
        unused_s = 1e9 if self.world.schedule.planted == "keeps templates" else UNUSED_S
        plan = TemplatePlan([(ENFLAME, UNIT)], unused_s, changed.set)
        order_changed = asyncio.Event()
        fill = self.fill = ClusterFill([ENFLAME.claims.driver], order_changed.set)
        order = OrderWriter(client, fill, order_changed, lambda: self.is_leader, clock=clock, rng=rng, rate_per_s=10.0)
        self.views = {
            "resourceclaimtemplates": plan.templates, "nodes": fill.nodes, "resourceslices": fill.slices,
            "resourceclaims": fill.claims,
        }  # fmt: skip
        watch_views(self.world, self.name, *self.views.values())

        def on_leadership(_leads: bool) -> None:
            changed.set()
            order_changed.set()

        lease = ApiLease(client, "kube-system", "gcushare-claims-controller")
        self._elector = elector = LeaderElector(
            lease,
            f"{self.name}.{self._starts}",
            times=LeaseTimes(duration_s=15.0, renew_deadline_s=10.0, retry_s=2.0),
            listener=on_leadership,
            clock=clock,
            rng=rng,
        )
        recorder = EventRecorder(client, "gcushare-claims-controller", clock=clock)
        keeper = TemplateKeeper(client, plan, recorder, changed, lambda: self.is_leader, clock, rng)
        own = Selector(labels=",".join(f"{key}={value}" for key, value in OWN_LABELS.items()))
        pending = Selector(fields="status.phase=Pending")
        watches = (
            Reflector(client, PODS, plan.pods, decode=CLAIMING_POD.read, selector=pending, rng=rng),
            Reflector(client, NAMESPACES, plan.namespaces, decode=NAMESPACE.read, rng=rng),
            Reflector(client, NODES, fill.nodes, decode=NODE.read, rng=rng),
            Reflector(client, RESOURCE_SLICES, fill.slices, decode=RESOURCE_SLICE.read, rng=rng),
            Reflector(client, RESOURCE_CLAIMS, fill.claims, decode=RESOURCE_CLAIM.read, rng=rng),
            Reflector(
                client,
                RESOURCE_CLAIM_TEMPLATES,
                plan.templates,
                decode=RESOURCE_CLAIM_TEMPLATE.read,
                selector=own,
                rng=rng,
            ),
        )
        async with asyncio.TaskGroup() as tasks:
            for watch in watches:
                tasks.create_task(watch.run())
            tasks.create_task(recorder.run())
            for watch in watches:
                await watch.synced.wait()
            tasks.create_task(keeper.run())
            tasks.create_task(order.run())
            tasks.create_task(elector.run())
