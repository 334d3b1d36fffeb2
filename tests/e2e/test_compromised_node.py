"""The plugin's token of one node, turned against another node and its pods, on kube-apiserver with the policies."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gcushare.core.errors import GcushareError
from gcushare.device_plugin.plugin_settings import COMPONENT
from gcushare.kube.clock import SystemClock
from gcushare.kube.events import EventRecorder, RecorderLimits
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import Resource
from gcushare.vendors import ENFLAME
from gcushare.wire.objects import ObjectReference
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.e2e.control_plane import NODE, ControlPlane
from tests.e2e.installing import RECORD, until_policies_hold
from tests.e2e.two_nodes import FAR_POD, OTHER_NODE, TwoNodes, open_two_nodes

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "9f4c1f0a-0000-4000-8000-000000000001"}
POD_PATH = f"/api/v1/namespaces/default/pods/{FAR_POD}"
NODE_PATH = f"/api/v1/nodes/{OTHER_NODE}"
NOT_ITS_POD = "a device plugin writes only on the pods of its own node"
NOT_ITS_NODE = "a device plugin writes only on its own node"
NOT_ITS_NAME = "a device plugin writes Events in its own name and of its own node"
EVENT_OBJECTS: Resource[dict[str, Any]] = Resource("api/v1", "events", dict)
SAYS_WHO = ("source", "reportingComponent", "reportingInstance")
PATIENCE_S = 30.0
EVENTS_PATH = "/api/v1/namespaces/default/events"

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
        await nodes.stolen.patch(POD_OBJECTS, FAR_POD, patch, namespace="default", subresource="status")


@pytest.mark.parametrize("subresource", ["", "status"])
async def test_another_nodes_pod_gets_no_other_image(nodes: TwoNodes, subresource: str) -> None:
    patch = Patch(PatchKind.STRATEGIC, {"spec": {"containers": [{"name": "main", "image": "evil/x:1"}]}})
    with pytest.raises(GcushareError, match=NOT_ITS_POD if subresource else 'cannot patch resource "pods"'):
        await nodes.stolen.patch(POD_OBJECTS, FAR_POD, patch, namespace="default", subresource=subresource)


INVENTORY = pytest.param({"annotations": {ENFLAME.inventory_annotation: "{}"}}, id="inventory")


@pytest.mark.parametrize("change", [INVENTORY, *METADATA])
async def test_another_nodes_metadata_is_not_patched(nodes: TwoNodes, change: dict[str, Any]) -> None:
    patch = Patch(PatchKind.MERGE, {"metadata": change})
    with pytest.raises(GcushareError, match=NOT_ITS_NODE):
        await nodes.stolen.patch(NODE_OBJECTS, OTHER_NODE, patch, subresource="status")


async def test_another_nodes_capacity_and_taints_are_not_patched(nodes: TwoNodes) -> None:
    with pytest.raises(GcushareError, match=NOT_ITS_NODE):
        await nodes.stolen.patch_node_capacity(OTHER_NODE, {ENFLAME.count_resource: 0})
    taints = Patch(PatchKind.MERGE, {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}})
    for subresource, refusal in (("status", NOT_ITS_NODE), ("", 'cannot patch resource "nodes"')):
        with pytest.raises(GcushareError, match=refusal):
            await nodes.stolen.patch(NODE_OBJECTS, OTHER_NODE, taints, subresource=subresource)


def an_event(component: str, host: str, about: tuple[str, str]) -> dict[str, Any]:
    kind, name = about
    return {
        "metadata": {"name": f"said-{secrets.token_hex(4)}", "namespace": "default"},
        "involvedObject": {"kind": kind, "name": name, "namespace": "default"},
        "source": {"component": component, "host": host},
        "reportingComponent": component,
        "reportingInstance": host,
        "reason": "Failed",
        "type": "Warning",
    }


@pytest.mark.parametrize(
    ("component", "host", "about"),
    [
        pytest.param("kubelet", OTHER_NODE, ("Pod", FAR_POD), id="another node's kubelet"),
        pytest.param("kubelet", NODE, ("Pod", FAR_POD), id="its own node's kubelet"),
        pytest.param("gcushare-device-plugin", OTHER_NODE, ("Pod", FAR_POD), id="another node's plugin"),
        pytest.param("gcushare-device-plugin", NODE, ("Node", OTHER_NODE), id="about another node"),
        pytest.param("gcushare-device-plugin", NODE, ("Secret", "any"), id="about something else"),
    ],
)
async def test_no_event_is_written_in_anothers_name(
    nodes: TwoNodes, component: str, host: str, about: tuple[str, str]
) -> None:
    assert await nodes.send("POST", EVENTS_PATH, an_event(component, host, about)) == 422
    theirs = an_event("kubelet", OTHER_NODE, ("Pod", FAR_POD))
    await nodes.control_plane.client.create(EVENT_OBJECTS, theirs, namespace="default")
    change = Patch(
        PatchKind.MERGE, {"message": "x", **{key: an_event(component, host, about)[key] for key in SAYS_WHO}}
    )
    with pytest.raises(GcushareError, match=f"{NOT_ITS_NAME}|about pods and its own node"):
        await nodes.stolen.patch(EVENT_OBJECTS, theirs["metadata"]["name"], change, namespace="default")


async def test_no_event_of_others_is_overwritten_in_its_own_name(nodes: TwoNodes) -> None:
    theirs = an_event("kubelet", OTHER_NODE, ("Pod", FAR_POD))
    await nodes.control_plane.client.create(EVENT_OBJECTS, theirs, namespace="default")
    own = an_event(COMPONENT, NODE, ("Pod", FAR_POD))
    change = Patch(PatchKind.MERGE, {"message": "x", **{key: own[key] for key in SAYS_WHO}})
    with pytest.raises(GcushareError, match=NOT_ITS_NAME):
        await nodes.stolen.patch(EVENT_OBJECTS, theirs["metadata"]["name"], change, namespace="default")


async def test_the_plugin_still_writes_and_repeats_its_own_events(nodes: TwoNodes) -> None:
    recorder = EventRecorder(
        nodes.stolen, COMPONENT, host=NODE, limits=RecorderLimits(interval_s=0.0), clock=SystemClock()
    )
    running = asyncio.create_task(recorder.run())
    for about in (
        ObjectReference(kind="Node", name=NODE, uid=NODE),
        ObjectReference(kind="Pod", namespace="default", name="x"),
    ):
        for message in ("once", "again"):
            recorder.record(about, "CardSick", message)
            assert await recorder.drain(PATIENCE_S)
    running.cancel()
    assert (recorder.counters["posted"], recorder.counters["failed"]) == (4, 0)
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    assert await nodes.send("POST", path, an_event("kubelet", OTHER_NODE, ("Pod", FAR_POD))) == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("PUT", f"{POD_PATH}/status", id="update of a pod's status"),
        pytest.param("DELETE", POD_PATH, id="deletion of a pod"),
        pytest.param("DELETE", "/api/v1/namespaces/default/pods", id="deletion of all pods"),
        pytest.param("POST", f"{POD_PATH}/binding", id="binding"),
        pytest.param("POST", f"{POD_PATH}/eviction", id="eviction"),
        pytest.param("POST", f"{POD_PATH}/exec?command=id", id="exec"),
        pytest.param("PUT", f"{NODE_PATH}/status", id="update of a node's status"),
        pytest.param("DELETE", NODE_PATH, id="deletion of a node"),
        pytest.param("GET", "/api/v1/namespaces/kube-system/secrets", id="Secrets"),
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
