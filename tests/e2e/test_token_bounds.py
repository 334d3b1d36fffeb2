"""What RBAC cannot say and the policies must: each of our accounts' tokens, tried on what belongs to other programs."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import (
    CLAIMS_ORDER_LABEL,
    CONFIG_MANAGER,
    DEVICE_PLUGIN,
    EXTENDER,
    KEPT_MARK,
    SCALE_DOWN_DISABLED,
    STARTUP_TAINT,
)
from tests.charts import NAMESPACE, UMBRELLA_CHART, needs_helm, of_kind, rendered
from tests.e2e.control_plane import ControlPlane
from tests.e2e.waiting import until

pytestmark = [needs_helm, pytest.mark.asyncio(loop_scope="module")]

RBAC, ADMISSION = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
IN_NAMESPACE = f"namespaces/{NAMESPACE}"
PATHS = {
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/{IN_NAMESPACE}/roles",
    "RoleBinding": f"{RBAC}/{IN_NAMESPACE}/rolebindings",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}
VALUES = ("global.claims.enabled=true", "gcushare-scheduler-extender-chart.autoscaling.startupTaint=true")
DRIVER = ENFLAME.claims.driver
LEASES = f"/apis/coordination.k8s.io/v1/{IN_NAMESPACE}/leases"
EVENTS = "/api/v1/namespaces/default/events"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bounded(control_plane: ControlPlane) -> ControlPlane:
    """Only the charts' roles and policies; nothing of them runs."""
    for each in of_kind(rendered(UMBRELLA_CHART, *VALUES), *PATHS):
        async with control_plane.http.post(control_plane.url + PATHS[each["kind"]], json=each) as made:
            assert made.status == 201, await made.text()

    async def is_refused() -> str:
        status, problem = await send(control_plane, EXTENDER, "POST", f"{LEASES}?dryRun=All", lease("other"))
        return "" if status == 422 else f"{status} {problem}"

    await until(is_refused, "the policies are in force")
    return control_plane


async def send(
    control_plane: ControlPlane, account: str, method: str, path: str, body: object = None, *, on_node: bool = True
) -> tuple[int, str]:
    """Act as an account's pod, on node-1 or with a token that names no node, or as the administrator if it is empty."""
    user = {"Impersonate-User": f"system:serviceaccount:{NAMESPACE}:{account}"}
    if on_node:
        user["Impersonate-Extra-authentication.kubernetes.io%2fnode-name"] = "node-1"
    headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
    async with control_plane.http.request(
        method, control_plane.url + path, json=body, headers=headers | (user if account else {})
    ) as answer:
        return answer.status, await answer.text()


def lease(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "x"}}


def event(component: str, kind: str = "Pod") -> dict[str, Any]:
    return {
        "metadata": {"generateName": "said-", "namespace": "default"},
        "involvedObject": {"kind": kind, "name": "one", "namespace": "default" if kind == "Pod" else ""},
        "source": {"component": component, "host": "x"},
        "reportingComponent": component,
        "reportingInstance": "x",
    }


def template(name: str, device_class: str = "gcu-memory.gcushare.io") -> dict[str, Any]:
    request = {"name": "card", "exactly": {"deviceClassName": device_class, "count": 1}}
    return {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": [request]}}}}


def a_slice(name: str, driver: str = DRIVER, node: str = "node-1", pool: str = "") -> dict[str, Any]:
    found = {"name": pool or node, "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": driver, "nodeName": node, "pool": found}}


@pytest.mark.parametrize(
    ("account", "path", "own", "others"),
    [
        pytest.param(
            EXTENDER, LEASES, lease(EXTENDER), [lease("kube-scheduler"), lease(CONFIG_MANAGER)], id="extender"
        ),
        pytest.param(
            CONFIG_MANAGER, LEASES, lease(CONFIG_MANAGER), [lease("kube-scheduler"), lease("a")], id="manager"
        ),
        pytest.param(EXTENDER, EVENTS, event(EXTENDER), [event("kubelet"), event(EXTENDER, "Node")], id="events"),
        pytest.param(
            EXTENDER,
            TEMPLATES,
            template("gcu-memory-4-cards-2"),
            [
                template("theirs"),
                template("gcu-memory"),
                template("gcu-memory-0"),
                template("my-gcu-memory-4"),
                template("gcu-memory-5", "gpu.nvidia.com"),
            ],
            id="templates",
        ),
        pytest.param(
            DEVICE_PLUGIN,
            SLICES,
            a_slice(f"node-1-{DRIVER}-1f"),
            [
                a_slice(f"node-2-{DRIVER}-1f", node="node-2"),
                a_slice(f"node-1-{DRIVER}-2f", pool="node-2"),  # a newer generation would hide that node's cards
                a_slice("node-1-gpu.nvidia.com-1f", "gpu.nvidia.com"),
                a_slice(f"node-2-{DRIVER}-1f"),
            ],
            id="slices",
        ),
    ],
)
async def test_a_token_makes_what_is_its_own_and_nothing_else(
    bounded: ControlPlane, account: str, path: str, own: Any, others: list[Any]
) -> None:
    for other in others:
        status, problem = await send(bounded, account, "POST", path, other)
        assert status == 422, (other, problem)
    status, problem = await send(bounded, account, "POST", path, own)
    assert status == 201, problem


@pytest.mark.parametrize(
    ("account", "path", "own", "other"),
    [
        pytest.param(EXTENDER, TEMPLATES, template("gcu-memory-7"), template("theirs"), id="templates"),
        pytest.param(
            DEVICE_PLUGIN,
            SLICES,
            a_slice(f"node-1-{DRIVER}-3f"),
            a_slice("node-1-gpu.nvidia.com-x", "gpu.nvidia.com"),
            id="slices of its node by another driver",
        ),
        pytest.param(
            DEVICE_PLUGIN,
            SLICES,
            a_slice(f"node-1-{DRIVER}-4f"),
            a_slice(f"node-2-{DRIVER}-4f", node="node-2"),
            id="slices of another node",
        ),
    ],
)
async def test_a_token_deletes_what_is_its_own_and_nothing_else(
    bounded: ControlPlane, account: str, path: str, own: Any, other: Any
) -> None:
    for each, wanted in ((other, 422), (own, 200)):
        status, problem = await send(bounded, "", "POST", path, each)
        assert status == 201, problem
        status, problem = await send(bounded, account, "DELETE", f"{path}/{each['metadata']['name']}")
        assert status == wanted, problem


async def test_a_token_that_names_no_node_writes_no_slice(bounded: ControlPlane) -> None:
    body = a_slice(f"node-1-{DRIVER}-5f")
    assert (await send(bounded, DEVICE_PLUGIN, "POST", SLICES, body, on_node=False))[0] == 422


OTHER_TAINT = {"key": "example.com/other", "effect": "NoSchedule"}
STARTS = {"key": STARTUP_TAINT, "effect": "NoSchedule"}


def noted(annotations: dict[str, str | None]) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


@pytest.mark.parametrize(
    ("before", "subresource", "body", "wanted"),
    [
        ({}, "/status", noted({SCALE_DOWN_DISABLED: "true", KEPT_MARK: "enflame"}), 200),
        ({}, "/status", {"metadata": {"labels": {CLAIMS_ORDER_LABEL: "3"}}}, 200),
        (
            {SCALE_DOWN_DISABLED: "true", KEPT_MARK: "enflame"},
            "/status",
            noted({SCALE_DOWN_DISABLED: None, KEPT_MARK: None}),
            200,
        ),
        ({SCALE_DOWN_DISABLED: "true", KEPT_MARK: "enflame"}, "/status", noted({KEPT_MARK: "aliyun,enflame"}), 200),
        ({SCALE_DOWN_DISABLED: "false", KEPT_MARK: "enflame"}, "/status", noted({KEPT_MARK: None}), 200),
        ({SCALE_DOWN_DISABLED: "true"}, "/status", noted({KEPT_MARK: "enflame"}), 422),
        ({}, "", {"spec": {"taints": [OTHER_TAINT]}}, 200),
        ({}, "/status", noted({SCALE_DOWN_DISABLED: "true"}), 422),
        ({}, "/status", noted({SCALE_DOWN_DISABLED: "false", KEPT_MARK: "enflame"}), 422),
        ({SCALE_DOWN_DISABLED: "true"}, "/status", noted({SCALE_DOWN_DISABLED: None}), 422),
        ({SCALE_DOWN_DISABLED: "false"}, "/status", noted({SCALE_DOWN_DISABLED: "true", KEPT_MARK: "enflame"}), 422),
        ({}, "/status", noted({"other": "x"}), 422),
        ({}, "/status", {"metadata": {"labels": {"other": "x"}}}, 422),
        ({}, "/status", {"status": {"capacity": {"cpu": "1"}}}, 422),
        ({}, "", {"spec": {"taints": [STARTS]}}, 422),
        ({}, "", {"spec": {"taints": []}}, 422),
        ({}, "", {"spec": {"taints": [OTHER_TAINT, STARTS, {"key": "x", "effect": "NoExecute"}]}}, 422),
        ({}, "", {"spec": {"unschedulable": True}}, 422),
    ],
)
async def test_of_a_node_the_extender_writes_what_the_autoscaler_reads_and_leaves_an_admins_alone(
    bounded: ControlPlane, before: dict[str, str], subresource: str, body: dict[str, Any], wanted: int
) -> None:
    node = {"metadata": {"name": "written", "annotations": before}, "spec": {"taints": [OTHER_TAINT, STARTS]}}
    status, problem = await send(bounded, "", "POST", "/api/v1/nodes", node)
    assert status == 201, problem
    try:
        status, problem = await send(bounded, EXTENDER, "PATCH", f"/api/v1/nodes/written{subresource}", body)
        assert status == wanted, problem
    finally:
        await send(bounded, "", "DELETE", "/api/v1/nodes/written")
