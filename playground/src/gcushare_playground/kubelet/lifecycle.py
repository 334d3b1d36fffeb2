"""What happens to a pod after admission: its containers start and end, its status says so, its object is removed."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import msgspec

from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare_playground.amounts import JsonObject
from gcushare_playground.kubelet.allocation import AllocationRefused, DeviceAllocator
from gcushare_playground.kubelet.api import NodeApi
from gcushare_playground.kubelet.books import DeviceBooks
from gcushare_playground.kubelet.claims import PodClaims
from gcushare_playground.kubelet.clocks import now_text
from gcushare_playground.kubelet.containers import ContainerStore
from gcushare_playground.kubelet.podspec import ContainerSpec, Pod
from gcushare_playground.kubelet.retrying import until_accepted
from gcushare_playground.kubelet.settings import KubeletSettings
from gcushare_playground.kubelet.statuses import finished_status, rejected_status, running_status
from gcushare_playground.kubelet.tracking import Stage, TrackedPod
from gcushare_playground.kubelet.views import build_view

logger = logging.getLogger(__name__)


class PodWorkers:
    """One task per pod at a time; a later order (finish, remove) ends the earlier one."""

    def __init__(
        self,
        api: NodeApi,
        settings: KubeletSettings,
        *,
        containers: ContainerStore,
        books: DeviceBooks,
        allocator: DeviceAllocator,
        claims: PodClaims,
    ) -> None:
        self._api = api
        self._settings = settings
        self._containers = containers
        self._books = books
        self._allocator = allocator
        self._claims = claims
        self._tasks: asyncio.TaskGroup | None = None
        self._by_uid: dict[str, asyncio.Task[None]] = {}

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Run workers in this group from now on."""
        self._tasks = tasks

    def run(self, tracked: TrackedPod) -> None:
        """Start the containers of an admitted pod."""
        self._spawn("start", tracked, self._run(tracked))

    def finish(self, tracked: TrackedPod, phase: str) -> None:
        """End the containers of a running pod with this phase."""
        if tracked.stage is Stage.ACTIVE:
            self._spawn("finish", tracked, self._finish(tracked, phase))

    def reject(self, tracked: TrackedPod, reason: str, message: str) -> None:
        """Fail a pod that was not admitted; its ids are free at once."""
        self._containers.remove(tracked.pod.uid)
        tracked.stage = Stage.OVER
        logger.warning("pod rejected pod=%s reason=%s message=%s", tracked.pod.full_name, reason, message)
        self._spawn("reject", tracked, self._reject(tracked.pod, reason, message))

    def remove(self, tracked: TrackedPod) -> None:
        """End the containers of a pod that is being deleted, then remove its object."""
        if not tracked.is_removing:
            tracked.is_removing = True
            was_started = tracked.stage is Stage.ACTIVE
            tracked.stage = Stage.TERMINATING
            self._spawn("remove", tracked, self._remove(tracked, was_started=was_started))

    def restart_container(self, tracked: TrackedPod, container: ContainerSpec) -> None:
        """Run one container of a running pod again, with the devices it was given before."""
        self._spawn("restart", tracked, self._restart(tracked, container))

    async def settle(self, uid: str) -> None:
        """Wait until nothing is under way for the pod."""
        task = self._by_uid.get(uid)
        if task is not None:
            await asyncio.wait([task])

    def _spawn(self, verb: str, tracked: TrackedPod, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is None:
            raise RuntimeError("pod workers are not open")
        uid = tracked.pod.uid
        earlier = self._by_uid.get(uid)
        if earlier is not None:
            earlier.cancel()
        task = self._tasks.create_task(work, name=f"{verb} pod {tracked.pod.full_name}")
        self._by_uid[uid] = task
        task.add_done_callback(partial(self._forget, uid))

    def _forget(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._by_uid.get(uid) is task:
            del self._by_uid[uid]

    async def _run(self, tracked: TrackedPod) -> None:
        is_fresh = not self._containers.is_running(tracked.pod.uid)
        claimed = await self._claims.prepare(tracked.pod)
        if is_fresh:
            await self._start_containers(tracked, claimed)
        if is_fresh or tracked.pod.phase != "Running":
            await self._patch_status(tracked.pod, self._running_status(tracked))

    async def _start_containers(self, tracked: TrackedPod, claimed: Mapping[str, pb.ContainerAllocateResponse]) -> None:
        pod = tracked.pod
        for container in pod.containers:
            await self._prepare_start(pod, container)
        started = now_text()
        views = [
            build_view(pod, container, self._books.container_entries(pod.uid, container.name), claimed, started=started)
            for container in pod.containers
        ]
        self._containers.start(pod.uid, views)
        logger.info("containers started pod=%s uid=%s count=%d", pod.full_name, pod.uid, len(views))

    async def _restart(self, tracked: TrackedPod, container: ContainerSpec) -> None:
        pod = tracked.pod
        before = self._containers.view(pod.uid, container.name)
        await self._prepare_start(pod, container)
        held = self._books.container_entries(pod.uid, container.name)
        view = build_view(pod, container, held, await self._claims.prepare(pod), started=now_text())
        restarts = 1 if before is None else before.restarts + 1
        self._containers.replace(pod.uid, msgspec.structs.replace(view, restarts=restarts))
        await self._patch_status(pod, self._running_status(tracked))

    async def _prepare_start(self, pod: Pod, container: ContainerSpec) -> None:
        """Try until the container may start; a stock kubelet shows CreateContainerConfigError meanwhile."""
        while True:
            try:
                return await self._allocator.prepare_start(pod, container)
            except AllocationRefused as error:
                logger.warning(
                    "container not started pod=%s container=%s reason=%s", pod.full_name, container.name, error
                )
                await asyncio.sleep(self._settings.start_retry_s)

    async def _finish(self, tracked: TrackedPod, phase: str) -> None:
        views = self._containers.views(tracked.pod.uid)
        self._containers.end(tracked.pod.uid)
        await self._claims.unprepare(tracked.pod.uid)
        tracked.stage = Stage.OVER
        logger.info("pod finished pod=%s phase=%s", tracked.pod.full_name, phase)
        await self._patch_status(tracked.pod, finished_status(tracked.pod, views, phase=phase, now=now_text()))

    async def _reject(self, pod: Pod, reason: str, message: str) -> None:
        await self._patch_status(pod, rejected_status(reason, message, now=now_text()))
        event = self._event(pod, reason, message)
        await until_accepted(lambda: self._api.create_event(pod.namespace, event), what=f"event on {pod.full_name}")
        if pod.is_deleting:
            await self._delete(pod)

    async def _remove(self, tracked: TrackedPod, *, was_started: bool) -> None:
        pod = tracked.pod
        views = self._containers.views(pod.uid)
        is_running = self._containers.is_running(pod.uid)
        if was_started or is_running:
            await asyncio.sleep(self._settings.termination_s)
        self._containers.remove(pod.uid)
        await self._claims.unprepare(pod.uid)
        tracked.stage = Stage.OVER
        logger.info("pod terminated pod=%s uid=%s", pod.full_name, pod.uid)
        if is_running:
            await self._patch_status(pod, finished_status(pod, views, phase="Succeeded", now=now_text()))
        await self._delete(pod)

    async def _delete(self, pod: Pod) -> None:
        await until_accepted(
            lambda: self._api.delete_pod(pod.namespace, pod.name, pod.uid), what=f"delete pod {pod.full_name}"
        )

    def _running_status(self, tracked: TrackedPod) -> JsonObject:
        views = self._containers.views(tracked.pod.uid)
        host_ip = self._settings.host_ip
        return running_status(tracked.pod, views, pod_ip=tracked.pod_ip, host_ip=host_ip, now=now_text())

    async def _patch_status(self, pod: Pod, status: JsonObject) -> None:
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        call: Callable[[], Coroutine[Any, Any, JsonObject]] = partial(
            self._api.patch_pod_status, pod.namespace, pod.name, patch
        )
        await until_accepted(call, what=f"status of pod {pod.full_name}")

    def _event(self, pod: Pod, reason: str, message: str) -> JsonObject:
        now = now_text()
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{pod.name}.{uuid.uuid4().hex[:16]}", "namespace": pod.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
            "type": "Warning",
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "kubelet", "host": self._settings.node_name},
            "reportingComponent": "kubelet",
            "reportingInstance": self._settings.node_name,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
