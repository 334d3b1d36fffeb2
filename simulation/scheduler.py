"""kube-scheduler: the playground's, on virtual time, with an extender behind a Service; it may restart."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.patches import merge
from gcushare_playground.apiserver.storage import Revision
from gcushare_playground.scheduler.core import SchedulerCore
from gcushare_playground.scheduler.extender import Extender, FilterAnswer
from gcushare_playground.scheduler.objects import NodeInfo, PodInfo, read_node, read_pod
from gcushare_playground.scheduler.settings import UNSCHEDULABLE_S, ExtenderSettings, SchedulerSettings
from simulation.people import Users
from simulation.process import Process
from simulation.service import Service
from simulation.views import View
from simulation.world import ClusterWorld

OnRefused: TypeAlias = Callable[[str, list[str], FilterAnswer], None]
"""Hears of an answer of filter that names no node: the pod's name, and the nodes that were asked about."""
EXTENDER_TIMEOUT_S = 5.0
FLUSH_S = UNSCHEDULABLE_S


class Scheduler:
    """One scheduler; ``start`` it again and it has forgotten everything."""

    def __init__(
        self, world: ClusterWorld, rng: random.Random, service: Service, users: Users, on_refused: OnRefused
    ) -> None:
        self.world = world
        self.rng = rng
        self._users = users
        self._extender = partial(SimulatedExtender, world, service, on_refused)
        self.process = Process("scheduler")
        self.is_up = False

    def start(self) -> None:
        """Start, or start again."""
        self.stop()
        world = self.world
        self.is_up = True
        self.process = Process("scheduler")
        self._core = SimulatedCore(world, self.rng, self._extender(), self._users)
        self.pods = View(world.loop, world.store, "pods", self.rng, matches=lambda _: True, on_change=self._pod_changed)
        self.nodes = View(
            world.loop, world.store, "nodes", self.rng, matches=lambda _: True, on_change=self._node_changed
        )
        world.views += [self.pods, self.nodes]
        for node in self.nodes.objects.values():
            self._node_changed(None, node)
        for pod in self.pods.objects.values():
            self._pod_changed(None, pod)
        create_task = partial(world.loop.create_task, context=self.process.context)
        create_task(self._core.run(create_task))

    def stop(self) -> None:
        """End at once."""
        if not self.is_up:
            return
        self.is_up = False
        self.world.loop.kill(self.process)
        for view in (self.pods, self.nodes):
            view.close()
            self.world.views.remove(view)

    def fits(self, pod: Revision, name: str) -> bool:
        """Whether a node takes a pod by the scheduler's own filters."""
        return self._core.fits(read_pod(pod.obj), name)

    def left_alone_until_s(self, uid: str) -> float:
        """Until when the scheduler waits for an event to try a pod again: up to 1.26 it does after an error."""
        return self._core.error_at_s.get(uid, -math.inf) + FLUSH_S if self._core.settings.is_old else -math.inf

    def _pod_changed(self, before: Revision | None, now: Revision | None) -> None:
        if before is not None and (now is None or now.uid != before.uid):
            self._core.pod_gone(before.uid)
        if now is not None:
            self._core.pod_changed(read_pod(now.obj))

    def _node_changed(self, before: Revision | None, now: Revision | None) -> None:
        if now is not None:
            self._core.node_changed(read_node(now.obj))
        elif before is not None:
            self._core.node_gone(before.key[1])


class SimulatedCore(SchedulerCore):
    """One run of the scheduler."""

    def __init__(self, world: ClusterWorld, rng: random.Random, extender: Extender, users: Users) -> None:
        settings = SchedulerSettings(is_old=world.settings.old_scheduler)
        self._users = users
        self.error_at_s: dict[str, float] = {}
        """By uid: when an attempt last ended with an error."""
        super().__init__(settings, [extender], clock=lambda: world.loop.now_s, rng=rng)
        self.world = world

    async def nominate(self, pod: PodInfo, node: str | None) -> bool:
        patch = {"status": {"nominatedNodeName": node}}
        store = self.world.store
        try:
            store.update("pods", (pod.namespace, pod.name), lambda doc: merge(doc, patch), "scheduler")
        except ApiFailure:
            return False
        return True

    async def evict(self, victims: Sequence[PodInfo], pod: PodInfo, node: str) -> None:
        self.world.counts["preemptions"] += 1
        self.world.note(f"scheduler: {pod.full_name} preempts {len(victims)} pods on {node}")
        for each in victims:
            self._users.delete((each.namespace, each.name), each.uid)

    def failed(self, pod: PodInfo, reason: str, message: str) -> None:
        if reason == "SchedulerError":
            self.error_at_s[pod.uid] = self.world.loop.now_s
            self.world.note(f"scheduler: {pod.full_name}: {message}")


class SimulatedExtender(Extender):
    """The extender through its Service."""

    def __init__(self, world: ClusterWorld, service: Service, on_refused: OnRefused) -> None:
        super().__init__(
            ExtenderSettings(
                url_prefix=world.vendor.url_prefix,
                filter_verb="filter",
                prioritize_verb="prioritize",
                bind_verb="bind",
                preempt_verb="preempt",
                node_cache_capable=True,
            )
        )
        self._counts = world.counts
        self._service = service
        self._on_refused = on_refused

    async def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> FilterAnswer:
        answer = await super().filter(pod, nodes)
        if not answer.names:
            self._on_refused(pod.name, [node.name for node in nodes], answer)
        return answer

    async def _post(self, url: str, body: bytes) -> tuple[int, bytes]:
        self._counts[f"{url.rpartition('/')[2]} calls"] += 1
        async with asyncio.timeout(EXTENDER_TIMEOUT_S):
            return await self._service.call(url, body)
