"""Builders of the objects that the API server double's tests store."""

from __future__ import annotations

from typing import Any

from gcushare_playground.apiserver.objects import JsonObject

MEMORY = "enflame.com/gcu-memory"


def pod(
    name: str = "p", *, namespace: str = "default", labels: dict[str, str] | None = None, **spec: Any
) -> JsonObject:
    """A pod with one container that asks for nothing."""
    containers = [{"name": "main", "image": "busybox:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": containers, **spec},
    }


def memory_pod(name: str, units: object) -> JsonObject:
    """A pod whose container asks for card memory."""
    resources = {"limits": {MEMORY: units}}
    return pod(name, containers=[{"name": "main", "image": "busybox:1", "resources": resources}])


def config_map(name: str, **data: str) -> JsonObject:
    """A config map: the simplest object there is."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def node(name: str, *, labels: dict[str, str] | None = None, **status: Any) -> JsonObject:
    """A node with one resource of cards."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"capacity": {MEMORY: "16"}, **status},
    }
