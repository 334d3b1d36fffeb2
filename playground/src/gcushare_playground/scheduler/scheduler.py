"""The scheduler double: follows nodes and pods, tries one pod at a time, binds in the background, tells why not."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from gcushare.core.assignments import PodRef
from gcushare.core.backoff import BackoffPolicy
from gcushare.core.errors import GcushareError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import Limits
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import NODES, PODS, Selector
from gcushare_playground.scheduler.cache import ClusterCache
from gcushare_playground.scheduler.claims import ClaimsView, read_claims, write_allocation
from gcushare_playground.scheduler.deciding import Decider, NoFit
from gcushare_playground.scheduler.extender import Extender
from gcushare_playground.scheduler.objects import NodeInfo, PodInfo, read_node, read_pod
from gcushare_playground.scheduler.queueing import QueuedPod, SchedulingQueue
from gcushare_playground.scheduler.reporting import Reporter
from gcushare_playground.scheduler.settings import SchedulerSettings

logger = logging.getLogger(__name__)

_UNFINISHED = Selector(fields="status.phase!=Succeeded,status.phase!=Failed")
_FOLLOW = ReflectorSettings(backoff=BackoffPolicy(first_s=0.05, cap_s=1.0))


class SchedulerDouble:
    """kube-scheduler as far as extenders, and the people who read its events, can tell.

    ``async with SchedulerDouble(settings, config)`` runs it; leaving the block stops it, as a killed scheduler does:
    binds under way are given up. What it calls itself in events is the first of its names.
    """

    def __init__(self, settings: SchedulerSettings, config: KubeConfig) -> None:
        self.settings = settings
        self.extenders = tuple(Extender(each) for each in settings.extenders)
        self._client = KubeClient(config, program="kube-scheduler", limits=Limits(connections=256))
        self._cache = ClusterCache(heeds_annotations=settings.heeds_node_annotations)
        self._queue = SchedulingQueue(settings.pacing, time.monotonic)
        self._decider = Decider(self.extenders, settings.ignored_resources, random.Random(settings.seed))
        self._reporter = Reporter(self._client, settings.names[0])
        self._stack = AsyncExitStack()
        self._main: asyncio.Task[None] | None = None
        self.synced = asyncio.Event()
        """Set once nodes and pods were listed for the first time."""

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._client)
        for extender in self.extenders:
            await self._stack.enter_async_context(extender)
        self._main = asyncio.create_task(self._run(), name="scheduler")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        main, self._main = self._main, None
        try:
            if main is not None:
                main.cancel()
                await asyncio.wait([main])
                if not main.cancelled():
                    main.result()
        finally:
            await self._stack.aclose()

    @property
    def waiting(self) -> int:
        """How many pods have no node yet."""
        return len(self._queue)

    async def wait_stopped(self) -> None:
        """Wait until the scheduler ends; raises what ended it."""
        if self._main is not None:
            await asyncio.shield(self._main)

    async def _run(self) -> None:
        nodes = Reflector(self._client, NODES, _NodeSink(self), decode=read_node, settings=_FOLLOW)
        pods = Reflector(self._client, PODS, _PodSink(self), decode=read_pod, selector=_UNFINISHED, settings=_FOLLOW)
        async with asyncio.TaskGroup() as group:
            group.create_task(nodes.run(), name="scheduler follows nodes")
            group.create_task(pods.run(), name="scheduler follows pods")
            group.create_task(self._reporter.run(), name="scheduler reports")
            await nodes.synced.wait()
            await pods.synced.wait()
            self.synced.set()
            logger.info("scheduling names=%s extenders=%d", ",".join(self.settings.names), len(self.extenders))
            while True:
                await self._try_next(group)

    async def _try_next(self, group: asyncio.TaskGroup) -> None:
        queued = await self._queue.pop()
        pod = queued.pod
        claims: ClaimsView | None = None
        try:
            if pod.spec.get("resourceClaims"):
                claims = await read_claims(self._client, pod)
                if claims is None:  # the original keeps such a pod out of its queue, without an Event
                    self._queue.give_back(queued, is_error=True)
                    return
            chosen = await self._decider.choose(pod, self._cache.views(), claims)
            if isinstance(chosen, NoFit):
                self._fail(queued, "Unschedulable", chosen.message, is_error=False)
                return
            if claims is not None:
                # Not in the background: the next pod must find these claims allocated.
                await write_allocation(self._client, claims, pod, chosen)
        except GcushareError as error:
            self._fail(queued, "SchedulerError", str(error), is_error=True)
            return
        if self._queue.find(pod.uid) is None:
            return  # deleted, or bound by somebody else, while we were thinking
        self._cache.assume(pod, chosen)
        logger.info("pod placed pod=%s uid=%s node=%s attempt=%d", pod.full_name, pod.uid, chosen, queued.attempts)
        group.create_task(self._bind(queued, pod, chosen), name=f"bind {pod.full_name}")

    async def _bind(self, queued: QueuedPod, pod: PodInfo, node: str) -> None:
        """Bind in the background: meanwhile the next pods are tried, with this one counted on its node."""
        binder = next((each for each in self.extenders if each.is_binder and each.is_interested(pod)), None)
        try:
            if binder is not None:
                await binder.bind(pod, node)
            else:
                await self._client.bind_pod(PodRef(pod.uid, pod.namespace, pod.name), node, {})
        except GcushareError as error:
            self._cache.forget(pod.uid)
            self._fail(queued, "SchedulerError", str(error), is_error=True)
            # Whatever waits for the room may have it now.
            self._queue.cluster_changed()
            return
        self._queue.finish(pod.uid)
        self._reporter.scheduled(pod, node)

    def _fail(self, queued: QueuedPod, reason: str, message: str, *, is_error: bool) -> None:
        pod = self._queue.find(queued.pod.uid)
        self._queue.give_back(queued, is_error=is_error)
        if pod is None:
            return
        logger.info("pod not scheduled pod=%s uid=%s reason=%s message=%s", pod.full_name, pod.uid, reason, message)
        self._reporter.failed(pod, reason, message)

    def pod_changed(self, pod: PodInfo) -> None:
        """Take in a pod's newest state."""
        if pod.is_finished:
            self.pod_gone(pod.uid)
        elif pod.node_name:
            self._queue.drop(pod.uid)
            self._cache.set_bound(pod)
        elif pod.scheduler_name in self.settings.names and not pod.is_gated and not pod.is_deleting:
            # A pod that is being bound is only brought up to date: binding may fail.
            if self._queue.find(pod.uid) is not None or not self._cache.is_placed(pod.uid):
                self._queue.put(pod)
        else:
            self._queue.drop(pod.uid)

    def pod_gone(self, uid: str) -> None:
        """Take in that a pod is gone or has ended."""
        self._queue.drop(uid)
        self._reporter.forget(uid)
        if self._cache.drop_pod(uid):
            self._queue.cluster_changed()

    def pods_retained(self, uids: frozenset[str]) -> None:
        """Take in that no other pods exist."""
        self._queue.retain(uids)
        for uid in self._cache.placed_uids() - uids:
            self.pod_gone(uid)

    def node_changed(self, node: NodeInfo) -> None:
        """Take in a node's newest state."""
        if self._cache.set_node(node):
            self._queue.cluster_changed()

    def node_gone(self, name: str) -> None:
        """Take in that a node is gone."""
        self._cache.drop_node(name)

    def nodes_retained(self, uids: frozenset[str]) -> None:
        """Take in that no other nodes exist."""
        for node in [node for node in self._cache.nodes.values() if node.uid not in uids]:
            self._cache.drop_node(node.name)


class _PodSink:
    def __init__(self, owner: SchedulerDouble) -> None:
        self._owner = owner

    def applied(self, obj: PodInfo) -> None:
        self._owner.pod_changed(obj)

    def deleted(self, obj: PodInfo) -> None:
        self._owner.pod_gone(obj.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        self._owner.pods_retained(uids)


class _NodeSink:
    def __init__(self, owner: SchedulerDouble) -> None:
        self._owner = owner

    def applied(self, obj: NodeInfo) -> None:
        self._owner.node_changed(obj)

    def deleted(self, obj: NodeInfo) -> None:
        self._owner.node_gone(obj.name)

    def retained(self, uids: frozenset[str], version: str) -> None:
        self._owner.nodes_retained(uids)
