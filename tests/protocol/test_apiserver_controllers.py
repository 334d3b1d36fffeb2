"""The controllers over the running server; a few lines here stand for scheduler and kubelet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from gcushare_playground.apiserver import ApiServer, ApiServerConfig, Deletion
from gcushare_playground.apiserver.objects import JsonObject, Key, controller_of, key_of
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.subresources import bind
from tests.unit.apiserver_objects import deployment

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
