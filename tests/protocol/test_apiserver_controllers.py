"""The controllers over the running server; a few lines here stand for scheduler and kubelet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from gcushare_playground.apiserver import ApiFailure, ApiServer, ApiServerConfig, Deletion
from gcushare_playground.apiserver.objects import JsonObject, Key, controller_of, key_of
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.subresources import bind
from tests.unit.apiserver_objects import config_map, deployment, node, pod

DEPLOYMENTS, PODS = "deployments.apps", "pods"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(ApiServerConfig()) as running:
        yield running


def _pods(server: ApiServer) -> list[JsonObject]:
    return server.store.list(PODS, "default")


def _run_all(server: ApiServer, ready: str = "True") -> None:
    """Do what scheduler and kubelet do: bind every new pod, let it run, let deleted ones go."""
    for found in _pods(server):
        key = key_of(found)
        if not found["spec"].get("nodeName"):
            bind(server.registry, key, {"target": {"name": "n1"}}, dry_run=False)
        if found["metadata"].get("deletionTimestamp"):
            server.registry.delete(BY_NAME[PODS], key, Deletion(grace_s=0))
        elif found["status"]["phase"] == "Pending":
            _report_running(server, key, ready)


def _report_running(server: ApiServer, key: Key, ready: str) -> None:
    condition = {"type": "Ready", "status": ready}
    status = {"phase": "Running", "podIP": f"10.0.0.{len(key.name)}", "conditions": [condition]}
    server.registry.update(BY_NAME[PODS], key, lambda obj: {**obj, "status": status}, status_only=True)


async def _until_run(server: ApiServer, condition: Callable[[], bool]) -> None:
    def step() -> bool:
        _run_all(server)
        return condition()

    await server.store.until(step)


def _change(server: ApiServer, resource: str, name: str, mutate: Callable[[JsonObject], JsonObject]) -> None:
    kind = BY_NAME[resource]
    server.registry.update(kind, Key("default" if kind.namespaced else "", name), mutate)


def _status(server: ApiServer, resource: str, name: str) -> JsonObject:
    found = server.store.get(resource, name)
    assert found is not None
    status: JsonObject = found.get("status", {})
    return status


def _is_available(server: ApiServer, name: str, count: int) -> bool:
    found = server.store.get(DEPLOYMENTS, name) or {}
    status = found.get("status", {})
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return False
    counts = {status.get(f"{kind}eplicas") for kind in ("availableR", "updatedR", "r")}
    return counts == {count}


def _with_image(image: str) -> Callable[[JsonObject], JsonObject]:
    def mutate(obj: JsonObject) -> JsonObject:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = image
        return obj

    return mutate


def _with_replicas(count: int) -> Callable[[JsonObject], JsonObject]:
    return lambda obj: {**obj, "spec": {**obj["spec"], "replicas": count}}


async def test_a_deployment_creates_its_pods_and_reports_them(server: ApiServer) -> None:
    server.registry.put(deployment("web", 3))
    await _until_run(server, lambda: _is_available(server, "web", 3))
    assert all((controller_of(found) or {})["kind"] == "ReplicaSet" for found in _pods(server))
    conditions = {c["type"]: (c["status"], c["reason"]) for c in _status(server, DEPLOYMENTS, "web")["conditions"]}
    assert conditions == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    reasons = {event["reason"] for event in server.store.list("events", "default")}
    assert reasons == {"ScalingReplicaSet", "SuccessfulCreate"}


async def test_scaling_adds_and_removes_pods(server: ApiServer) -> None:
    server.registry.put(deployment("web", 1))
    await _until_run(server, lambda: _is_available(server, "web", 1))
    (kept,) = [found["metadata"]["name"] for found in _pods(server)]
    _change(server, DEPLOYMENTS, "web", _with_replicas(3))
    await server.store.until(lambda: len(_pods(server)) == 3)
    _change(server, DEPLOYMENTS, "web", _with_replicas(1))
    await server.store.until(lambda: len(_pods(server)) == 1)
    assert [found["metadata"]["name"] for found in _pods(server)] == [kept], "unbound pods go first"


async def test_a_new_template_replaces_the_pods_and_an_old_one_brings_its_set_back(server: ApiServer) -> None:
    server.registry.put(deployment("web", 2))
    await _until_run(server, lambda: _is_available(server, "web", 2))
    before = {found["metadata"]["uid"] for found in _pods(server)}
    _change(server, DEPLOYMENTS, "web", _with_image("busybox:2"))
    await _until_run(server, lambda: _is_available(server, "web", 2) and len(_pods(server)) == 2)
    after = _pods(server)
    assert {found["spec"]["containers"][0]["image"] for found in after} == {"busybox:2"}
    assert before.isdisjoint(found["metadata"]["uid"] for found in after)
    _change(server, DEPLOYMENTS, "web", _with_image("busybox:1"))
    await _until_run(server, lambda: _is_available(server, "web", 2) and len(_pods(server)) == 2)
    assert len(server.store.list("replicasets.apps", "default")) == 2
    found = server.store.get(DEPLOYMENTS, "web")
    assert found is not None
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


async def test_a_rollout_of_pods_that_never_work_keeps_the_old_ones(server: ApiServer) -> None:
    server.registry.put(deployment("web", 2))
    await _until_run(server, lambda: _is_available(server, "web", 2))
    _change(server, DEPLOYMENTS, "web", _with_image("broken"))
    await server.store.until(lambda: _status(server, DEPLOYMENTS, "web").get("updatedReplicas") == 2)
    working = [found for found in _pods(server) if found["spec"]["containers"][0]["image"] == "busybox:1"]
    assert len([found for found in working if "deletionTimestamp" not in found["metadata"]]) == 2


async def test_a_deleted_deployment_takes_its_sets_and_pods_along(server: ApiServer) -> None:
    server.registry.put(deployment("web", 2))
    await server.store.until(lambda: len(_pods(server)) == 2)
    server.registry.delete(BY_NAME[DEPLOYMENTS], Key("default", "web"), Deletion())
    await server.store.until(lambda: not _pods(server) and not server.store.list("replicasets.apps"))


async def test_an_orphaning_deletion_leaves_the_set_behind_without_an_owner(server: ApiServer) -> None:
    server.registry.put(deployment("web", 1))
    await server.store.until(lambda: len(_pods(server)) == 1)
    server.registry.delete(BY_NAME[DEPLOYMENTS], Key("default", "web"), Deletion(propagation="Orphan"))
    await server.store.until(lambda: server.store.get(DEPLOYMENTS, "web") is None)
    (kept,) = server.store.list("replicasets.apps")
    assert "ownerReferences" not in kept["metadata"] or kept["metadata"]["ownerReferences"] == []
    assert len(_pods(server)) == 1


async def test_a_foreground_deletion_keeps_the_owner_until_its_pods_are_gone(server: ApiServer) -> None:
    server.registry.put(deployment("web", 1))
    await _until_run(server, lambda: _is_available(server, "web", 1))
    server.registry.delete(BY_NAME[DEPLOYMENTS], Key("default", "web"), Deletion(propagation="Foreground"))
    await server.store.until(lambda: "deletionTimestamp" in _pods(server)[0]["metadata"])
    assert server.store.get(DEPLOYMENTS, "web") is not None
    await _until_run(server, lambda: server.store.get(DEPLOYMENTS, "web") is None)
    assert not _pods(server)


async def test_a_failed_pod_is_replaced(server: ApiServer) -> None:
    server.registry.put(deployment("web", 1))
    (first,) = await server.store.until(lambda: _pods(server))
    failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    server.registry.update(BY_NAME[PODS], key_of(first), lambda obj: {**obj, "status": failed}, status_only=True)
    await server.store.until(lambda: len(_pods(server)) == 2)


async def test_a_daemon_set_has_one_pod_aimed_at_every_node_that_fits(server: ApiServer) -> None:
    for name in ("n1", "n2", "n3"):
        server.registry.put(node(name, labels={"gpushare": "true"} if name != "n3" else {}))
    manifest = deployment("plugin", 0)
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"gpushare": "true"}
    spec = {"selector": manifest["spec"]["selector"], "template": manifest["spec"]["template"]}
    server.registry.put({**manifest, "kind": "DaemonSet", "spec": spec})
    await server.store.until(lambda: len(_pods(server)) == 2)
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")

    def aims() -> set[str]:
        found = set()
        for each in _pods(server):
            terms: object = each["spec"]
            for step in path:
                assert isinstance(terms, dict)
                terms = terms[step]
            assert isinstance(terms, list)
            found.add(terms[0]["matchFields"][0]["values"][0])
        return found

    assert aims() == {"n1", "n2"}
    _change(server, "nodes", "n3", lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": {"gpushare": "true"}}})
    await server.store.until(lambda: aims() == {"n1", "n2", "n3"})
    _change(server, "nodes", "n1", lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": {}}})
    await server.store.until(lambda: aims() == {"n2", "n3"})
    await server.store.until(lambda: _status(server, "daemonsets.apps", "plugin").get("desiredNumberScheduled") == 2)


async def test_a_service_has_the_addresses_of_ready_pods(server: ApiServer) -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
    server.registry.put({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
    server.registry.put(pod("p", labels={"app": "web"}))
    server.registry.put(pod("other", labels={"app": "db"}))
    _run_all(server)

    def subsets() -> list[JsonObject]:
        found = server.store.get("endpoints", "web")
        return (found or {}).get("subsets") or []

    (subset,) = await server.store.until(subsets)
    assert [address["targetRef"]["name"] for address in subset["addresses"]] == ["p"]
    assert subset["ports"] == [{"port": 8080, "protocol": "TCP"}]
    server.registry.delete(BY_NAME[PODS], Key("default", "p"), Deletion(grace_s=0))
    await server.store.until(lambda: not subsets())
    server.registry.delete(BY_NAME["services"], Key("default", "web"), Deletion())
    await server.store.until(lambda: server.store.get("endpoints", "web") is None)
    await server.store.until(lambda: not server.store.list("endpointslices.discovery.k8s.io"))


async def test_a_namespace_is_emptied_before_it_goes_and_takes_nothing_new(server: ApiServer) -> None:
    server.registry.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    await server.store.until(lambda: server.store.get("serviceaccounts", "default", "team"))
    held = pod("held", namespace="team", nodeName="n1")
    server.registry.put(held)
    server.registry.delete(BY_NAME["namespaces"], Key("", "team"), Deletion())
    found = server.store.get("namespaces", "team")
    assert found is not None
    assert found["status"]["phase"] == "Terminating"
    with pytest.raises(ApiFailure, match="because it is being terminated"):
        server.registry.put({**config_map("late"), "metadata": {"name": "late", "namespace": "team"}})
    await server.store.until(lambda: not server.store.list("serviceaccounts", "team"))
    assert server.store.get("namespaces", "team") is not None, "a pod still leaves gracefully"
    server.registry.delete(BY_NAME[PODS], Key("team", "held"), Deletion(grace_s=0))
    await server.store.until(lambda: server.store.get("namespaces", "team") is None)


async def test_a_cordoned_node_is_tainted_until_it_is_uncordoned(server: ApiServer) -> None:
    server.registry.put(node("n1"))

    def taints() -> list[JsonObject]:
        found = server.store.get("nodes", "n1")
        return (found or {})["spec"].get("taints") or []

    _change(server, "nodes", "n1", lambda obj: {**obj, "spec": {"unschedulable": True}})
    await server.store.until(lambda: [taint["key"] for taint in taints()] == ["node.kubernetes.io/unschedulable"])
    _change(server, "nodes", "n1", lambda obj: {**obj, "spec": {"taints": obj["spec"]["taints"]}})
    await server.store.until(lambda: not taints())


async def test_controllers_rest_while_the_server_is_down_and_catch_up_after(server: ApiServer) -> None:
    await server.stop()
    server.registry.put(deployment("web", 2))
    assert not _pods(server)
    await server.start()
    await server.store.until(lambda: len(_pods(server)) == 2)
