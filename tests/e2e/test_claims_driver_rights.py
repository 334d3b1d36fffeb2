"""The rights of the claims driver, on a real API server: its own node's slices, and no others."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from gcushare.claims_driver.publishers import slice_name
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import OVER_USE
from gcushare.wire.contracts import CLAIMS_DRIVER
from tests.charts import CLAIMS_CHART, NAMESPACE, needs_helm, of_kind, rendered
from tests.e2e.control_plane import ControlPlane
from tests.e2e.waiting import until

pytestmark = needs_helm

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
OWN_INVENTORY = "gcushare-claims-own-inventory"
OWN_EVENTS = "gcushare-claims-own-events"
POLICY = "ValidatingAdmissionPolicy"
PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    POLICY: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}


def driver_on(node: str) -> dict[str, str]:
    """The headers by which an administrator acts as the driver's pod on a node."""
    headers = {"Impersonate-User": f"system:serviceaccount:{NAMESPACE}:{CLAIMS_DRIVER}"}
    return headers | ({"Impersonate-Extra-authentication.kubernetes.io%2fnode-name": node} if node else {})


def a_slice(node: str, *, pool: str = "", name: str = "", driver: str = "enflame.gcushare.io") -> dict[str, Any]:
    found = {"name": pool or node, "generation": 9, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": found}
    return {"metadata": {"name": name or slice_name(node, driver, 0)}, "spec": spec}


async def test_the_driver_writes_the_slices_of_its_own_node_alone(control_plane: ControlPlane) -> None:
    http, url = control_plane.http, control_plane.url

    async def send(method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> int:
        async with http.request(method, url + path, json=body, headers=headers) as answer:
            problems.append(await answer.text())
            return answer.status

    problems: list[str] = []
    for each in of_kind(rendered(CLAIMS_CHART), *PATHS):
        if each["metadata"]["name"] in (CLAIMS_DRIVER, "gcushare-claims-own-slices", OWN_INVENTORY, OWN_EVENTS):
            assert await send("POST", PATHS[each["kind"]], each) == 201, problems[-1]

    async def is_refused() -> str:
        status = await send("POST", f"{SLICES}?dryRun=All", a_slice("node-2"), driver_on("node-1"))
        return "" if status == 422 else f"{status}: {problems[-1]}"

    await until(is_refused, "the policy is in force")
    assert "writes the slices of that node alone, not of node-2" in problems[-1]
    assert await send("POST", SLICES, a_slice("node-1"), driver_on("")) == 422, problems[-1]
    assert await send("POST", SLICES, a_slice("node-1"), driver_on("node-1")) == 201, problems[-1]
    own = f"{SLICES}/{a_slice('node-1')['metadata']['name']}"
    assert await send("DELETE", own, None, driver_on("node-2")) == 422, problems[-1]
    for forged, said in (
        (a_slice("node-1", pool="node-2"), "not pool node-2"),  # a newer generation would hide that node's cards
        (a_slice("node-1", driver="gpu.nvidia.com"), "of gpu.nvidia.com"),
        (a_slice("node-1", name="node-2-enflame.gcushare.io-00"), "not node-2-enflame.gcushare.io-00"),
    ):
        assert await send("POST", SLICES, forged, driver_on("node-1")) == 422, problems[-1]
        assert said in problems[-1]
    assert await send("DELETE", own, None, driver_on("node-1")) == 200, problems[-1]
    assert await send("GET", "/api/v1/pods", None, driver_on("node-1")) == 403


async def test_the_driver_writes_events_in_its_own_name_about_its_own_node_alone(control_plane: ControlPlane) -> None:
    http, events = control_plane.http, f"{control_plane.url}/api/v1/namespaces/default/events"

    async def post(component: str, host: str, about: str) -> str:
        event = {
            "metadata": {"name": f"said-{secrets.token_hex(4)}", "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": about},
            "source": {"component": component, "host": host},
            "reportingComponent": component,
            "reportingInstance": host,
        }
        async with http.post(events, json=event, headers=driver_on("node-1")) as answer:
            return "" if answer.status == 201 else await answer.text()

    async def is_refused() -> str:
        problem = await post("kubelet", "node-1", "node-1")
        return "" if "writes Events in its own name and about its own node" in problem else problem or "accepted"

    await until(is_refused, "the policy is in force")
    assert await post(CLAIMS_DRIVER, "node-2", "node-2") != ""
    assert await post(CLAIMS_DRIVER, "node-1", "node-2") != ""
    assert await post(CLAIMS_DRIVER, "node-1", "node-1") == ""


@pytest.mark.parametrize("path", ["/api/v1/nodes", SLICES, "/apis/resource.k8s.io/v1/resourceclaims"])
async def test_the_driver_may_list_what_it_follows(control_plane: ControlPlane, path: str) -> None:
    async with control_plane.http.get(control_plane.url + path, headers=driver_on("node-1")) as answer:
        assert answer.status == 200, await answer.text()


async def test_the_driver_writes_the_inventory_of_its_own_node_and_nothing_else(control_plane: ControlPlane) -> None:
    http, url = control_plane.http, control_plane.url
    nodes = f"{url}/api/v1/nodes"
    for name in ("node-1", "node-2"):
        node = {"metadata": {"name": name, "annotations": {"kept": "1"}, "labels": {"kept": "1"}}}
        async with http.post(nodes, json=node) as made:
            assert made.status == 201, await made.text()

    async def patch(node: str, metadata: object, *, path: str = "/status", **parts: object) -> str:
        headers = driver_on("node-1") | {"Content-Type": "application/merge-patch+json"}
        body = {"metadata": metadata, **parts}
        async with http.patch(f"{nodes}/{node}{path}", json=body, headers=headers) as answer:
            return "" if answer.status == 200 else await answer.text()

    written = {"annotations": {ENFLAME.inventory_annotation: "{}"}}

    async def is_refused() -> str:
        problem = await patch("node-2", written)
        return "" if "writes the inventory of that node alone, not of node-2" in problem else problem or "accepted"

    await until(is_refused, "the policy is in force")
    assert await patch("node-1", written) == ""
    alone = "the claims driver writes only the inventory annotation of its node"
    for other in ({"annotations": {"kept": None}}, {"annotations": {"kept": "2"}}, {"labels": {"new": "1"}}):
        assert alone in await patch("node-1", other)
    assert alone in await patch("node-1", {}, status={"capacity": {"cpu": "1000"}})
    assert "cannot patch resource" in await patch("node-1", written, path="")
    assert await patch("node-1", {"annotations": {ENFLAME.inventory_annotation: None}}) == ""


async def test_with_pod_use_it_notes_over_use_on_its_own_pods_and_nothing_else(control_plane: ControlPlane) -> None:
    http, url = control_plane.http, control_plane.url
    pods = f"{url}/api/v1/namespaces/default/pods"
    for name in ("node-1", "node-2"):
        spec = {"nodeName": name, "containers": [{"name": "main", "image": "x"}]}
        async with http.post(pods, json={"metadata": {"name": f"on-{name}"}, "spec": spec}) as made:
            assert made.status == 201, await made.text()
    for each in of_kind(rendered(CLAIMS_CHART, "driver.podUse=true"), *PATHS):
        path = f"{url}{PATHS[each['kind']]}"
        if each["metadata"]["name"] == "gcushare-claims-own-pods":
            async with http.post(path, json=each) as made:
                assert made.status == 201, await made.text()
        elif each["metadata"]["name"] == {"ClusterRole": CLAIMS_DRIVER, POLICY: OWN_EVENTS}.get(each["kind"]):
            change = {key: each[key] for key in ("rules", "spec") if key in each}
            merge = {"Content-Type": "application/merge-patch+json"}
            async with http.patch(f"{path}/{each['metadata']['name']}", json=change, headers=merge) as made:
                assert made.status == 200, await made.text()

    async def patch(pod: str, metadata: object, *, path: str = "/status", **parts: object) -> str:
        headers = driver_on("node-1") | {"Content-Type": "application/merge-patch+json"}
        async with http.patch(f"{pods}/{pod}{path}", json={"metadata": metadata, **parts}, headers=headers) as answer:
            return "" if answer.status == 200 else await answer.text()

    note = {"annotations": {OVER_USE: "{}"}}

    async def is_refused() -> str:
        problem = await patch("on-node-2", note)
        return "" if "writes only on the pods of its own node" in problem else problem or "accepted"

    await until(is_refused, "the policy is in force")
    assert await patch("on-node-1", note) == ""
    alone = f"the claims driver writes only the annotation {OVER_USE} of a pod"
    for other in ({"annotations": {"other": "1"}}, {"labels": {"new": "1"}}):
        assert alone in await patch("on-node-1", other)
    assert alone in await patch("on-node-1", {}, status={"phase": "Succeeded"})
    assert "cannot patch resource" in await patch("on-node-1", note, path="")
    assert await patch("on-node-1", {"annotations": {OVER_USE: None}}) == ""

    async def is_event_refused() -> str:
        event = {
            "metadata": {"name": f"said-{secrets.token_hex(4)}", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "on-node-1", "namespace": "default"},
            "source": {"component": CLAIMS_DRIVER, "host": "node-1"},
            "reportingComponent": CLAIMS_DRIVER,
            "reportingInstance": "node-1",
        }
        async with http.post(
            f"{url}/api/v1/namespaces/default/events", json=event, headers=driver_on("node-1")
        ) as answer:
            return "" if answer.status == 201 else await answer.text()

    await until(is_event_refused, "it may speak of pods")
