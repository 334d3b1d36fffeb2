"""One replica of what the extender does for claims: its election, its watches, the templates and labels it writes."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from gcushare.cluster.watch_handlers import ClaimHandler, NodeHandler, PodHandler
from gcushare.kube.client import KubeClient
from gcushare.kube.collections import ObjectCache
from gcushare.kube.election import ApiLease, LeaderElector, LeaseTimes
from gcushare.kube.events import EventRecorder
from gcushare.kube.reflector import Reflector
from gcushare.kube.resources import NODES, PODS, RESOURCE_CLAIMS
from gcushare.scheduler_extender.claims.claims_settings import ClaimsSettings
from gcushare.scheduler_extender.claims.node_order import OrderWriter
from gcushare.scheduler_extender.claims.service import ExtenderClaims
from gcushare.scheduler_extender.state.scheduling_request import Policies
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ALIYUN
from gcushare.wire.contracts import EXTENDER
from gcushare.wire.dra.claims import RESOURCE_CLAIM
from gcushare.wire.objects import NODE, POD
from simulation.claims_views import watch_views
from simulation.process import Process
from simulation.program import CONFIG, ProcessClock
from simulation.restarting import RestartingProgram
from simulation.world import World

UNUSED_S = 60.0
"""How long a template is kept that no waiting pod names."""


class ClaimsReplica(RestartingProgram):
    """A replica; its wall clock may be an hour off."""

    wall_skew_s = 3600.0

    def __init__(self, world: World, seed: int, number: int) -> None:
        super().__init__(world, f"extender-{number}", random.Random(f"claims/{seed}/extender-{number}"))
        self._elector: LeaderElector | None = None
        self.views: dict[str, ObjectCache[Any]] = {}
        """What it knows of the API server, by kind."""
        self.order: OrderWriter | None = None

    @property
    def is_leader(self) -> bool:
        """Whether it may write now."""
        if not self.process.is_alive or self._elector is None:
            return False
        return self.world.planted == "leads without a lease" or self._elector.is_leader

    def _reset(self) -> None:
        self._elector = None

    async def _run(self, process: Process) -> None:
        clock = ProcessClock(self.world.loop, process)
        rng = random.Random(self.rng.getrandbits(64))
        client = KubeClient(CONFIG, program=EXTENDER, transport=self._transport(process))
        unused_s = 1e9 if self.world.planted == "keeps templates" else UNUSED_S
        settings = ClaimsSettings(claims=True)
        state = VendorState(ALIYUN, Policies("binpack", "binpack", "close"), monotonic=clock.monotonic)
        recorder = EventRecorder(client, EXTENDER, clock=clock)
        claims = ExtenderClaims(
            settings,
            [ALIYUN],
            [state.ledger],
            client,
            recorder,
            lambda: self.is_leader,
            clock=clock,
            rng=rng,
            unused_s=unused_s,
        )
        order = self.order = claims.order
        assert order is not None
        self.views = {"resourceclaimtemplates": claims.plan.templates}
        watch_views(self.world, self.name, *self.views.values())
        lease = ApiLease(client, "kube-system", EXTENDER)
        self._elector = elector = LeaderElector(
            lease,
            f"{self.name}.{self.starts}",
            times=LeaseTimes(duration_s=15.0, renew_deadline_s=10.0, retry_s=2.0),
            listener=lambda _leads: claims.wake(),
            clock=clock,
            rng=rng,
        )
        watches: tuple[Reflector[Any], ...] = (
            Reflector(client, PODS, PodHandler([state, claims.plan]), decode=POD.read, clock=clock, rng=rng),
            Reflector(client, NODES, NodeHandler([state, order]), decode=NODE.read, clock=clock, rng=rng),
            Reflector(client, RESOURCE_CLAIMS, ClaimHandler([state]), decode=RESOURCE_CLAIM.read, clock=clock, rng=rng),
            *claims.watches.values(),
        )
        async with asyncio.TaskGroup() as tasks:
            for watch in watches:
                tasks.create_task(watch.run())
            tasks.create_task(recorder.run())
            for watch in watches:
                await watch.synced.wait()
            tasks.create_task(claims.keeper.run())
            tasks.create_task(order.run(watches[2].synced.wait))
            tasks.create_task(elector.run())
