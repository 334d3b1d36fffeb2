"""One run of the kubelet, from its start to its stop: everything that a restart loses."""

from __future__ import annotations

import asyncio
import logging
import random
import zlib
from collections.abc import Callable

from gcushare.core.errors import RemoteContractError
from gcushare.wire.pods import MIRROR
from gcushare_playground.kubelet.allocation import AllocationRefused, DeviceAllocator, NodePods
from gcushare_playground.kubelet.api import NodeApi
from gcushare_playground.kubelet.books import DeviceBooks
from gcushare_playground.kubelet.checkpoint import CheckpointFile
from gcushare_playground.kubelet.claims import PodClaims
from gcushare_playground.kubelet.containers import ContainerStore
from gcushare_playground.kubelet.faults import KubeletFaults
from gcushare_playground.kubelet.lifecycle import PodWorkers
from gcushare_playground.kubelet.logserver import LogServer
from gcushare_playground.kubelet.plugins import PluginManager
from gcushare_playground.kubelet.podresources import PodResourcesServer
from gcushare_playground.kubelet.podspec import Pod
from gcushare_playground.kubelet.publishing import NodePublisher
from gcushare_playground.kubelet.settings import KubeletSettings, shuffled
from gcushare_playground.kubelet.tracking import NodeFull, PodBook, Stage, TrackedPod
from gcushare_playground.kubelet.views import ContainerView

logger = logging.getLogger(__name__)


class KubeletSession:
    """Wires the parts of a running kubelet and admits its pods, one at a time."""

    def __init__(
        self,
        settings: KubeletSettings,
        api: NodeApi,
        containers: ContainerStore,
        *,
        faults: KubeletFaults,
        clock: Callable[[], float],
    ) -> None:
        self.books = DeviceBooks()
        self.pods = PodBook()
        self.admitted = asyncio.Event()
        """Set once the pods of the first list have all been through admission."""
        self._settings = settings
        self._containers = containers
        self._faults = faults
        self._listed = asyncio.Event()
        self._arrived = asyncio.Event()
        self._seen = asyncio.Event()
        self._devices_changed = asyncio.Event()
        self._ips = 0
        self._order = settings.order or shuffled(settings.seed)
        settings.plugin_dir.mkdir(parents=True, exist_ok=True)
        checkpoint = CheckpointFile(settings.plugin_dir)
        restore_books(self.books, checkpoint)
        self.plugins = PluginManager(
            settings.plugin_dir,
            self.books,
            checkpoint,
            on_change=self._devices_changed.set,
            message_limit_bytes=settings.message_limit_bytes,
        )
        self._claims = PodClaims(settings, api)
        self._podresources = self._make_podresources(clock)
        allocator = self._make_allocator(checkpoint)
        self.workers = PodWorkers(
            api, settings, containers=containers, books=self.books, allocator=allocator, claims=self._claims
        )
        self.publisher = NodePublisher(
            api,
            settings,
            collect_counts=self.books.counts,
            changed=self._devices_changed,
            clock=clock,
        )
        self._allocator = allocator
        self._api = api
        self._logs = LogServer(settings, self.view_of)

    def _make_podresources(self, clock: Callable[[], float]) -> PodResourcesServer:
        return PodResourcesServer(
            self._settings.podresources_socket,
            self.books,
            active_pods=self.pods.active_pods,
            claims=self._claims,
            faults=self._faults,
            rng=random.Random(self._settings.seed),
            clock=clock,
        )

    def _make_allocator(self, checkpoint: CheckpointFile) -> DeviceAllocator:
        running = self._containers.running()
        pods = NodePods(
            active_uids=self.pods.active_uids,
            are_known=self.admitted.is_set,
            ran_before_start=lambda uid, container: (uid, container) in running,
        )
        return DeviceAllocator(
            self.books,
            self.plugins.endpoints,
            pods=pods,
            faults=self._faults,
            rng=random.Random(self._settings.seed),
            asks_preferred=self._settings.asks_preferred,
            on_granted=self._podresources.note_grant,
            save=checkpoint.write,
        )

    async def run(self, serving: asyncio.Event) -> None:
        """Run until cancelled; ``serving`` is set once the sockets accept calls."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self.workers.open(tasks)
                await self.plugins.start(tasks)
                if self._settings.podresources:
                    await self._podresources.start()
                await self._logs.start()
                self.publisher.log_port = self._logs.port
                tasks.create_task(self._claims.run(), name="claims driver")
                tasks.create_task(self._api.follow_pods(self._settings.node_name, self), name="pods")
                tasks.create_task(self._admit_for_ever(), name="pod admission")
                tasks.create_task(self.publisher.run(), name="node publisher")
                serving.set()
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop accepting calls and drop the plugins; may be called again."""
        await self.plugins.stop()
        await self._podresources.stop()
        await self._logs.stop()

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Take note that a list is complete: other pods are gone."""
        for uid in sorted(self.pods.pods.keys() - uids):
            self._gone(uid)
        for orphan in self._containers.uids() - uids - self.pods.active_uids():
            logger.info("containers of a pod that is gone removed uid=%s", orphan)
            self._containers.remove(orphan)
        self._listed.set()
        self._arrived.set()

    def applied(self, obj: Pod) -> None:
        """Take one pod, new or changed."""
        pod, tracked = obj, self.pods.pods.get(obj.uid)
        if tracked is None:
            stage = Stage.OVER if pod.is_finished or MIRROR in pod.annotations else Stage.WAITING
            tracked = self.pods.track(pod, stage, pod_ip=self._address_of(pod))
            self._arrived.set()
            self._seen.set()
        else:
            tracked.pod = pod
        # No static pod runs here, so a mirror is a false one.
        if pod.is_deleting or MIRROR in pod.annotations:
            self.workers.remove(tracked)

    def deleted(self, obj: Pod) -> None:
        """Take note that a pod's object is gone; its containers end as on a deletion."""
        self._gone(obj.uid)

    def _gone(self, uid: str) -> None:
        tracked = self.pods.pods.get(uid)
        if tracked is None:
            return
        tracked.is_gone = True
        match tracked.stage:
            case Stage.WAITING:
                tracked.stage = Stage.OVER
            case Stage.ACTIVE:
                self.workers.remove(tracked)
            case Stage.TERMINATING | Stage.OVER:
                pass
        self.pods.prune()

    async def wait_for_waiting(self, count: int) -> None:
        """Wait until at least so many pods wait for admission."""
        while len(self.pods.waiting_pods()) < count:
            self._seen.clear()
            await self._seen.wait()

    def view_of(self, namespace: str, name: str, container: str) -> ContainerView | None:
        """Return a container as its runtime made it, None when it is not here."""
        tracked = self.pods.find(namespace, name)
        return None if tracked is None else self._containers.view(tracked.pod.uid, container)

    def _address_of(self, pod: Pod) -> str:
        """The pod's address: the one that it has already, the host's on the host's network, else a new one."""
        has: str = pod.raw.get("status", {}).get("podIP") or ""
        is_on_host = bool(pod.raw.get("spec", {}).get("hostNetwork"))
        return has or (self._settings.host_ip if is_on_host else self._next_ip())

    def _next_ip(self) -> str:
        self._ips += 1
        third = zlib.crc32(self._settings.node_name.encode()) % 256
        return f"10.{64 + self._ips // 250 % 64}.{third}.{self._ips % 250 + 2}"

    async def _admit_for_ever(self) -> None:
        await self._listed.wait()
        while True:
            await self._faults.admission_open.wait()
            self._arrived.clear()
            waiting = self.pods.waiting_pods()
            for pod in self._order(waiting):
                tracked = self.pods.pods.get(pod.uid)
                if tracked is not None and tracked.stage is Stage.WAITING:
                    await self._admit(tracked)
            self.admitted.set()
            self.pods.prune()
            await self._arrived.wait()
            await asyncio.sleep(self._settings.batch_window_s)

    async def _admit(self, tracked: TrackedPod) -> None:
        tracked.stage = Stage.ACTIVE
        pod = tracked.pod
        try:
            for container in pod.containers:
                await self._allocator.allocate(pod, container)
            if tracked.stage is not Stage.ACTIVE:
                return  # deleted while the plugin was asked; it may even be forgotten by now
            granted = {resource: len(ids) for resource, ids in self.books.allocated.items()}
            self.pods.check_fit(pod.uid, self.publisher.allocatable, granted)
        except (AllocationRefused, NodeFull) as error:
            if tracked.stage is Stage.ACTIVE:
                self.workers.reject(tracked, error.reason, error.message)
        else:
            logger.info("pod admitted pod=%s uid=%s", pod.full_name, pod.uid)
            self.workers.run(tracked)


def restore_books(books: DeviceBooks, file: CheckpointFile) -> None:
    """Read the checkpoint into the books; a corrupt one is logged and nothing known then, as in the stock kubelet."""
    try:
        checkpoint = file.read()
    except RemoteContractError as error:
        logger.error("checkpoint unreadable, device allocations may be wrong path=%s reason=%s", file.path, error)
        return
    if checkpoint is not None:
        books.restore(checkpoint)
