"""A second DeviceClass for our extended resource, with the real scheduler and the extender that has it forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from gcushare.kube.resources import Resource
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
    await create_each(control_plane.client, NODE_OBJECTS, [claim_node("n1")])
    await create_each(control_plane.client, SLICES, slices_of("n1", 2, 16))
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
    await client.create(POD_OBJECTS, pod("meanwhile", 0, whole=1), namespace="default")

    async def is_refused() -> str:
        found = await client.get(POD_OBJECTS, "meanwhile", namespace="default")
        return "" if "cannot allocate all claims" in str(found.get("status")) else str(found.get("status"))

    await until(is_refused, "the other class is taken", deadline_s=60)
    await start_extender(cluster)
    await client.delete(CLASSES, "another.example.com")
    await until(lambda: is_bound("meanwhile"), "the extender had our class read again", deadline_s=90)
