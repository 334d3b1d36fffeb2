"""What the plugin's token of one node reaches where no admission policy holds: docs/security.md names each of these."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gcushare.core.errors import ForbiddenError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.vendors import ENFLAME
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installing import RECORD
from tests.e2e.two_nodes import FAR_POD, OTHER_NODE, TwoNodes, open_two_nodes


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(control_plane: ControlPlane) -> AsyncIterator[TwoNodes]:
    """Two nodes with the rights alone, as on an API server below 1.30."""
    async with open_two_nodes(control_plane, ("gcushare",)) as made:
        yield made


async def test_the_spec_of_no_pod_and_no_node_can_be_changed(nodes: TwoNodes) -> None:
    """A patch of the object is refused; through the status the API server ignores what it says of the spec."""
    client = nodes.control_plane.client
    image = Patch(PatchKind.STRATEGIC, {"spec": {"containers": [{"name": "main", "image": "evil/x:1"}]}})
    with pytest.raises(ForbiddenError, match='cannot patch resource "pods"'):
        await nodes.stolen.patch(POD_OBJECTS, FAR_POD, image, namespace="default")
    before = await client.get(POD_OBJECTS, FAR_POD, namespace="default")
    await nodes.stolen.patch(POD_OBJECTS, FAR_POD, image, namespace="default", subresource="status")
    assert await client.get(POD_OBJECTS, FAR_POD, namespace="default") == before

    taints = {"unschedulable": True, "taints": [{"key": "x", "effect": "NoExecute"}]}
    cordon = Patch(PatchKind.MERGE, {"spec": taints})
    with pytest.raises(ForbiddenError, match='cannot patch resource "nodes"'):
        await nodes.stolen.patch(NODE_OBJECTS, OTHER_NODE, cordon)
    known = await client.get(NODE_OBJECTS, OTHER_NODE)
    await nodes.stolen.patch(NODE_OBJECTS, OTHER_NODE, cordon, subresource="status")
    assert await client.get(NODE_OBJECTS, OTHER_NODE) == known


async def test_records_labels_and_status_of_other_nodes_pods_are_open(nodes: TwoNodes) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "9f4c1f0a-0000-4000-8000-000000000001"}
    metadata = {"annotations": RECORD, "labels": {"app": "x"}, "ownerReferences": [owner]}
    patch = Patch(PatchKind.MERGE, {"metadata": metadata, "status": {"podIP": "10.9.9.9"}})
    await nodes.stolen.patch(POD_OBJECTS, FAR_POD, patch, namespace="default", subresource="status")
    after = await nodes.control_plane.client.get(POD_OBJECTS, FAR_POD, namespace="default")
    assert after["metadata"]["annotations"] == RECORD
    assert (after["metadata"]["labels"]["app"], after["status"]["podIP"]) == ("x", "10.9.9.9")
    assert "ownerReferences" not in after["metadata"], "the status keeps the owners"


async def test_other_nodes_inventory_labels_and_status_are_open(nodes: TwoNodes) -> None:
    metadata = {"annotations": {ENFLAME.inventory_annotation: "{}"}, "labels": {"zone": "x"}}
    status = {"conditions": [{"type": "Ready", "status": "False"}]}
    patch = Patch(PatchKind.MERGE, {"metadata": metadata, "status": status})
    await nodes.stolen.patch(NODE_OBJECTS, OTHER_NODE, patch, subresource="status")
    await nodes.stolen.patch_node_capacity(OTHER_NODE, {ENFLAME.count_resource: 0})
    after = await nodes.control_plane.client.get(NODE_OBJECTS, OTHER_NODE)
    assert after["metadata"]["annotations"][ENFLAME.inventory_annotation] == "{}"
    assert after["metadata"]["labels"]["zone"] == "x"
    assert after["status"]["conditions"][0]["status"] == "False"
    assert after["status"]["capacity"][ENFLAME.count_resource] == "0"


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
