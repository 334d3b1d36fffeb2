from __future__ import annotations

from typing import Any

import pytest

from gcushare_playground.apiserver import ApiFailure, Deletion, Registry
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.subresources import bind
from tests.unit.apiserver_objects import MEMORY, config_map, new_registry, node, pod

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
