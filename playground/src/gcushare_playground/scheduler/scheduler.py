"""The scheduler double: follows nodes and pods, tries one pod at a time, binds in the background, tells why not."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

from gcushare.core.assignments import PodRef
from gcushare.core.backoff import BackoffPolicy
from gcushare.core.errors import ConflictError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import Limits
from gcushare.kube.patches import Patch, PatchKind, Precondition
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import NODES, PODS, Selector
from gcushare_playground.lifetime import Startable
from gcushare_playground.scheduler.claims import ClaimsView, read_claims, write_allocation
from gcushare_playground.scheduler.core import SchedulerCore
from gcushare_playground.scheduler.extender import Extender
from gcushare_playground.scheduler.objects import NodeInfo, PodInfo, decode_node, decode_pod
from gcushare_playground.scheduler.reporting import Reporter
from gcushare_playground.scheduler.settings import NAME, SchedulerSettings

logger = logging.getLogger(__name__)

_UNFINISHED = Selector(fields="status.phase!=Succeeded,status.phase!=Failed")
_FOLLOW = ReflectorSettings(backoff=BackoffPolicy(first_s=0.05, cap_s=1.0))


class SchedulerDouble(Startable, SchedulerCore):
    """kube-scheduler as far as extenders, and the people who read its events, can tell.

    ``async with SchedulerDouble(settings, config)`` runs it; leaving the block stops it, as a killed scheduler does:
    binds under way are given up.
    """

    def __init__(self, settings: SchedulerSettings, config: KubeConfig) -> None:
        extenders = [Extender(each) for each in settings.extenders]
        super().__init__(settings, extenders, clock=time.monotonic, rng=random.Random(0))
        self._client = KubeClient(config, program="kube-scheduler", limits=Limits(connections=256))
        self._reporter = Reporter(self._client, NAME)
        self._stack = AsyncExitStack()
        self._main: asyncio.Task[None] | None = None
        self.synced = asyncio.Event()
        """Set once nodes and pods were listed for the first time."""

    async def start(self) -> None:
        await self._stack.enter_async_context(self._client)
        for extender in self.extenders:
            await self._stack.enter_async_context(extender)
        self._main = asyncio.create_task(self._run(), name="scheduler")

    async def stop(self) -> None:
        main, self._main = self._main, None
        try:
            if main is not None:
                main.cancel()
                await asyncio.wait([main])
                if not main.cancelled():
                    main.result()
        finally:
            await self._stack.aclose()

    async def _run(self) -> None:
        nodes = Reflector(
            self._client, NODES, _NodeSink(self), decode=decode_node, settings=_FOLLOW, clock=SystemClock()
        )
        pods = Reflector(
            self._client,
            PODS,
            _PodSink(self),
            decode=decode_pod,
            selector=_UNFINISHED,
            settings=_FOLLOW,
            clock=SystemClock(),
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(nodes.run(), name="scheduler follows nodes")
            group.create_task(pods.run(), name="scheduler follows pods")
            group.create_task(self._reporter.run(), name="scheduler reports")
            await nodes.synced.wait()
            await pods.synced.wait()
            self.synced.set()
            logger.info("scheduling name=%s extenders=%d", NAME, len(self.extenders))
            await self.run(group.create_task)

    async def read_claims(self, pod: PodInfo) -> ClaimsView | None:
        return await read_claims(self._client, pod)

    async def write_allocation(self, view: ClaimsView, pod: PodInfo, node: str) -> None:
        await write_allocation(self._client, view, pod, node)

    async def bind_pod(self, pod: PodInfo, node: str) -> None:
        await self._client.bind_pod(PodRef(pod.uid, pod.namespace, pod.name), node, {})

    async def nominate(self, pod: PodInfo, node: str | None) -> bool:
        patch = Patch(PatchKind.MERGE, {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}})
        await self._client.patch(PODS, pod.name, patch, namespace=pod.namespace, subresource="status")
        return True

    async def evict(self, victims: Sequence[PodInfo], pod: PodInfo, node: str) -> None:
        for each in victims:
            with suppress(NotFoundError, ConflictError):  # it ended by itself
                await self._client.delete(
                    PODS, each.name, namespace=each.namespace, precondition=Precondition(uid=each.uid)
                )
                self._reporter.preempted(each, pod, node)

    def bound(self, pod: PodInfo, node: str) -> None:
        self._reporter.scheduled(pod, node)

    def failed(self, pod: PodInfo, reason: str, message: str) -> None:
        self._reporter.failed(pod, reason, message)

    def gone(self, uid: str) -> None:
        self._reporter.forget(uid)


class _PodSink:
    def __init__(self, owner: SchedulerCore) -> None:
        self._owner = owner

    def applied(self, obj: PodInfo) -> None:
        self._owner.pod_changed(obj)

    def deleted(self, obj: PodInfo) -> None:
        self._owner.pod_gone(obj.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        self._owner.pods_retained(uids)


class _NodeSink:
    def __init__(self, owner: SchedulerCore) -> None:
        self._owner = owner

    def applied(self, obj: NodeInfo) -> None:
        self._owner.node_changed(obj)

    def deleted(self, obj: NodeInfo) -> None:
        self._owner.node_gone(obj.name)

    def retained(self, uids: frozenset[str], version: str) -> None:
        self._owner.nodes_retained(uids)
