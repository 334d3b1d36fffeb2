"""What the plugin may do where claims are on, on a real API server: its own node's slices, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from gcushare.wire.contracts import DEVICE_PLUGIN
from tests.charts import NAMESPACE, PLUGIN_CHART, needs_helm, of_kind, rendered
from tests.e2e.control_plane import ControlPlane
from tests.e2e.waiting import until

pytestmark = needs_helm

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
POLICY = "ValidatingAdmissionPolicy"
PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    POLICY: "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}


def driver_on(node: str) -> dict[str, str]:
    """The headers by which an administrator acts as the driver's pod on a node."""
    headers = {"Impersonate-User": f"system:serviceaccount:{NAMESPACE}:{DEVICE_PLUGIN}"}
    return headers | ({"Impersonate-Extra-authentication.kubernetes.io%2fnode-name": node} if node else {})


def a_slice(node: str, *, pool: str = "", name: str = "", driver: str = "enflame.gcushare.io") -> dict[str, Any]:
    found = {"name": pool or node, "generation": 9, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": found}
    return {"metadata": {"name": name or f"{node}-{driver}-1f"}, "spec": spec}


async def test_the_driver_writes_the_slices_of_its_own_node_alone(control_plane: ControlPlane) -> None:
    http, url = control_plane.http, control_plane.url

    async def send(method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> int:
        async with http.request(method, url + path, json=body, headers=headers) as answer:
            problems.append(await answer.text())
            return answer.status

    problems: list[str] = []
    for each in of_kind(rendered(PLUGIN_CHART, "claims.enabled=true"), *PATHS):
        if each["metadata"]["name"] in (DEVICE_PLUGIN, f"{DEVICE_PLUGIN}-own-slices"):
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
        (a_slice("node-1", name="node-2-enflame.gcushare.io-1f"), "not node-2-enflame.gcushare.io-1f"),
    ):
        assert await send("POST", SLICES, forged, driver_on("node-1")) == 422, problems[-1]
        assert said in problems[-1]
    assert await send("DELETE", own, None, driver_on("node-1")) == 200, problems[-1]


@pytest.mark.parametrize("path", ["/api/v1/nodes", SLICES, "/apis/resource.k8s.io/v1/resourceclaims"])
async def test_the_driver_may_list_what_it_follows(control_plane: ControlPlane, path: str) -> None:
    async with control_plane.http.get(control_plane.url + path, headers=driver_on("node-1")) as answer:
        assert answer.status == 200, await answer.text()
