"""Pods that choose themselves what they see, or how much: the policy of the plugin's chart on kube-apiserver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gcushare.kube.resources import NAMESPACES, Resource
from tests.charts import NEWEST, PLUGIN_CHART, helm, load_objects, of_kind, one, render
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import JsonObject
from tests.e2e.waiting import until

GROUP = "apis/admissionregistration.k8s.io/v1"
POLICIES: Resource[JsonObject] = Resource(GROUP, "validatingadmissionpolicies", dict, namespaced=False)
BINDINGS: Resource[JsonObject] = Resource(GROUP, "validatingadmissionpolicybindings", dict, namespaced=False)
ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
LIMIT = {"name": "NVIDIA_GPU_MEMORY_LIMIT", "value": "90000"}
FIELD = {"name": "ENFLAME_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The policy alone, as the chart has it for both vendors and limits by the driver, of a release in kube-system and
    of one in the namespace ``shared``, which the first one leaves alone."""
    sets = {"vendor": "both", "memoryLimit": "driver", "ownVisibleCards.exemptNamespaces": "{tools,shared}"}
    objects = render(PLUGIN_CHART, sets=sets)
    objects += in_shared("deployName=second", "vendor=both", "ownVisibleCards.exemptNamespaces={tools}")
    for kind, resource in (("ValidatingAdmissionPolicy", POLICIES), ("ValidatingAdmissionPolicyBinding", BINDINGS)):
        for each in of_kind(objects, kind):
            if each["metadata"]["name"].endswith("-pod-variables"):
                await control_plane.client.create(resource, each)
    for name in ("tools", "gpu-operator", "shared"):
        await control_plane.client.create(NAMESPACES, {"metadata": {"name": name}})

    async def open_still() -> str:
        status, _ = await send(control_plane, body(ALL))
        return "" if status == 422 else f"a pod is answered {status}"

    await until(open_still, "the policy holds", deadline_s=60)
    yield control_plane


def in_shared(*values: str) -> list[JsonObject]:
    """The objects of a release of the plugin in the namespace ``shared``."""
    words = ("template", "second", str(PLUGIN_CHART), "--namespace", "shared", "--kube-version", NEWEST)
    done = helm(*words, *(word for value in values for word in ("--set", value)))
    assert done.returncode == 0, done.stderr
    return load_objects(done.stdout)


def body(*env: JsonObject, **more: Any) -> JsonObject:
    container = {"name": "main", "image": "x", "env": [{"name": "PATH", "value": "/bin"}, *env], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"}, "spec": {"containers": [container]}}


async def send(cluster: ControlPlane, pod: JsonObject, namespace: str = "default") -> tuple[int, JsonObject]:
    url = f"{cluster.url}/api/v1/namespaces/{namespace}/pods?dryRun=All"
    async with cluster.http.post(url, json=pod) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        pytest.param(body(ALL), 'container "main" sets ENFLAME_VISIBLE_DEVICES or NVIDIA', id="for nothing"),
        pytest.param(body(FIELD), "ownVisibleCards.exemptNamespaces", id="from a field"),
        pytest.param(
            body({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, ALL), "its pod was not given", id="twice"
        ),
        pytest.param(body(ALL, resources={"limits": {"aliyun.com/gpu-mem": "2"}}), "not given", id="with a card"),
        pytest.param(body(LIMIT, resources={"limits": {"aliyun.com/gpu-mem": "2"}}), "leave them out", id="a limit"),
    ],
)
async def test_a_pod_that_sets_what_the_plugin_sets_is_refused(
    cluster: ControlPlane, pod: JsonObject, words: str
) -> None:
    for part in ("containers", "initContainers"):
        changed = {**pod, "spec": {"containers": [{"name": "other", "image": "x"}], part: pod["spec"]["containers"]}}
        status, answer = await send(cluster, changed)
        assert (status, words in answer["message"]) == (422, True), answer


@pytest.mark.parametrize(
    ("pod", "namespace"),
    [
        pytest.param(body(), "default", id="sets nothing"),
        pytest.param(body({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}), "default", id="sees none"),
        pytest.param(body({"name": "NVIDIA_VISIBLE_DEVICES"}), "default", id="an empty value"),
        pytest.param(body(LIMIT), "default", id="a limit of another system's card"),
        *(pytest.param(body(ALL), each, id=each) for each in ("kube-system", "gpu-operator", "tools")),
    ],
)
async def test_other_pods_are_admitted(cluster: ControlPlane, pod: JsonObject, namespace: str) -> None:
    status, answer = await send(cluster, pod, namespace)
    assert status == 201, answer


async def test_a_release_leaves_the_plugins_of_another_in_its_namespace_alone_and_nothing_else(
    cluster: ControlPlane,
) -> None:
    template = one(in_shared("deployName=first", "vendor=aliyun"), "DaemonSet", "first-aliyun")["spec"]["template"]
    plugin = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "first"}}
    url = f"{cluster.url}/api/v1/namespaces/shared/serviceaccounts"
    async with cluster.http.post(url, json={"metadata": {"name": "first"}}) as answer:
        assert answer.status == 201, await answer.text()
    status, said = await send(cluster, plugin, "shared")
    assert status == 201, said
    plugin["metadata"] = {"name": "other"}
    status, said = await send(cluster, plugin, "shared")
    assert (status, "sees cards that its pod was not given" in said["message"]) == (422, True), said


async def test_a_container_that_is_added_for_debugging_sees_no_more(cluster: ControlPlane) -> None:
    url = f"{cluster.url}/api/v1/namespaces/default/pods"
    async with cluster.http.post(url, json=body()) as answer:
        assert answer.status == 201, await answer.text()
    for env, expected in (([ALL], 422), ([], 200)):
        added = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "x", "env": env}]}}
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        async with cluster.http.patch(f"{url}/tried/ephemeralcontainers", json=added, headers=headers) as answer:
            assert answer.status == expected, await answer.text()
