"""The plugin's token of one node, turned against another node and its pods, on kube-apiserver with the policies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gcushare.core.errors import GcushareError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.vendors import ENFLAME
from gcushare_playground.picture import POD_OBJECTS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installing import RECORD, until_policies_hold
from tests.e2e.two_nodes import FAR_POD, NODE_OBJECTS, OTHER_NODE, TwoNodes, open_two_nodes

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "9f4c1f0a-0000-4000-8000-000000000001"}
POD_PATH = f"/api/v1/namespaces/default/pods/{FAR_POD}"
NODE_PATH = f"/api/v1/nodes/{OTHER_NODE}"
NOT_ITS_POD = "a device plugin writes only on the pods of its own node"
NOT_ITS_NODE = "a device plugin writes only on its own node"

METADATA = [
    pytest.param({"finalizers": ["example.com/stays-for-good"]}, id="finalizers"),
    pytest.param({"ownerReferences": [OWNER]}, id="ownerReferences"),
    pytest.param({"labels": {"app": "x"}}, id="label"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(control_plane: ControlPlane) -> AsyncIterator[TwoNodes]:
    """Two nodes, with rights and policies as the charts install them."""
    async with open_two_nodes(control_plane, ("gcushare", "admission")) as made:
        await until_policies_hold(control_plane)
        yield made


@pytest.mark.parametrize("change", [pytest.param({"annotations": RECORD}, id="record"), *METADATA])
async def test_another_nodes_pod_is_not_patched(nodes: TwoNodes, change: dict[str, Any]) -> None:
    patch = Patch(PatchKind.MERGE, {"metadata": change})
    with pytest.raises(GcushareError, match=NOT_ITS_POD):
        await nodes.stolen.patch(POD_OBJECTS, FAR_POD, patch, namespace="default")


async def test_another_nodes_pod_gets_no_other_image(nodes: TwoNodes) -> None:
    patch = Patch(PatchKind.STRATEGIC, {"spec": {"containers": [{"name": "main", "image": "evil/x:1"}]}})
    with pytest.raises(GcushareError, match=NOT_ITS_POD):
        await nodes.stolen.patch(POD_OBJECTS, FAR_POD, patch, namespace="default")


INVENTORY = pytest.param({"annotations": {ENFLAME.inventory_annotation: "{}"}}, id="inventory")


@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize("change", [INVENTORY, *METADATA])
async def test_another_nodes_metadata_is_not_patched(nodes: TwoNodes, change: dict[str, Any], subresource: str) -> None:
    patch = Patch(PatchKind.MERGE, {"metadata": change})
    with pytest.raises(GcushareError, match=NOT_ITS_NODE):
        await nodes.stolen.patch(NODE_OBJECTS, OTHER_NODE, patch, subresource=subresource)


async def test_another_nodes_capacity_and_taints_are_not_patched(nodes: TwoNodes) -> None:
    with pytest.raises(GcushareError, match=NOT_ITS_NODE):
        await nodes.stolen.patch_node_capacity(OTHER_NODE, {ENFLAME.count_resource: 0})
    taints = {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}
    with pytest.raises(GcushareError, match=NOT_ITS_NODE):
        await nodes.stolen.patch(NODE_OBJECTS, OTHER_NODE, Patch(PatchKind.MERGE, taints))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("PUT", POD_PATH, id="update of a pod"),
        pytest.param("PUT", f"{POD_PATH}/status", id="update of a pod's status"),
        pytest.param("PATCH", f"{POD_PATH}/status", id="patch of a pod's status"),
        pytest.param("PATCH", f"{POD_PATH}/ephemeralcontainers", id="a container more"),
        pytest.param("PATCH", f"{POD_PATH}/resize", id="resize"),
        pytest.param("DELETE", POD_PATH, id="deletion of a pod"),
        pytest.param("DELETE", "/api/v1/namespaces/default/pods", id="deletion of all pods"),
        pytest.param("POST", f"{POD_PATH}/binding", id="binding"),
        pytest.param("POST", f"{POD_PATH}/eviction", id="eviction"),
        pytest.param("POST", f"{POD_PATH}/exec?command=id", id="exec"),
        pytest.param("PUT", NODE_PATH, id="update of a node"),
        pytest.param("PUT", f"{NODE_PATH}/status", id="update of a node's status"),
        pytest.param("DELETE", NODE_PATH, id="deletion of a node"),
        pytest.param("GET", "/api/v1/namespaces/kube-system/secrets", id="Secrets"),
        pytest.param("GET", "/api/v1/events", id="others' Events"),
        pytest.param(
            "POST", "/api/v1/namespaces/kube-system/serviceaccounts/gcushare-scheduler-extender/token", id="a token"
        ),
    ],
)
async def test_no_other_verb_is_granted(nodes: TwoNodes, method: str, path: str) -> None:
    assert await nodes.send("GET", "/api/v1/nodes") == 200, "the stolen identity is a valid one"
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    assert await nodes.send(method, path, None if method == "GET" else {}, content) == 403


@pytest.mark.parametrize(
    ("path", "kind"), [("/api/v1/nodes/ghost", "Node"), ("/api/v1/namespaces/default/pods/ghost", "Pod")]
)
async def test_a_server_side_apply_creates_nothing(nodes: TwoNodes, path: str, kind: str) -> None:
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "ghost", "annotations": RECORD}}
    if kind == "Pod":
        body["spec"] = {"containers": [{"name": "main", "image": "evil/x:1"}]}
    applied = await nodes.send("PATCH", f"{path}?fieldManager=x&force=true", body, "application/apply-patch+yaml")
    assert applied == 403
