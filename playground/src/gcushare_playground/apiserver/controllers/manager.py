"""Runs the controllers: changes become keys in one queue, one task works it off."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from typing import Protocol

from gcushare_playground.apiserver.controllers.claims import ClaimController
from gcushare_playground.apiserver.controllers.cluster import Cluster
from gcushare_playground.apiserver.controllers.collecting import GarbageCollector
from gcushare_playground.apiserver.controllers.deployments import DeploymentController
from gcushare_playground.apiserver.controllers.endpoints import EndpointsController
from gcushare_playground.apiserver.controllers.ownership import Ownership, Ref
from gcushare_playground.apiserver.controllers.replicasets import ReplicaSetController
from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.registry import Registry
from gcushare_playground.apiserver.storage import Change, ChangeType

_log = logging.getLogger(__name__)


class Controller(Protocol):
    """Brings one kind of object to what its spec asks for."""

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Return the objects to look at after a change."""
        ...

    def sync(self, ref: Ref) -> None:
        """Take the steps that are due for one object.

        Raises:
            ApiFailure: a step was refused; it is tried again at the next change.
        """
        ...


class ControllerManager:
    """Owns the task and the queue."""

    def __init__(self, registry: Registry) -> None:
        self._storage = registry.storage
        self._ownership = Ownership(registry.storage)
        cluster = Cluster(registry, self._ownership)
        self._controllers: tuple[Controller, ...] = (
            DeploymentController(cluster),
            ReplicaSetController(cluster),
            EndpointsController(cluster),
            ClaimController(cluster),
            GarbageCollector(cluster),
        )
        self._queue: dict[tuple[Controller, Ref], None] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look at everything stored, then at every change."""
        self._ownership.rebuild()
        for collection in self._storage.collections():
            for revision in collection.view().walk(None):
                self._enqueue(Change(collection.name, ChangeType.ADDED, revision, None))
        self._storage.observers.append(self._note)
        self._task = asyncio.create_task(self._run(), name="apiserver-controllers")
        self._task.add_done_callback(_report_defect)

    async def stop(self) -> None:
        """Stop in between two objects.

        Raises:
            Exception: the defect that ended the task before.
        """
        if self._task is None:
            return
        self._storage.observers.remove(self._note)
        self._queue.clear()
        task, self._task = self._task, None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def _note(self, change: Change) -> None:
        self._ownership.note(change)
        self._enqueue(change)

    def _enqueue(self, change: Change) -> None:
        for controller in self._controllers:
            for ref in controller.concerned(change):
                self._queue[controller, ref] = None
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                item = next(iter(self._queue))
                del self._queue[item]
                controller, ref = item
                try:
                    controller.sync(ref)
                except ApiFailure as failure:
                    words = "controller step refused object=%s/%s/%s reason=%s"
                    _log.warning(words, ref.collection, *ref.key, failure)
                # Requests are answered between any two objects.
                await asyncio.sleep(0)


def _report_defect(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        # stop() raises it as well, but that may be long after the cluster stood still.
        _log.error("controllers ended task=%s", task.get_name(), exc_info=error)
