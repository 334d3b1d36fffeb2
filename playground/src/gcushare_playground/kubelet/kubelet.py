"""The kubelet double: starts, stops and restarts on one folder, and shows what its containers were given."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from gcushare.core.errors import NotFoundError
from gcushare_playground.kubelet.api import NodeApi
from gcushare_playground.kubelet.books import ResourceCount
from gcushare_playground.kubelet.containers import ContainerStore
from gcushare_playground.kubelet.faults import KubeletFaults
from gcushare_playground.kubelet.session import KubeletSession
from gcushare_playground.kubelet.settings import KubeletSettings
from gcushare_playground.kubelet.tracking import Stage, TrackedPod
from gcushare_playground.kubelet.views import ContainerView
from gcushare_playground.lifetime import Startable

logger = logging.getLogger(__name__)


class Kubelet(Startable):
    """A node's kubelet. ``faults`` are its switches; ``clock`` is monotonic seconds, for what takes minutes.

    What the node itself keeps (containers, checkpoint) stays in ``settings.root_dir``: it outlives ``stop`` and a
    killed process.
    """

    def __init__(self, settings: KubeletSettings, api: NodeApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.faults = KubeletFaults()
        self._api = api
        self._clock = clock
        self._containers = ContainerStore(settings.root_dir / "containers")
        self._session: KubeletSession | None = None
        self._main: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return once the sockets accept calls; the Node and the pods follow (``wait_ready``)."""
        self._containers.load()
        serving = asyncio.Event()
        self._session = KubeletSession(
            self.settings, self._api, self._containers, faults=self.faults, clock=self._clock
        )
        self._main = asyncio.create_task(self._session.run(serving), name=f"kubelet {self.settings.node_name}")
        waiter = asyncio.create_task(serving.wait(), name="kubelet serving")
        await asyncio.wait([self._main, waiter], return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if self._main.done():
            await self._main
        logger.info("kubelet serving node=%s root=%s", self.settings.node_name, self.settings.root_dir)

    async def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until the Node is registered and the pods bound by now are through admission.

        Raises:
            TimeoutError: not by then.
        """
        session = self._running()
        async with asyncio.timeout(timeout_s):
            await session.publisher.registered.wait()
            await session.admitted.wait()

    async def stop(self) -> None:
        """Stop as a killed kubelet does: containers go on, plugins see their streams end. May be called again.

        Raises:
            ExceptionGroup: a task of the kubelet had failed before.
        """
        session, self._session = self._session, None
        main, self._main = self._main, None
        if session is None or main is None:
            return
        if not main.done():
            await session.close()
            main.cancel()
        await asyncio.wait([main])
        if not main.cancelled():
            main.result()

    async def restart(self) -> None:
        """Stop and start on the same folder."""
        await self.stop()
        await self.start()

    def container_view(self, pod_uid: str, container: str) -> ContainerView | None:
        """Return what a container was given, None when it never started or was removed."""
        return self._containers.view(pod_uid, container)

    def held_ids(self, pod_uid: str, container: str, resource: str) -> frozenset[str]:
        """Return the ids that the device manager has recorded for a container."""
        return self._running().books.held_ids(pod_uid, container, resource) or frozenset()

    def counts(self) -> dict[str, ResourceCount]:
        """Return capacity and allocatable of each plugin resource as the device manager knows them."""
        return self._running().books.counts()

    @property
    def registrations(self) -> int:
        """How many registrations were accepted since the last start."""
        return self._running().plugins.registrations

    def active_uids(self) -> set[str]:
        """Return the pods whose containers may exist."""
        return self._running().pods.active_uids()

    async def gather_pods(self, count: int, *, timeout_s: float = 60.0) -> None:
        """Wait until so many pods wait for admission, which ``faults.admission_open`` must hold back meanwhile.

        Raises:
            TimeoutError: fewer came in time.
        """
        async with asyncio.timeout(timeout_s):
            await self._running().wait_for_waiting(count)

    async def finish(self, pod_uid: str, phase: str = "Succeeded") -> None:
        """End a running pod's containers with this phase.

        Raises:
            NotFoundError: no such pod runs here.
        """
        tracked = self._tracked(pod_uid)
        self._running().workers.finish(tracked, phase)
        await self._running().workers.settle(pod_uid)

    async def restart_container(self, pod_uid: str, container: str) -> None:
        """Restart one container of a running pod with the devices it was given before.

        Raises:
            NotFoundError: no such pod runs here, or it has no such container.
        """
        tracked = self._tracked(pod_uid)
        spec = tracked.pod.container(container)
        if spec is None:
            raise NotFoundError(f"pod {tracked.pod.full_name} has no container {container!r}")
        self._running().workers.restart_container(tracked, spec)
        await self._running().workers.settle(pod_uid)

    def _tracked(self, uid: str) -> TrackedPod:
        tracked = self._running().pods.pods.get(uid)
        if tracked is None or tracked.stage is not Stage.ACTIVE:
            raise NotFoundError(f"pod {uid!r} does not run on node {self.settings.node_name!r}")
        return tracked

    def _running(self) -> KubeletSession:
        if self._session is None:
            raise RuntimeError(f"kubelet of node {self.settings.node_name!r} is not started")
        return self._session
