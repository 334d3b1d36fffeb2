"""What the extender does for nodes that serve claims, with an API server that fails, loses answers and cuts watches."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gcushare.core.cards import SERVES_CLAIMS
from gcushare.core.errors import NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import (
    NAMESPACES,
    NODES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from gcushare.runtime.settings.election import ElectionSettings
from gcushare.scheduler_extender.claims.claims_settings import ClaimsSettings
from gcushare.scheduler_extender.claims.template_plan import OWN_LABELS, TemplateKey
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL
from gcushare.wire.dra.slices import MEMORY
from gcushare_playground.apiserver import ApiServer, CutWatch, Delay, FailAfter, FailBefore, Fault
from tests.extender_objects import node_document
from tests.protocol.extender_rig import ALONE, Replica, extender_settings

EVENTS: Resource[dict[str, Any]] = Resource("api/v1", "events", dict)
PODS: Resource[dict[str, Any]] = Resource("api/v1", "pods", dict)
NODE_DOCUMENTS: Resource[dict[str, Any]] = Resource("api/v1", "nodes", dict, namespaced=False)
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
async def replica(server: ApiServer, *, elects: bool = False) -> AsyncIterator[Replica]:
    settings = extender_settings(election=ELECTION if elects else ALONE)
    running = Replica(replace(settings, claims=ClaimsSettings(claims=True)), server.url)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


def counters(replica: Replica) -> Counter[str]:
    assert replica.extender.claims is not None
    return replica.extender.claims.keeper.counters


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


async def test_a_create_whose_answer_is_lost_is_tried_again(server: ApiServer, client: KubeClient) -> None:
    fault = server.faults.on(Fault(FailAfter(), "/resourceclaimtemplates", "POST", count=2))
    async with replica(server) as extender:
        await wait_for_pod(client, "one", 5)
        await until_template(client, 5)
        await until_counted(extender)
    assert fault.hits >= 1
    assert len(await client.list_all(RESOURCE_CLAIM_TEMPLATES)) == 1


async def until_counted(extender: Replica) -> None:
    async def is_counted() -> bool:
        return counters(extender)["failed"] > 0

    await until(is_counted, "a failure was counted")


async def test_a_namespace_that_refuses_does_not_hold_up_the_others(server: ApiServer, client: KubeClient) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "full", "labels": {"gcushare.io/claims": "enabled"}}})
    refusal = FailBefore(403, "Forbidden", "exceeded quota")
    server.faults.on(Fault(refusal, "/namespaces/full/resourceclaimtemplates", "POST"))
    async with replica(server) as extender:
        claims = [{"name": "c", "resourceClaimTemplateName": "gcu-memory-5"}]
        spec = {"containers": [{"name": "main", "image": "i"}], "resourceClaims": claims}
        await client.create(PODS, {"metadata": {"name": "stuck"}, "spec": spec}, namespace="full")
        await until_counted(extender)
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


async def test_a_held_template_is_reported_although_the_watch_showed_its_deletion_before_the_answer(
    server: ApiServer, client: KubeClient
) -> None:
    server.faults.on(Fault(Delay(0.3), "/resourceclaimtemplates", "DELETE"))
    async with replica(server) as extender:
        assert extender.extender.claims is not None
        spec = msgspec.to_builtins(extender.extender.claims.plan.spec_of(TemplateKey("team", "gcu-memory-6")))
        metadata = {"name": "gcu-memory-5", "labels": dict(OWN_LABELS), "finalizers": ["example.com/held"]}
        await client.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": metadata, "spec": spec}, namespace="team")

        async def is_deleted() -> bool:
            return counters(extender)["deleted"] == 1

        await until(is_deleted, "the forged template is to go")
        await wait_for_pod(client, "one", 5)

        async def is_said() -> bool:
            return "ClaimTemplateHeld" in {each.get("reason") for each in await client.list_all(EVENTS)}

        await until(is_said, "an event says what holds it")
        patch = Patch(PatchKind.MERGE, {"metadata": {"finalizers": None}})
        await client.patch(RESOURCE_CLAIM_TEMPLATES, "gcu-memory-5", patch, namespace="team")

        async def is_ours() -> bool:
            (found,) = await client.list_all(RESOURCE_CLAIM_TEMPLATES) or (None,)
            return found is not None and msgspec.to_builtins(found.spec) != spec

        await until(is_ours, "the template is the extender's")


async def test_one_of_two_replicas_works_and_the_other_takes_over(server: ApiServer, client: KubeClient) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(replica(server, elects=True))
        async with replica(server, elects=True) as second:
            await wait_for_pod(client, "one", 1)
            await until_template(client, 1)
            assert sorted(counters(each)["created"] for each in (first, second)) == [0, 1]
        await wait_for_pod(client, "two", 2)
        await until_template(client, 2)


@pytest.mark.slow
async def test_a_label_of_a_node_that_cannot_be_written_is_tried_again(server: ApiServer, client: KubeClient) -> None:
    await client.create(NODE_DOCUMENTS, node_document("n", 16, modes=(SERVES_CLAIMS,)))
    server.faults.on(Fault(FailBefore(503, "ServiceUnavailable", "busy"), "/nodes/n", "PATCH", count=2))

    async def level() -> str:
        return (await client.get(NODES, "n")).metadata.labels.get(CLAIMS_ORDER_LABEL, "")

    async def is_next() -> bool:
        return await level() == "4"

    async def is_used() -> bool:
        return await level() == "6"

    async with replica(server) as extender:
        await until(is_next, "the node is the next to be opened")
        result = {"request": "card", "driver": ENFLAME.claims.driver, "pool": "n", "device": "card-0"}
        results = [{**result, "consumedCapacity": {MEMORY: "4Gi"}}]
        status = {"allocation": {"devices": {"results": results}}}
        await client.create(RESOURCE_CLAIMS, {"metadata": {"name": "c"}, "spec": {}}, namespace="team")
        patch = Patch(PatchKind.MERGE, {"status": status})
        await client.patch(RESOURCE_CLAIMS, "c", patch, namespace="team", subresource="status")
        await until(is_used, "a quarter of the node is in use")
        assert extender.extender.claims is not None
        assert extender.extender.claims.order is not None
        assert extender.extender.claims.order.counters["failed"] > 0
