"""The writes of the programs on a cluster that is there already (KUBECONFIG), in a namespace of their own.

Nothing is done that a cluster in use would notice: no Node is written, and the pods ask for a scheduler no one runs.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ConflictError, GcushareError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.connection.config import find_api_server
from gcushare.kube.election import ApiLease, LeaderElector, LeaseTimes
from gcushare.kube.events import EventRecorder
from gcushare.kube.resources import EVENTS, LEASES, NAMESPACES, PODS, Selector
from gcushare.wire.objects import ObjectReference
from tests.e2e.objects import pod
from tests.e2e.waiting import until


@dataclass(frozen=True, slots=True)
class Given:
    """A cluster and the namespace that is ours."""

    client: KubeClient
    namespace: str

    async def missing(self) -> str:
        """Say what a pod would still lack: the account of a new namespace is made a moment later."""
        try:
            await self.make_pod("probe")
        except GcushareError as error:
            return str(error)
        return ""

    async def make_pod(self, name: str) -> PodRef:
        body = pod(name, 4, schedulerName="gcushare-e2e-unserved")
        made = await self.client.create(PODS, body, namespace=self.namespace)
        return PodRef(made.metadata.uid, self.namespace, name)


@pytest_asyncio.fixture(loop_scope="module")
async def given() -> AsyncIterator[Given]:
    if not os.environ.get("KUBECONFIG"):
        pytest.skip("no KUBECONFIG: name a kubeconfig of a cluster in which a namespace may be made and deleted")
    namespace = f"gcushare-e2e-{uuid.uuid4().hex[:8]}"
    async with KubeClient(find_api_server(os.environ.get("KUBECONFIG")), program="gcushare-e2e") as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        ours = Given(client, namespace)
        try:
            await until(ours.missing, "pods can be made in the new namespace")
            yield ours
        finally:
            for each in await client.list_all(PODS, Selector(namespace=namespace)):
                await client.delete(PODS, each.metadata.name, namespace=namespace, grace_s=0)
            await client.delete(NAMESPACES, namespace)


async def test_a_pod_is_bound_once_with_its_record(given: Given) -> None:
    identity = await given.make_pod("train")
    node = f"{given.namespace}-nowhere"
    await given.client.bind_pod(identity, node, {"enflame.com/gcu-device-id": "3"})
    bound = await given.client.get(PODS, "train", namespace=given.namespace)
    assert (bound.spec.node_name, bound.metadata.annotations["enflame.com/gcu-device-id"]) == (node, "3")
    with pytest.raises(ConflictError):
        await given.client.bind_pod(identity, node, {"enflame.com/gcu-device-id": "4"})


async def test_another_pod_of_the_same_name_is_never_written(given: Given) -> None:
    identity = await given.make_pod("train")
    other = PodRef(str(uuid.uuid4()), identity.namespace, identity.name)
    with pytest.raises(ConflictError):
        await given.client.patch_pod_annotations(other, {"a": "1"})
    with pytest.raises(ConflictError):
        await given.client.bind_pod(other, f"{given.namespace}-nowhere", {})


async def test_a_lease_is_taken_and_given_back(given: Given) -> None:
    led: asyncio.Queue[bool] = asyncio.Queue()
    lease = ApiLease(given.client, given.namespace, "gcushare-extender")
    times = LeaseTimes(duration_s=10, renew_deadline_s=6, retry_s=0.2)
    elector = LeaderElector(lease, "a", times=times, listener=led.put_nowait, clock=SystemClock())
    task = asyncio.create_task(elector.run(), name="elector under test")
    async with asyncio.timeout(20):
        assert await led.get()
        task.cancel()
        assert not await led.get()
        await asyncio.wait([task])
    found = await given.client.get(LEASES, "gcushare-extender", namespace=given.namespace)
    assert found.spec.holder_identity == ""


async def test_an_event_is_shown_next_to_its_pod(given: Given) -> None:
    identity = await given.make_pod("train")
    recorder = EventRecorder(given.client, "gcushare-e2e", clock=SystemClock())
    task = asyncio.create_task(recorder.run(), name="recorder under test")
    about = ObjectReference(
        api_version="v1", kind="Pod", namespace=identity.namespace, name=identity.name, uid=identity.uid
    )
    recorder.record(about, "NoRoom", "needs 12 in one card", warning=True)
    assert await recorder.drain(10)
    task.cancel()
    await asyncio.wait([task])
    events = await given.client.list_all(EVENTS, Selector(namespace=given.namespace))
    assert [(each.reason, each.involved_object.uid) for each in events if each.reason == "NoRoom"] == [
        ("NoRoom", identity.uid)
    ]
