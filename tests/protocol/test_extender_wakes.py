"""The real extender learns of changes late and the scheduler waits for events: waiting pods are retried anyway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from typing import Self

import pytest

from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.patches import Patch, PatchKind
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import ROOM_FOUND
from gcushare_playground.picture import POD_OBJECTS, Picture, node_of
from gcushare_playground.scheduler import ExtenderSettings, ManagedResource, Pacing, SchedulerDouble, SchedulerSettings
from tests.extender_objects import Document, node_document, on_card, pod_document
from tests.protocol.extender_rig import ExtenderRig, Replica, until
from tests.running import running
from tests.wires import wire_to

LATE_S = 0.15
"""Behind the scheduler, by far more than it takes to ask."""

QUIET = Pacing(initial_backoff_s=0.01, max_backoff_s=0.02, unschedulable_s=3600.0)
"""Nothing but an event brings a refused pod back within the test."""


class QuietCluster:
    """An API server double, the extender behind a late wire, and the scheduler double."""

    def __init__(self, *, is_old: bool) -> None:
        self._is_old = is_old
        self._stack = AsyncExitStack()
        self.rig: ExtenderRig
        self.replica: Replica
        self.pods: Picture

    async def __aenter__(self) -> Self:
        enter = self._stack.enter_async_context
        self.rig = await enter(ExtenderRig(starts=False))
        wire = await enter(wire_to(self.rig.api.url, late_s=LATE_S))
        replica = self.replica = await self.rig.add_replica(api_url=wire.url)
        await self.rig.until_serving(replica)
        config = KubeConfig(server=self.rig.api.url, source="the playground")
        self.client = await enter(KubeClient(config))
        self.pods = Picture(self.client, POD_OBJECTS)
        await enter(running(self.pods.run(), "follow pods"))
        entry = ExtenderSettings(
            url_prefix=f"{replica.url}{ENFLAME.url_prefix}",
            filter_verb="filter",
            bind_verb="bind",
            node_cache_capable=True,
            managed_resources=(ManagedResource(name=ENFLAME.memory_resource),),
        )
        settings = SchedulerSettings(extenders=(entry,), pacing=QUIET, is_old=self._is_old)
        scheduler = await enter(SchedulerDouble(settings, config))
        await scheduler.synced.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def put(self, *documents: Document) -> None:
        for document in documents:
            self.rig.api.registry.put(document)

    async def until_refused(self, names: Iterable[str]) -> None:
        waiting = {f"default/{name}" for name in names}
        await self.pods.until(lambda: all(self._is_refused(key) for key in waiting), "the pods are refused")

    def _is_refused(self, key: str) -> bool:
        conditions = self.pods.objects.get(key, {}).get("status", {}).get("conditions") or []
        return any(each.get("reason") == "Unschedulable" for each in conditions)

    async def until_bound(self, count: int) -> None:
        await self.pods.until(lambda: self.bound() >= count, f"{count} pods are bound", deadline_s=60.0)

    def bound(self) -> int:
        return sum(
            bool(node_of(each)) and each["status"].get("phase") == "Pending" for each in self.pods.objects.values()
        )

    def noted(self) -> list[str]:
        """The pods that room was noted on."""
        return [
            each["metadata"]["name"]
            for each in self.pods.objects.values()
            if ROOM_FOUND in (each["metadata"].get("annotations") or {})
        ]

    @property
    def written(self) -> int:
        """How often room was noted on any pod."""
        return self.replica.extender.services[0].wakes.counters["written"]

    async def finish(self, name: str) -> None:
        """End a pod as a kubelet does: the last that a scheduler hears of it."""
        done = Patch(PatchKind.MERGE, {"status": {"phase": "Succeeded"}})
        await self.client.patch(POD_OBJECTS, name, done, namespace="default", subresource="status")


@pytest.fixture
async def quiet() -> AsyncIterator[QuietCluster]:
    async with QuietCluster(is_old=True) as cluster:
        yield cluster


# Hundreds of pods over real HTTP.
@pytest.mark.slow
async def test_hundreds_that_wait_fill_the_room_that_is_there_with_one_write_each(quiet: QuietCluster) -> None:
    quiet.put(node_document("node-1", 16, 16))
    quiet.put(pod_document("x", 12, node="node-1", record=on_card(0, 12)))
    quiet.put(pod_document("y", 12, node="node-1", record=on_card(1, 12)))
    names = [f"pod-{number:03}" for number in range(200)]
    quiet.put(*(pod_document(name, 5) for name in names))
    await quiet.until_refused(names)
    await quiet.finish("x")
    await quiet.until_bound(1 + 3)

    await until(lambda: quiet.written >= len(quiet.noted()))
    assert quiet.written == len(quiet.noted()) <= 3


@pytest.mark.slow
async def test_a_lifted_cordon_is_room_for_schedulers_that_do_not_look_at_annotations(quiet: QuietCluster) -> None:
    quiet.put(node_document("node-1", 16, 16, annotations={ENFLAME.cordon_annotation: "0,1"}))
    quiet.put(pod_document("a", 8))
    await quiet.until_refused(["a"])
    await quiet.client.patch_node_annotations("node-1", {ENFLAME.cordon_annotation: None})
    await quiet.until_bound(1)
    await until(lambda: quiet.written > 0)
    assert (quiet.noted(), quiet.written) == (["a"], 1)
