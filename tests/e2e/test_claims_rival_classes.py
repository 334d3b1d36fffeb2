"""A second DeviceClass for our extended resource, with the real scheduler, and the extender after it has gone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from gcushare.kube.resources import Resource
from gcushare.scheduler_extender.claims.class_mapping import READ_AGAIN
from gcushare.vendors import ENFLAME
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.charts import needs_helm
from tests.e2e.assets import need_binaries
from tests.e2e.claims import (
    SLICES,
    claim_node,
    create_each,
    install,
    install_extender,
    slices_of,
    start_controller_manager,
    start_extender,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import JsonObject, pod
from tests.e2e.waiting import until

pytestmark = needs_helm

CLASSES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "deviceclasses", dict, namespaced=False)
RIVAL = {
    "metadata": {"name": "another.example.com"},
    "spec": {
        "extendedResourceName": ENFLAME.whole_card_resource,
        "selectors": [{"cel": {"expression": "device.driver == 'another.example.com'"}}],
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    need_binaries("kube-scheduler")
    await install(control_plane)
    await install_extender(control_plane)
    await start_controller_manager(control_plane)
    await create_each(control_plane.client, NODE_OBJECTS, [claim_node("n1", cards=8)])
    await create_each(control_plane.client, SLICES, slices_of("n1", 8, 16))
    await control_plane.start_scheduler(None)
    yield control_plane


async def test_whole_cards_are_given_again_after_a_rival_class_has_gone(cluster: ControlPlane) -> None:
    client = cluster.client

    async def is_bound(name: str) -> str:
        found = await client.get(POD_OBJECTS, name, namespace="default")
        return "" if found["spec"].get("nodeName") else str(found.get("status", {}).get("conditions"))

    await client.create(POD_OBJECTS, pod("before", 0, whole=1), namespace="default")
    await until(lambda: is_bound("before"), "a pod gets a whole card", deadline_s=60)
    await client.create(CLASSES, RIVAL)
    refused: list[str] = []

    async def is_refused() -> str:
        """Create pods until one waits: kube-scheduler may not have seen the other class yet."""
        for name in refused:
            found = await client.get(POD_OBJECTS, name, namespace="default")
            if "cannot allocate all claims" in str(found.get("status")):
                refused[:] = [name]
                return ""
        if len(refused) < 6 and (not refused or not await is_bound(refused[-1])):
            refused.append(f"meanwhile-{len(refused)}")
            await client.create(POD_OBJECTS, pod(refused[-1], 0, whole=1), namespace="default")
        return f"no pod of {refused} is refused"

    await until(is_refused, "the other class is taken", deadline_s=60)
    await start_extender(cluster)
    await client.delete(CLASSES, "another.example.com")

    async def is_read_again() -> str:
        found = await client.get(CLASSES, ENFLAME.claims.whole_class)
        return "" if READ_AGAIN in found["metadata"].get("annotations", {}) else "it was not written"

    await until(is_read_again, "our class is written again", deadline_s=90)
    await client.create(POD_OBJECTS, pod("after", 0, whole=1), namespace="default")
    await until(lambda: is_bound("after"), "pods get whole cards again", deadline_s=60)
