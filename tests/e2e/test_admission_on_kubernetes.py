"""What the tokens of our programs may write, tried field by field on kube-apiserver with the policies of the charts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import find_api_server
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import Resource
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import OVER_USE, ROOM_FOUND
from gcushare.wire.contracts import LEADS_LABEL
from gcushare.wire.pods import MACHINE_UID, MIRROR
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.e2e.author import KEPT, PODS, make_author
from tests.e2e.control_plane import NODE, NODE_USER, PATIENT, ControlPlane
from tests.e2e.installing import DEPLOY, RECORD, account_kubeconfig, kubectl, until_policies_hold
from tests.e2e.objects import node, pod

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "9f4c1f0a-0000-4000-8000-000000000001"}
ONLY_RECORD = "a device plugin writes only the annotations of its record"
ONLY_INVENTORY = "a device plugin writes only the inventory annotation of its node"
ONLY_COUNT = "a device plugin writes only the card count into its node's capacity"
ONLY_A_KUBELET = "only a kubelet writes kubernetes.io/config."
ONLY_RECORD_BINDS = "binds with the annotations of its record and with nothing else"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A node, a pod on it, and clients with our programs' tokens."""

    control_plane: ControlPlane
    plugin: KubeClient
    extender: KubeClient
    uid: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(control_plane: ControlPlane) -> AsyncIterator[Guarded]:
    """Apply the plain manifests; nothing of them runs."""
    client = control_plane.client
    for file in ("gcushare", "admission"):
        path = DEPLOY / "manifests" / "enflame" / f"{file}.yaml"
        await asyncio.to_thread(kubectl, control_plane, "apply", "-f", str(path))
    await client.create(NODE_OBJECTS, _with_foreign_keys(node(NODE, 16)))
    made = await client.create(POD_OBJECTS, _with_foreign_keys(pod("one", 4, nodeName=NODE)), namespace="default")
    plugin = find_api_server(str(await account_kubeconfig(control_plane, "gcushare-device-plugin", on_node=True)))
    extender = find_api_server(str(await account_kubeconfig(control_plane, "gcushare-scheduler-extender")))
    await until_policies_hold(control_plane)
    async with KubeClient(plugin, limits=PATIENT) as by_plugin, KubeClient(extender, limits=PATIENT) as by_extender:
        yield Guarded(control_plane, by_plugin, by_extender, made["metadata"]["uid"])


def _with_foreign_keys(document: dict[str, Any]) -> dict[str, Any]:
    """The same object with a label and an annotation that are not ours, as every object has some."""
    meta = document["metadata"]
    annotations = {"example.com/note": "x"}
    return {
        **document,
        "metadata": {**meta, "labels": {**meta.get("labels", {}), "team": "a"}, "annotations": annotations},
    }


def _meta(**parts: Any) -> Patch:
    return Patch(PatchKind.MERGE, {"metadata": parts})


def _status(**parts: Any) -> Patch:
    return Patch(PatchKind.MERGE, {"status": parts})


METADATA = [
    pytest.param({"finalizers": ["example.com/stays-for-good"]}, id="finalizers"),
    pytest.param({"ownerReferences": [OWNER]}, id="ownerReferences"),
    pytest.param({"labels": {"team": "b"}}, id="a label"),
    pytest.param({"labels": None}, id="all labels"),
    pytest.param({"annotations": {"example.com/note": "y"}}, id="another's annotation"),
    pytest.param({"annotations": {"example.com/note": None}}, id="another's annotation away"),
    pytest.param({"annotations": {"example.com/new": "y"}}, id="a new annotation"),
]


POD_CHANGES = [
    *(pytest.param({"metadata": each.values[0]}, id=each.id) for each in METADATA),
    pytest.param({"spec": {"activeDeadlineSeconds": 1}}, id="deadline"),
    pytest.param({"spec": {"containers": [{"name": "main", "image": "evil/x:1"}]}}, id="image"),
    pytest.param({"spec": {"terminationGracePeriodSeconds": 1}}, id="grace"),
    pytest.param({"status": {"phase": "Failed"}}, id="phase"),
    pytest.param({"status": {"podIP": "10.9.9.9"}}, id="address"),
]


@pytest.mark.parametrize("change", POD_CHANGES)
async def test_a_plugin_changes_nothing_else_of_a_pod(guarded: Guarded, change: dict[str, Any]) -> None:
    client = guarded.control_plane.client
    patch = Patch(PatchKind.STRATEGIC, change)
    with pytest.raises(ForbiddenError, match='cannot patch resource "pods"'):
        await guarded.plugin.patch(POD_OBJECTS, "one", patch, namespace="default")
    before = await client.get(POD_OBJECTS, "one", namespace="default")
    # The API server itself ignores such a change of the spec and of the owners: there is nothing to refuse.
    is_ignored = "spec" in change or "ownerReferences" in change.get("metadata", {})
    with contextlib.nullcontext() if is_ignored else pytest.raises(GcushareError, match=ONLY_RECORD):
        await guarded.plugin.patch(POD_OBJECTS, "one", patch, namespace="default", subresource="status")
    assert await client.get(POD_OBJECTS, "one", namespace="default") == before


async def test_a_plugin_writes_corrects_and_removes_a_record(guarded: Guarded) -> None:
    identity = PodRef(guarded.uid, "default", "one")
    key = ENFLAME.record.card_index
    for value in ("0", "1", None):
        written = await guarded.plugin.patch_pod_annotations(identity, {key: value, "gcushare.io/corrected": value})
        assert written.metadata.annotations.get(key) == value
        assert written.metadata.annotations["example.com/note"] == "x"


@pytest.mark.parametrize("change", METADATA)
async def test_a_plugin_changes_nothing_else_of_its_nodes_metadata(guarded: Guarded, change: dict[str, Any]) -> None:
    with pytest.raises(GcushareError, match=ONLY_INVENTORY):
        await guarded.plugin.patch(NODE_OBJECTS, NODE, _meta(**change), subresource="status")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"unschedulable": True}, id="cordon"),
        pytest.param({"taints": [{"key": "x", "effect": "NoExecute"}]}, id="taint"),
        pytest.param({"providerID": "aws:///x"}, id="provider"),
    ],
)
async def test_a_plugin_changes_nothing_of_its_nodes_spec(guarded: Guarded, spec: dict[str, Any]) -> None:
    client = guarded.control_plane.client
    patch = Patch(PatchKind.MERGE, {"spec": spec})
    with pytest.raises(ForbiddenError, match='cannot patch resource "nodes"'):
        await guarded.plugin.patch(NODE_OBJECTS, NODE, patch)
    before = await client.get(NODE_OBJECTS, NODE)
    await guarded.plugin.patch(NODE_OBJECTS, NODE, patch, subresource="status")
    assert await client.get(NODE_OBJECTS, NODE) == before, "the status keeps the spec"


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"capacity": {"cpu": "1000"}}, id="another's capacity"),
        pytest.param({"capacity": {"cpu": None}}, id="another's capacity away"),
        pytest.param({"capacity": {ENFLAME.memory_resource: "1000"}}, id="the kubelet's units"),
        pytest.param({"allocatable": {ENFLAME.memory_resource: "1000"}}, id="allocatable"),
        pytest.param({"conditions": [{"type": "Ready", "status": "False"}]}, id="conditions"),
        pytest.param({"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}, id="addresses"),
        pytest.param({"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}, id="the kubelet's port"),
        pytest.param({"nodeInfo": {"kubeletVersion": "v9"}}, id="versions"),
        pytest.param({"images": [{"names": ["registry/x:1"], "sizeBytes": 1}]}, id="images"),
        pytest.param({"volumesInUse": ["v"]}, id="volumes in use"),
        pytest.param({"volumesAttached": [{"name": "v", "devicePath": "/dev/x"}]}, id="volumes attached"),
        pytest.param({"phase": "Terminated"}, id="phase"),
        pytest.param({"runtimeHandlers": [{"name": "x"}]}, id="runtimes"),
    ],
)
async def test_a_plugin_changes_nothing_else_of_its_nodes_status(guarded: Guarded, status: dict[str, Any]) -> None:
    with pytest.raises(GcushareError, match=ONLY_COUNT):
        await guarded.plugin.patch(NODE_OBJECTS, NODE, _status(**status), subresource="status")


async def test_a_plugin_writes_and_removes_its_inventory_and_its_count(guarded: Guarded) -> None:
    key = ENFLAME.inventory_annotation
    for text in ("{}", '{"version": 1}', None):
        written = await guarded.plugin.patch_node_annotations(NODE, {key: text})
        assert written.metadata.annotations.get(key) == text
    for count in (1, 2, None):
        counted = await guarded.plugin.patch_node_capacity(NODE, {ENFLAME.count_resource: count})
        assert counted.status.capacity.get(ENFLAME.count_resource) == (None if count is None else str(count))


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"annotations": {**RECORD, "example.com/note": "y"}}, id="another's annotation"),
        pytest.param({"annotations": {"example.com/note": "y"}}, id="no record"),
        pytest.param({"annotations": RECORD, "labels": {"team": "b"}}, id="a label"),
    ],
)
async def test_an_extender_binds_with_nothing_but_a_record(guarded: Guarded, metadata: dict[str, Any]) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "unbound", **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    }
    await _ensure_pod(guarded, "unbound")
    with pytest.raises(GcushareError, match=ONLY_RECORD_BINDS):
        await guarded.extender.create(_binding_of("unbound"), binding, namespace="default")


async def test_an_extender_binds_with_a_record_and_without_one(guarded: Guarded) -> None:
    for name, record in (("with", RECORD), ("without", {})):
        identity = PodRef(await _ensure_pod(guarded, name), "default", name)
        await guarded.extender.bind_pod(identity, NODE, record)
        bound = await guarded.control_plane.client.get(POD_OBJECTS, name, namespace="default")
        assert bound["spec"]["nodeName"] == NODE
        assert bound["metadata"].get("annotations", {}) == record


def _binding_of(name: str) -> Resource[dict[str, Any]]:
    return Resource("api/v1", f"pods/{name}/binding", dict)


async def _ensure_pod(guarded: Guarded, name: str) -> str:
    """Have a pod that waits for no one; returns its uid."""
    client = guarded.control_plane.client
    try:
        found = await client.get(POD_OBJECTS, name, namespace="default")
    except NotFoundError:
        found = await client.create(POD_OBJECTS, pod(name, 4, schedulerName="stranger"), namespace="default")
    return str(found["metadata"]["uid"])


REPLICA = {
    "app.kubernetes.io/name": "gcushare-scheduler-extender",
    "app.kubernetes.io/instance": "gcushare",
    "app.kubernetes.io/component": "extender",
}
LEADS = {"labels": {LEADS_LABEL: "gcushare-scheduler-extender"}}


async def _label(guarded: Guarded, namespace: str, labels: dict[str, str], change: dict[str, Any]) -> dict[str, Any]:
    """Make a pod of a node with these labels, and change its metadata as the extender; returns it as it is then."""
    client = guarded.control_plane.client
    document = _with_foreign_keys(pod("replica", 0, nodeName=NODE))
    document["metadata"]["labels"] |= labels
    await client.create(POD_OBJECTS, document, namespace=namespace)
    try:
        patch = _meta(**change)
        await guarded.extender.patch(POD_OBJECTS, "replica", patch, namespace=namespace, subresource="status")
        return await client.get(POD_OBJECTS, "replica", namespace=namespace)
    finally:
        await client.delete(POD_OBJECTS, "replica", namespace=namespace, grace_s=0)


@pytest.mark.parametrize("value", ["gcushare-scheduler-extender", None])
async def test_an_extender_labels_the_pod_of_the_replica_that_leads(guarded: Guarded, value: str | None) -> None:
    before = REPLICA | ({LEADS_LABEL: "gcushare-scheduler-extender"} if value is None else {})
    found = await _label(guarded, "kube-system", before, {"labels": {LEADS_LABEL: value}})
    assert found["metadata"]["labels"].get(LEADS_LABEL) == value
    assert found["metadata"]["labels"]["team"] == "a"


@pytest.mark.parametrize(
    ("namespace", "labels", "change"),
    [
        pytest.param("default", REPLICA, LEADS, id="another namespace"),
        pytest.param("kube-system", {**REPLICA, "app.kubernetes.io/instance": "x"}, LEADS, id="another release"),
        pytest.param("kube-system", {}, LEADS, id="another's pod"),
        pytest.param("kube-system", {}, {"labels": REPLICA | LEADS["labels"]}, id="another's pod made its own"),
        pytest.param("kube-system", REPLICA, {"annotations": {ROOM_FOUND: "2026-01-31T12:00:00.000000Z"}}, id="room"),
        *(
            pytest.param("kube-system", REPLICA, each.values[0], id=str(each.id))
            for each in METADATA
            if each.id != "ownerReferences"
        ),
    ],
)
async def test_an_extender_changes_nothing_else_of_its_own_pods_and_labels_no_other(
    guarded: Guarded, namespace: str, labels: dict[str, str], change: dict[str, Any]
) -> None:
    with pytest.raises(GcushareError, match="the extender writes only"):
        await _label(guarded, namespace, labels, change)


@pytest.mark.parametrize("finalizers", [[], KEPT], ids=["plain", "held by a finalizer"])
@pytest.mark.parametrize("units", [0, 16])
async def test_an_author_makes_no_mirror_and_names_no_other_pods_uid(
    guarded: Guarded, finalizers: list[str], units: int
) -> None:
    author = await make_author(guarded.control_plane)
    false = pod("false", units, nodeName=NODE, automountServiceAccountToken=False)
    false["metadata"] |= {"annotations": {MIRROR: "x", MACHINE_UID: guarded.uid}, "finalizers": finalizers}
    status, answer = await author.send("POST", PODS, false)
    assert (status, ONLY_A_KUBELET in answer["message"]) == (422, True), answer
    change = {"metadata": {"annotations": {MACHINE_UID: guarded.uid}}}
    status, answer = await author.send("PATCH", f"{PODS}/one", change)
    assert (status, ONLY_A_KUBELET in answer["message"]) == (422, True), answer


async def test_a_kubelet_makes_mirrors_and_the_plugin_writes_on_them(guarded: Guarded) -> None:
    """The kubelet names its Node as the owner, which other users may not take for their own."""
    plane = guarded.control_plane
    (found,) = await plane.client.list_all(NODE_OBJECTS)
    owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": found["metadata"]["uid"], "controller": True}
    true = pod("static", 4, nodeName=NODE, automountServiceAccountToken=False)
    true["metadata"] |= {"annotations": {MIRROR: "x", MACHINE_UID: "x"}, "ownerReferences": [owner]}
    async with KubeClient(find_api_server(str(plane.kubeconfig_of(NODE_USER)))) as kubelet:
        made = await kubelet.create(POD_OBJECTS, true, namespace="default")
    identity = PodRef(made["metadata"]["uid"], "default", "static")
    await guarded.plugin.patch_pod_annotations(identity, {OVER_USE: "{}"})
    await guarded.plugin.patch_pod_annotations(identity, {OVER_USE: None})
    change = Patch(PatchKind.MERGE, {"metadata": {"annotations": {MACHINE_UID: "y"}}})
    with pytest.raises(GcushareError, match=ONLY_A_KUBELET):
        await plane.client.patch(POD_OBJECTS, "static", change, namespace="default")
