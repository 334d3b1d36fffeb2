"""What the extender does for claims, with the real control plane and with the rights that the chart gives it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import find_api_server
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NAMESPACES, Resource
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL, EXTENDER
from gcushare.wire.dra.claim_names import ClaimSize
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.charts import needs_helm
from tests.e2e.assets import need_binaries
from tests.e2e.claims import (
    CLAIMS,
    SLICES,
    TEMPLATES,
    claim_node,
    claim_template,
    count_used,
    create_each,
    install,
    install_extender,
    slices_of,
    start_controller_manager,
    start_extender,
)
from tests.e2e.control_plane import PATIENT, ControlPlane
from tests.e2e.installing import account_kubeconfig
from tests.e2e.objects import JsonObject, pod
from tests.e2e.waiting import until

pytestmark = needs_helm

EVENTS: Resource[JsonObject] = Resource("api/v1", "events", dict)
GIB = 2**30


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """Two nodes of two cards, and everything but the extender."""
    need_binaries("kube-scheduler")
    await install(control_plane)
    await install_extender(control_plane)
    await start_controller_manager(control_plane)
    await create_each(control_plane.client, NODE_OBJECTS, [claim_node("n1"), claim_node("n2")])
    await create_each(control_plane.client, SLICES, [*slices_of("n1", 2, 16), *slices_of("n2", 2, 16)])
    await control_plane.start_scheduler(None)
    yield control_plane


@pytest_asyncio.fixture(loop_scope="module")
async def extender(cluster: ControlPlane) -> AsyncIterator[str]:
    """An extender that runs; its URL. Templates and pods of the test are gone at its end."""
    yield await start_extender(cluster)
    await cluster.end(EXTENDER)
    for resource in (POD_OBJECTS, CLAIMS, TEMPLATES):
        for each in await cluster.client.list_all(resource):
            meta = each["metadata"]
            await cluster.client.delete(resource, meta["name"], namespace=meta["namespace"], grace_s=0)


async def bound(cluster: ControlPlane, name: str, namespace: str = "default") -> None:
    async def missing() -> str:
        found = await cluster.client.get(POD_OBJECTS, name, namespace=namespace)
        return "" if found["spec"].get("nodeName") else str(found["status"])

    await until(missing, f"{name} is bound", deadline_s=60)


async def templates(cluster: ControlPlane) -> set[str]:
    found = await cluster.client.list_all(TEMPLATES)
    return {f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in found}


async def until_templates(cluster: ControlPlane, *names: str) -> None:
    async def missing() -> str:
        found = await templates(cluster)
        return "" if found == set(names) else str(found)

    await until(missing, f"the templates are {names}", deadline_s=60)


async def test_a_pod_as_the_manual_has_it_is_bound_and_holds_one_card(cluster: ControlPlane, extender: str) -> None:
    await cluster.client.create(POD_OBJECTS, pod("four", 4), namespace="default")
    await bound(cluster, "four")
    used = count_used(await cluster.client.list_all(CLAIMS))
    assert list(used.values()) == [4 * GIB]
    assert await templates(cluster) == {"default/gcu-memory-4"}


async def test_several_cards_are_different_cards(cluster: ControlPlane, extender: str) -> None:
    body = pod("wide", 24)
    body["metadata"]["annotations"] = {"gcushare.io/cards": "2"}
    await cluster.client.create(POD_OBJECTS, body, namespace="default")
    await bound(cluster, "wide")
    used = count_used(await cluster.client.list_all(CLAIMS))
    assert sorted(used.values()) == [12 * GIB, 12 * GIB]
    assert len({node for node, _ in used}) == 1


async def test_a_whole_card_is_never_given_together_with_shares_of_it(cluster: ControlPlane, extender: str) -> None:
    for name, body in (("w", pod("w", 0, whole=1)), *((f"s{n}", pod(f"s{n}", 10)) for n in range(3))):
        await cluster.client.create(POD_OBJECTS, body, namespace="default")
        await bound(cluster, name)
    await cluster.client.create(POD_OBJECTS, pod("late", 0, whole=1), namespace="default")

    async def refused() -> str:
        found = await cluster.client.get(POD_OBJECTS, "late", namespace="default")
        said = [each.get("message", "") for each in found["status"].get("conditions", ())]
        return "" if any("cannot allocate all claims" in text for text in said) else str(said)

    await until(refused, "the second whole card is refused", deadline_s=60)
    used = count_used(await cluster.client.list_all(CLAIMS))
    assert sorted(used.values()) == [10 * GIB, 10 * GIB, 10 * GIB, 16 * GIB]


async def test_a_template_of_somebody_else_is_left_alone_and_the_pod_says_so(
    cluster: ControlPlane, extender: str
) -> None:
    foreign = claim_template(ClaimSize(9))
    foreign["metadata"]["name"] = "gcu-memory-7"
    await cluster.client.create(TEMPLATES, foreign, namespace="default")
    await cluster.client.create(POD_OBJECTS, pod("seven", 7), namespace="default")

    async def said() -> str:
        texts = [each.get("message", "") for each in await cluster.client.list_all(EVENTS)]
        return "" if any("gcu-memory-7 was not made by gcushare" in text for text in texts) else str(texts)

    await until(said, "an event says so", deadline_s=60)
    kept = await cluster.client.get(TEMPLATES, "gcu-memory-7", namespace="default")
    assert kept["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"] == {"requests": {"memory": "9Gi"}}


async def test_a_namespace_that_did_not_opt_in_gets_no_templates(cluster: ControlPlane, extender: str) -> None:
    claims = [{"name": "x", "resourceClaimTemplateName": "gcu-memory-2"}]
    await cluster.client.create(NAMESPACES, {"metadata": {"name": "closed"}})
    await cluster.client.create(POD_OBJECTS, pod("outside", 0, resourceClaims=claims), namespace="closed")
    await cluster.client.create(POD_OBJECTS, pod("inside", 2), namespace="default")
    await bound(cluster, "inside")
    assert await templates(cluster) == {"default/gcu-memory-2"}
    labels = {"metadata": {"labels": {"gcushare.io/claims": "enabled"}}}
    await cluster.client.patch(NAMESPACES, "closed", Patch(PatchKind.MERGE, labels))
    await until_templates(cluster, "default/gcu-memory-2", "closed/gcu-memory-2")


async def test_templates_of_another_unit_are_replaced(cluster: ControlPlane, extender: str) -> None:
    await cluster.client.create(POD_OBJECTS, pod("big", 16 + 1), namespace="default")
    await until_templates(cluster, "default/gcu-memory-17")
    await cluster.end(EXTENDER)
    await start_extender(cluster, "--memory-unit", "0.1")

    async def missing() -> str:
        try:
            found = await cluster.client.get(TEMPLATES, "gcu-memory-17", namespace="default")
        except NotFoundError:
            return "none"
        amount = found["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"]["memory"]
        return "" if amount == str(17 * (GIB // 10)) else str(amount)

    await until(missing, "the template has the new unit", deadline_s=60)


async def test_a_killed_extender_goes_on_where_it_stopped(cluster: ControlPlane, extender: str) -> None:
    await cluster.children[EXTENDER].kill()
    await cluster.client.create(POD_OBJECTS, pod("waits", 5), namespace="default")
    await start_extender(cluster)
    await bound(cluster, "waits")


async def test_its_account_writes_one_label_of_nodes_and_no_claims(cluster: ControlPlane, extender: str) -> None:
    config = find_api_server(str(await account_kubeconfig(cluster, EXTENDER)))
    async with KubeClient(config, limits=PATIENT) as client:

        def labels(**values: str) -> Patch:
            return Patch(PatchKind.MERGE, {"metadata": {"labels": values}})

        await client.patch(NODE_OBJECTS, "n1", labels(**{CLAIMS_ORDER_LABEL: "3"}), subresource="status")
        for patch in (
            labels(team="a"),
            Patch(PatchKind.MERGE, {"metadata": {"annotations": {"a": "b"}}}),
            Patch(PatchKind.MERGE, {"status": {"capacity": {"cpu": "1000"}}}),
        ):
            with pytest.raises(GcushareError, match="writes only its own annotations and the label"):
                await client.patch(NODE_OBJECTS, "n1", patch, subresource="status")
        with pytest.raises(ForbiddenError):
            await client.patch(NODE_OBJECTS, "n1", Patch(PatchKind.MERGE, {"spec": {"unschedulable": True}}))
        with pytest.raises(ForbiddenError):
            await client.create(CLAIMS, {"metadata": {"name": "x"}, "spec": {}}, namespace="default")
        with pytest.raises(ForbiddenError):
            await client.delete(POD_OBJECTS, "any", namespace="default")


async def test_the_node_in_use_has_the_highest_label_and_the_next_pod_goes_there(
    cluster: ControlPlane, extender: str
) -> None:
    async def missing() -> str:
        nodes = await cluster.client.list_all(NODE_OBJECTS)
        levels = sorted(each["metadata"]["labels"].get(CLAIMS_ORDER_LABEL, "") for each in nodes)
        return "" if "1" <= levels[0] <= "4" and levels[1] >= "5" else str(levels)

    for name in ("first", "second"):
        await cluster.client.create(POD_OBJECTS, pod(name, 8), namespace="default")
        await bound(cluster, name)
        await until(missing, "one node is in use and the other is next", deadline_s=60)
    used = count_used(await cluster.client.list_all(CLAIMS))
    assert len({node for node, _ in used}) == 1


async def test_metrics_and_health_answer(cluster: ControlPlane, extender: str) -> None:
    async def missing() -> str:
        async with cluster.http.get(f"{extender}/readyz") as answer:
            return "" if answer.status == 200 else await answer.text()

    await until(missing, "it is ready", deadline_s=60)
    async with cluster.http.get(f"{extender}/metrics") as answer:
        text = await answer.text()
    assert "gcushare_claims_templates" in text
    assert 'gcushare_watch_age_seconds{resource="pods"}' in text
