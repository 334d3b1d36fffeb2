"""What the plugin's token of one node reaches where no admission policy holds: docs/security.md names each of these."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from gcushare.kube.patches import Patch, PatchKind
from gcushare.vendors import ENFLAME
from gcushare_playground.picture import POD_OBJECTS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installing import RECORD
from tests.e2e.two_nodes import FAR_POD, NODE_OBJECTS, OTHER_NODE, TwoNodes, open_two_nodes


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(control_plane: ControlPlane) -> AsyncIterator[TwoNodes]:
    """Two nodes with the rights alone, as on an API server below 1.30."""
    async with open_two_nodes(control_plane, ("gcushare",)) as made:
        yield made


async def test_records_and_images_of_other_nodes_pods_are_open(nodes: TwoNodes) -> None:
    change = {"metadata": {"annotations": RECORD}, "spec": {"containers": [{"name": "main", "image": "evil/x:1"}]}}
    patch = Patch(PatchKind.STRATEGIC, change)
    await nodes.stolen.patch(POD_OBJECTS, FAR_POD, patch, namespace="default")
    after = await nodes.control_plane.client.get(POD_OBJECTS, FAR_POD, namespace="default")
    assert after["metadata"]["annotations"] == RECORD
    assert "evil/x:1" in [each["image"] for each in after["spec"]["containers"]]


async def test_other_nodes_inventory_taints_and_capacity_are_open(nodes: TwoNodes) -> None:
    inventory = {ENFLAME.inventory_annotation: "{}"}
    change = {"metadata": {"annotations": inventory}, "spec": {"unschedulable": True}}
    await nodes.stolen.patch(NODE_OBJECTS, OTHER_NODE, Patch(PatchKind.MERGE, change))
    await nodes.stolen.patch_node_capacity(OTHER_NODE, {ENFLAME.count_resource: 0})
    after = await nodes.control_plane.client.get(NODE_OBJECTS, OTHER_NODE)
    assert after["metadata"]["annotations"][ENFLAME.inventory_annotation] == "{}"
    assert after["spec"]["unschedulable"] is True
    assert after["status"]["capacity"][ENFLAME.count_resource] == "0"


async def test_the_rights_still_refuse_other_verbs(nodes: TwoNodes) -> None:
    pod = f"/api/v1/namespaces/default/pods/{FAR_POD}"
    assert await nodes.send("DELETE", pod) == 403
    assert await nodes.send("POST", f"{pod}/eviction", {}) == 403
    assert await nodes.send("GET", "/api/v1/namespaces/kube-system/secrets") == 403


async def test_an_event_about_any_pod_can_be_forged_and_overwritten(nodes: TwoNodes) -> None:
    path = "/api/v1/namespaces/default/events"
    event: dict[str, Any] = {
        "metadata": {"name": "said-by-a-kubelet", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": FAR_POD, "namespace": "default"},
        "source": {"component": "kubelet", "host": OTHER_NODE},
        "reason": "Failed",
        "type": "Warning",
    }
    assert await nodes.send("POST", path, event) == 201
    written = await nodes.send(
        "PATCH", f"{path}/said-by-a-kubelet", {"message": "other text"}, "application/merge-patch+json"
    )
    assert written == 200
