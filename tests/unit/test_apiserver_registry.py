from __future__ import annotations

from typing import Any

import pytest

from gcushare_playground.apiserver import ApiFailure, Deletion, Registry
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.subresources import bind, evict
from tests.unit.apiserver_objects import MEMORY, config_map, memory_pod, new_registry, node, pod

PODS = BY_NAME["pods"]
KEY = Key("default", "p")


@pytest.fixture
def registry() -> Registry:
    return new_registry()


def _stored(registry: Registry, resource: str = "pods", name: str = "p") -> JsonObject:
    found = registry.storage.get(resource, name)
    assert found is not None
    return found


def _bind(registry: Registry, **metadata: Any) -> None:
    bind(registry, KEY, {"metadata": metadata, "target": {"kind": "Node", "name": "n1"}}, dry_run=False)


@pytest.mark.parametrize(
    ("manifest", "code", "message"),
    [
        pytest.param(memory_pod("p", "1.5"), 422, "must be an integer", id="fractional"),
        pytest.param(memory_pod("p", "-1"), 422, "must be greater than or equal to 0", id="negative"),
        pytest.param(memory_pod("p", "many"), 400, "quantities must match", id="not a number"),
        pytest.param(memory_pod("p", {"a": 1}), 400, r"resources.limits\[...\]`", id="not even a scalar"),
        pytest.param(memory_pod("p", 4, requests=2), 422, f"must be equal to {MEMORY} limit of 4", id="limit differs"),
        pytest.param(pod("p", containers=[]), 422, "spec.containers: Required value", id="no containers"),
        pytest.param(pod("p", containers="x"), 400, "cannot be handled as a Pod", id="containers of another type"),
        pytest.param(pod("UPPER"), 422, "lowercase RFC 1123 subdomain", id="bad name"),
        pytest.param(pod("p", labels={"a b": "c"}), 422, "metadata.labels", id="bad label"),
        pytest.param(pod("p", restartPolicy="Maybe"), 422, "Unsupported value", id="bad restart policy"),
        pytest.param(pod("p", namespace="nowhere"), 404, 'namespaces "nowhere" not found', id="no such namespace"),
        pytest.param(
            pod("p", containers=[{"name": "a", "image": "i", "resources": {"requests": {MEMORY: 1}}}]),
            422, "Limit must be set", id="request without limit",
        ),
        pytest.param(
            pod("p", containers=[{"name": "a", "image": "i", "resources": {"limits": {"gcu": 1}}}]),
            422, "must be a standard resource type or fully qualified", id="resource without a domain",
        ),
        pytest.param(
            pod("p", containers=[{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]), 422, "Duplicate value",
            id="two containers of one name",
        ),
    ],
)  # fmt: skip
def test_a_pod_that_breaks_the_rules_is_refused_and_not_stored(
    registry: Registry, manifest: JsonObject, code: int, message: str
) -> None:
    with pytest.raises(ApiFailure, match=message) as caught:
        registry.put(manifest)
    assert caught.value.code == code
    assert registry.storage.list("pods") == []


def test_an_update_meant_for_a_predecessor_of_the_same_name_conflicts(registry: Registry) -> None:
    registry.put(config_map("c"))
    stale = config_map("c", a="2")
    stale["metadata"]["uid"] = "another"
    with pytest.raises(ApiFailure, match="UID in precondition: another") as caught:
        registry.update(BY_NAME["configmaps"], Key("default", "c"), lambda _: stale)
    assert caught.value.code == 409


def test_the_main_resource_keeps_status_and_the_status_subresource_keeps_spec(registry: Registry) -> None:
    registry.put(pod())

    def mutate(obj: JsonObject) -> JsonObject:
        obj["status"] = {"phase": "Running"}
        obj["metadata"]["annotations"] = {"seen": "yes"}
        obj["spec"]["containers"][0]["image"] = "busybox:2"
        return obj

    registry.update(PODS, KEY, mutate)
    assert (_stored(registry)["status"]["phase"], _stored(registry)["spec"]["containers"][0]["image"]) == (
        "Pending",
        "busybox:2",
    )

    def mutate_status(obj: JsonObject) -> JsonObject:
        obj["status"]["phase"] = "Running"
        obj["metadata"]["annotations"] = {"seen": "again"}
        obj["spec"]["containers"][0]["image"] = "busybox:3"
        return obj

    registry.update(PODS, KEY, mutate_status, status_only=True)
    found = _stored(registry)
    assert (found["status"]["phase"], found["spec"]["containers"][0]["image"]) == ("Running", "busybox:2")
    assert found["metadata"]["annotations"] == {"seen": "again"}


@pytest.mark.parametrize(
    "field", [{"nodeName": "n1"}, {"containers": []}, {"schedulerName": "other"}, {"tolerations": []}], ids=str
)
def test_a_pods_spec_is_fixed(registry: Registry, field: JsonObject) -> None:
    registry.put(pod(tolerations=[{"key": "mine", "operator": "Exists"}]))
    with pytest.raises(ApiFailure) as caught:
        registry.update(PODS, KEY, lambda obj: {**obj, "spec": {**obj["spec"], **field}})
    assert caught.value.code == 422


def test_a_binding_sets_the_node_and_the_annotations_in_one_write(registry: Registry) -> None:
    created = registry.put(pod())
    before = registry.storage.version
    _bind(registry, uid=created["metadata"]["uid"], annotations={"enflame.com/gcu-device-id": "0"})
    found = _stored(registry)
    assert registry.storage.version == before + 1
    assert found["spec"]["nodeName"] == "n1"
    assert found["metadata"]["annotations"] == {"enflame.com/gcu-device-id": "0"}
    assert [(c["type"], c["status"]) for c in found["status"]["conditions"]] == [("PodScheduled", "True")]


def test_a_binding_is_refused_for_a_bound_pod_another_uid_and_a_missing_pod(registry: Registry) -> None:
    with pytest.raises(ApiFailure) as missing:
        _bind(registry)
    registry.put(pod())
    with pytest.raises(ApiFailure, match="UID in precondition: other") as uid:
        _bind(registry, uid="other", annotations={"a": "b"})
    assert _stored(registry)["metadata"].get("annotations") is None
    _bind(registry)
    with pytest.raises(ApiFailure, match=r'already assigned to node "n1"') as bound:
        _bind(registry, annotations={"a": "b"})
    assert (missing.value.code, uid.value.code, bound.value.code) == (404, 409, 409)
    assert _stored(registry)["metadata"].get("annotations") is None


def test_a_pod_that_is_being_deleted_cannot_be_bound(registry: Registry) -> None:
    manifest = pod()
    manifest["metadata"]["finalizers"] = ["example.com/wait"]
    registry.put(manifest)
    registry.delete(PODS, KEY, Deletion())
    with pytest.raises(ApiFailure, match="is being deleted") as caught:
        _bind(registry)
    assert caught.value.code == 409


def test_an_unbound_pod_goes_at_once_and_a_bound_one_waits_for_its_kubelet(registry: Registry) -> None:
    registry.put(pod())
    registry.delete(PODS, KEY, Deletion())
    assert registry.storage.get("pods", "p") is None
    registry.put(pod())
    _bind(registry)
    registry.delete(PODS, KEY, Deletion())
    found = _stored(registry)["metadata"]
    assert (found["deletionGracePeriodSeconds"], found["deletionTimestamp"]) == (30, "2027-01-15T08:00:30Z")
    registry.delete(PODS, KEY, Deletion(grace_s=0))
    assert registry.storage.get("pods", "p") is None


def test_a_finalizer_keeps_an_object_until_it_is_taken_away(registry: Registry) -> None:
    manifest = config_map("c")
    manifest["metadata"]["finalizers"] = ["example.com/wait"]
    registry.put(manifest)
    resource, key = BY_NAME["configmaps"], Key("default", "c")
    registry.delete(resource, key, Deletion())
    assert "deletionTimestamp" in _stored(registry, "configmaps", "c")["metadata"]
    registry.update(resource, key, lambda obj: {**obj, "metadata": {**obj["metadata"], "finalizers": []}})
    assert registry.storage.get("configmaps", "c") is None


@pytest.mark.parametrize("how", [Deletion(uid="other"), Deletion(resource_version="1")], ids=["uid", "version"])
def test_a_deletion_with_a_precondition_that_fails_deletes_nothing(registry: Registry, how: Deletion) -> None:
    registry.put(pod())
    with pytest.raises(ApiFailure, match="in the precondition") as caught:
        registry.delete(PODS, KEY, how)
    assert caught.value.code == 409
    assert registry.storage.get("pods", "p") is not None


def test_a_nodes_status_may_gain_whole_extended_resources_only(registry: Registry) -> None:
    registry.put(node("n1"))

    def with_count(value: str) -> Any:
        return lambda obj: {
            **obj,
            "status": {"capacity": {**obj["status"]["capacity"], "enflame.com/gcu-count": value}},
        }

    resource, key = BY_NAME["nodes"], Key("", "n1")
    registry.update(resource, key, with_count("8"), status_only=True)
    assert _stored(registry, "nodes", "n1")["status"]["capacity"] == {MEMORY: "16", "enflame.com/gcu-count": "8"}
    with pytest.raises(ApiFailure, match="must be an integer"):
        registry.update(resource, key, with_count("0.5"), status_only=True)


def test_a_budget_without_disruptions_left_forbids_an_eviction(registry: Registry) -> None:
    registry.put(pod(labels={"app": "a"}))
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    registry.put({**budget, "spec": {"selector": {"matchLabels": {"app": "a"}}}})
    resource, key = BY_NAME["poddisruptionbudgets.policy"], Key("default", "b")
    registry.update(resource, key, lambda obj: {**obj, "status": {"disruptionsAllowed": 0}}, status_only=True)
    with pytest.raises(ApiFailure) as caught:
        evict(registry, KEY, {}, dry_run=False)
    assert caught.value.code == 429
    registry.update(resource, key, lambda obj: {**obj, "status": {"disruptionsAllowed": 1}}, status_only=True)
    evict(registry, KEY, {}, dry_run=False)
    assert registry.storage.get("pods", "p") is None
