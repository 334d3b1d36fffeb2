from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from tests.protocol.apiserver_client import CONFIG_MAPS, PODS, Api
from tests.unit.apiserver_objects import config_map, memory_pod, pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as running:
        yield running


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with Api(server) as session:
        yield session


async def test_an_object_is_created_read_replaced_and_deleted(api: Api) -> None:
    created = await api.create(CONFIG_MAPS, config_map("c", a="1"))
    assert (created.body["kind"], created.body["apiVersion"]) == ("ConfigMap", "v1")
    read = await api.get(f"{CONFIG_MAPS}/c")
    assert read.body == created.body
    replaced = await api.call("PUT", f"{CONFIG_MAPS}/c", {**read.body, "data": {"a": "2"}})
    assert (replaced.code, replaced.body["data"]) == (200, {"a": "2"})
    deleted = await api.call("DELETE", f"{CONFIG_MAPS}/c")
    assert (deleted.body["status"], deleted.body["details"]["uid"]) == ("Success", created.body["metadata"]["uid"])
    missing = await api.get(f"{CONFIG_MAPS}/c")
    assert (missing.code, missing.body["reason"], missing.body["message"]) == (
        404,
        "NotFound",
        'configmaps "c" not found',
    )


async def test_the_second_of_two_writers_from_one_version_gets_a_conflict(api: Api, server: ApiServer) -> None:
    read = (await api.create(LEASES, LEASE)).body
    taken = {**read, "spec": {"holderIdentity": "b"}}
    assert (await api.call("PUT", f"{LEASES}/leader", taken)).code == 200
    late = await api.call("PUT", f"{LEASES}/leader", {**read, "spec": {"holderIdentity": "c"}})
    assert (late.code, late.body["reason"]) == (409, "Conflict")
    found = server.store.get("leases.coordination.k8s.io", "leader")
    assert found is not None
    assert found["spec"]["holderIdentity"] == "b"


async def test_a_lease_cannot_be_taken_without_saying_from_which_version(api: Api) -> None:
    await api.create(LEASES, LEASE)
    answer = await api.call(
        "PUT", f"{LEASES}/leader", {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "x"}}
    )
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")


async def test_a_patch_carrying_an_old_version_conflicts(api: Api) -> None:
    created = (await api.create(PODS, pod())).body
    version = created["metadata"]["resourceVersion"]
    for code in (200, 409):
        patch = {"metadata": {"resourceVersion": version, "labels": {"code": str(code)}}}
        assert (await api.call("PATCH", f"{PODS}/p", patch, media="application/merge-patch+json")).code == code


async def test_a_binding_for_an_earlier_version_is_a_conflict(api: Api) -> None:
    made = (await api.create(PODS, pod("p"))).body
    before = made["metadata"]["resourceVersion"]
    written = {**made, "metadata": {**made["metadata"], "annotations": {"written": "since"}}}
    assert (await api.call("PUT", f"{PODS}/p", written)).code == 200
    late = {"metadata": {"name": "p", "resourceVersion": before}, "target": {"kind": "Node", "name": "n1"}}
    answer = await api.call("POST", f"{PODS}/p/binding", late)

    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert "nodeName" not in (await api.get(f"{PODS}/p")).body["spec"]


async def test_a_binding_is_one_request_and_one_event(api: Api, server: ApiServer) -> None:
    created = (await api.create(PODS, memory_pod("p", 4))).body
    binding = {
        "metadata": {"name": "p", "uid": created["metadata"]["uid"], "annotations": {"enflame.com/gcu-device-id": "0"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    version = server.store.version
    answer = await api.call("POST", f"{PODS}/p/binding", binding)
    assert (answer.code, answer.body["status"]) == (201, "Success")
    (change,) = server.store.collection("pods").changes_since(version)
    assert change.revision.obj["spec"]["nodeName"] == "n1"
    assert change.revision.obj["metadata"]["annotations"] == {"enflame.com/gcu-device-id": "0"}
    again = await api.call("POST", f"{PODS}/p/binding", binding)
    assert (again.code, again.body["reason"]) == (409, "Conflict")


async def test_a_dry_run_answers_and_stores_nothing(api: Api, server: ApiServer) -> None:
    answer = await api.call("POST", f"{PODS}?dryRun=All", pod())
    assert (answer.code, answer.body["status"]["phase"]) == (201, "Pending")
    assert server.store.list("pods") == []
    assert (await api.call("POST", f"{PODS}?dryRun=Maybe", pod())).code == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        pytest.param("POST", PODS, b"{not json", 400, id="not JSON"),
        pytest.param("POST", PODS, b"[]", 400, id="not an object"),
        pytest.param("POST", PODS, b"", 400, id="empty"),
        pytest.param("POST", PODS, b"[" * 5000, 400, id="nested without end"),
        pytest.param("POST", PODS, {"kind": "Node", "metadata": {"name": "p"}}, 400, id="another kind"),
        pytest.param("POST", PODS, {"apiVersion": "v2", "metadata": {"name": "p"}}, 400, id="another version"),
        pytest.param(
            "POST", PODS, {"metadata": {"name": "p", "annotations": {"a": 1}}}, 400, id="annotation no string"
        ),
        pytest.param("POST", PODS, {"metadata": []}, 400, id="metadata no object"),
        pytest.param(
            "POST", PODS, {"metadata": {"name": "p", "namespace": "kube-system"}}, 400, id="another namespace"
        ),
        pytest.param("PATCH", PODS, {}, 405, id="patch without a name"),
        pytest.param("POST", f"{PODS}/p", {}, 405, id="create on a name"),
        pytest.param("DELETE", f"{PODS}/p/status", None, 405, id="delete of a subresource"),
        pytest.param("GET", "/api/v1/namespaces/default/unheard", None, 404, id="unknown resource"),
        pytest.param("GET", f"{PODS}/p/exec", None, 404, id="unknown subresource"),
        pytest.param("GET", "/api/v1/pods/p", None, 404, id="a pod without its namespace"),
        pytest.param("GET", "/api/v1/namespaces/default/nodes", None, 404, id="a node in a namespace"),
        pytest.param("GET", "/nowhere", None, 404, id="unknown path"),
        pytest.param("GET", f"{PODS}?limit=many", None, 400, id="limit no number"),
        pytest.param("GET", f"{PODS}?continue=xx", None, 400, id="broken continue"),
        pytest.param("GET", f"{PODS}?labelSelector=a%20b", None, 400, id="broken selector"),
    ],
)
async def test_bad_input_is_refused_with_a_status_and_the_server_goes_on(
    api: Api, method: str, path: str, body: Any, code: int
) -> None:
    answer = await api.call(method, path, body)
    assert (answer.code, answer.body["kind"], answer.body["code"]) == (code, "Status", code)
    assert (await api.get("/readyz")).body == b"ok"
