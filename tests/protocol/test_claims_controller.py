"""The claims controller against an API server that fails, loses answers and cuts watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from gcushare.claims_controller.app import Controller
from gcushare.claims_controller.claims_controller_settings import ControllerSettings, TemplateSettings
from gcushare.core.errors import NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import (
    NAMESPACES,
    NODES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from gcushare.runtime.settings.election import ElectionSettings
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.shutdown import Shutdown
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL
from gcushare.wire.dra.slices import MEMORY, Capacity, Device, ResourcePool, SliceSpec, new_slice
from gcushare.wire.objects import ObjectMeta
from gcushare_playground.apiserver import ApiServer, CutWatch, FailAfter, FailBefore, Fault

PODS: Resource[dict[str, Any]] = Resource("api/v1", "pods", dict)
ELECTION = ElectionSettings(
    lease_name="claims", lease_duration=2.0, lease_renew_deadline=1.0, lease_retry=0.2, lease_namespace="default"
)


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient(KubeConfig(server=server.url, source="the test")) as opened:
        labels = {"gcushare.io/claims": "enabled"}
        await opened.create(NAMESPACES, {"metadata": {"name": "team", "labels": labels}})
        yield opened


@asynccontextmanager
async def replica(server: ApiServer, *, elects: bool = False) -> AsyncIterator[Controller]:
    settings = ControllerSettings(
        claims=TemplateSettings(node_writes=1000.0),
        serve=ServeSettings(listen_address="127.0.0.1", listen_port=0),
        election=ELECTION if elects else ElectionSettings(leader_elect=False),
    )
    async with KubeClient(KubeConfig(server=server.url, source="the test")) as own:
        shutdown, controller = Shutdown(), Controller(settings, own)
        task = asyncio.create_task(controller.run(shutdown), name="controller")
        try:
            yield controller
        finally:
            shutdown.request("the test is over")
            await task


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    async with asyncio.timeout(30):
        while not await holds():  # noqa: ASYNC110 - the server over there sets no event of ours
            await asyncio.sleep(0.02)
    assert await holds(), what


async def wait_for_pod(client: KubeClient, name: str, units: int) -> None:
    claims = [{"name": "c", "resourceClaimTemplateName": f"gcu-memory-{units}"}]
    spec = {"containers": [{"name": "main", "image": "i"}], "resourceClaims": claims}
    await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace="team")


async def until_template(client: KubeClient, units: int) -> None:
    async def exists() -> bool:
        try:
            await client.get(RESOURCE_CLAIM_TEMPLATES, f"gcu-memory-{units}", namespace="team")
        except NotFoundError:
            return False
        return True

    await until(exists, f"template of {units} units")


@pytest.mark.parametrize(
    "effect",
    [
        pytest.param(FailBefore(503, "ServiceUnavailable", "busy"), id="refused"),
        pytest.param(FailAfter(), id="done, and the answer lost"),
    ],
)
async def test_a_create_that_fails_is_tried_again(server: ApiServer, client: KubeClient, effect: Any) -> None:
    fault = server.faults.on(Fault(effect, "/resourceclaimtemplates", "POST", count=2))
    async with replica(server) as controller:
        await wait_for_pod(client, "one", 5)
        await until_template(client, 5)
        await until_counted(controller)
    assert fault.hits >= 1
    assert len(await client.list_all(RESOURCE_CLAIM_TEMPLATES)) == 1


async def until_counted(controller: Controller) -> None:
    async def is_counted() -> bool:
        return controller.keeper.counters.failed > 0

    await until(is_counted, "a failure was counted")


async def test_a_namespace_that_refuses_does_not_hold_up_the_others(server: ApiServer, client: KubeClient) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "full", "labels": {"gcushare.io/claims": "enabled"}}})
    refusal = FailBefore(403, "Forbidden", "exceeded quota")
    server.faults.on(Fault(refusal, "/namespaces/full/resourceclaimtemplates", "POST"))
    async with replica(server) as controller:
        claims = [{"name": "c", "resourceClaimTemplateName": "gcu-memory-5"}]
        spec = {"containers": [{"name": "main", "image": "i"}], "resourceClaims": claims}
        await client.create(PODS, {"metadata": {"name": "stuck"}, "spec": spec}, namespace="full")
        await until_counted(controller)
        for units in range(1, 20):
            await wait_for_pod(client, f"pod-{units}", units)
        for units in range(1, 20):
            await until_template(client, units)


async def test_watches_that_are_cut_lose_nothing(server: ApiServer, client: KubeClient) -> None:
    server.faults.on(Fault(CutWatch(after_events=2), count=6))
    async with replica(server):
        for units in range(1, 12):
            await wait_for_pod(client, f"pod-{units}", units)
        for units in range(1, 12):
            await until_template(client, units)


async def test_one_of_two_replicas_works_and_the_other_takes_over(server: ApiServer, client: KubeClient) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(replica(server, elects=True))
        async with replica(server, elects=True) as second:
            await wait_for_pod(client, "one", 1)
            await until_template(client, 1)
            assert sorted(each.keeper.counters.created for each in (first, second)) == [0, 1]
        await wait_for_pod(client, "two", 2)
        await until_template(client, 2)


async def test_a_label_of_a_node_that_cannot_be_written_is_tried_again(server: ApiServer, client: KubeClient) -> None:
    await client.create(NODES, {"metadata": {"name": "n", "labels": {"gcushare.io/serve": "claims"}}})
    device = Device(name="card-0", capacity={MEMORY: Capacity(value="16Gi")}, allow_multiple_allocations=True)
    pool = ResourcePool(name="n", generation=1, resource_slice_count=1)
    spec = SliceSpec(driver=ENFLAME.claims.driver, pool=pool, node_name="n", devices=(device,))
    await client.create(RESOURCE_SLICES, new_slice(ObjectMeta(name="n-cards"), spec))
    server.faults.on(Fault(FailBefore(503, "ServiceUnavailable", "busy"), "/nodes/n", "PATCH", count=2))

    async def level() -> str:
        return (await client.get(NODES, "n")).metadata.labels.get(CLAIMS_ORDER_LABEL, "")

    async def is_next() -> bool:
        return await level() == "4"

    async def is_used() -> bool:
        return await level() == "6"

    async with replica(server):
        await until(is_next, "the node is the next to be opened")
        result = {"request": "card", "driver": ENFLAME.claims.driver, "pool": "n", "device": "card-0"}
        results = [{**result, "consumedCapacity": {MEMORY: "4Gi"}}]
        status = {"allocation": {"devices": {"results": results}}}
        await client.create(RESOURCE_CLAIMS, {"metadata": {"name": "c"}, "spec": {}}, namespace="team")
        patch = Patch(PatchKind.MERGE, {"status": status})
        await client.patch(RESOURCE_CLAIMS, "c", patch, namespace="team", subresource="status")
        await until(is_used, "a quarter of the node is in use")
