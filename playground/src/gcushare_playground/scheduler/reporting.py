"""What the scheduler writes about its decisions: the pod's PodScheduled condition, and events.

Written in the background; a pod's fate never waits for it. Every failure is logged, none is tried again: the next
attempt writes again.
"""

from __future__ import annotations

import asyncio
import logging

from gcushare.core.errors import GcushareError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock, rfc3339
from gcushare.kube.events import EventRecorder, RecorderLimits
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import PODS
from gcushare.wire.objects import ObjectReference
from gcushare_playground.amounts import JsonObject
from gcushare_playground.scheduler.objects import PodInfo

logger = logging.getLogger(__name__)

# Faster than the programs' own recorders: a demo shows a changed reason at once.
_LIMITS = RecorderLimits(interval_s=0.5, queue=20_000, series=20_000, rate_per_s=500.0, burst=1000)


class Reporter:
    """Writes for one scheduler; ``run`` it in a task of its own."""

    def __init__(self, client: KubeClient, component: str) -> None:
        self._client = client
        self._events = EventRecorder(client, component, limits=_LIMITS, clock=SystemClock())
        self._patches: asyncio.Queue[tuple[PodInfo, JsonObject]] = asyncio.Queue()
        self._reported: dict[str, tuple[str, str]] = {}

    async def run(self) -> None:
        """Write what is handed over until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run(), name="scheduler events")
            for number in range(4):
                group.create_task(self._write_patches(), name=f"scheduler pod statuses {number}")

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Tell that a pod has its node."""
        self._reported.pop(pod.uid, None)
        self._event(pod, "Scheduled", f"Successfully assigned {pod.full_name} to {node}", warning=False)

    def preempted(self, victim: PodInfo, pod: PodInfo, node: str) -> None:
        """Tell that a pod ends for another one."""
        self._event(victim, "Preempted", f"Preempted by pod {pod.uid} on node {node}", warning=False)

    def failed(self, pod: PodInfo, reason: str, message: str) -> None:
        """Tell why a pod has no node yet."""
        self._event(pod, "FailedScheduling", message, warning=True)
        if self._reported.get(pod.uid) != (reason, message) and pod.condition_message("PodScheduled") != (
            "False",
            reason,
            message,
        ):
            condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
            now = rfc3339(SystemClock().now())
            status = {"conditions": [{**condition, "lastProbeTime": None, "lastTransitionTime": now}]}
            self._reported[pod.uid] = (reason, message)
            self._patches.put_nowait((pod, {"status": status}))

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a pod that is gone."""
        self._reported.pop(uid, None)

    def _event(self, pod: PodInfo, reason: str, message: str, *, warning: bool) -> None:
        about = ObjectReference(api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
        self._events.record(about, reason, message, warning=warning)

    async def _write_patches(self) -> None:
        while True:
            pod, body = await self._patches.get()
            patch = Patch(PatchKind.STRATEGIC, {"metadata": {"uid": pod.uid}, **body})
            try:
                await self._client.patch(PODS, pod.name, patch, namespace=pod.namespace, subresource="status")
            except NotFoundError:
                logger.debug("pod went away before its status was written pod=%s", pod.full_name)
            except GcushareError as error:
                self._reported.pop(pod.uid, None)
                logger.warning("pod status not written pod=%s error=%s", pod.full_name, error)
