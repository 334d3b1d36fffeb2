"""What every cluster has from its first moment on."""

from __future__ import annotations

from gcushare_playground.apiserver.objects import JsonObject, key_of
from gcushare_playground.apiserver.registry import Registry
from gcushare_playground.apiserver.resources import BY_KIND

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def ensure_cluster(registry: Registry) -> None:
    """Create the built-in objects that are missing."""
    for obj in _built_in():
        resource = BY_KIND[obj["apiVersion"], obj["kind"]]
        if registry.collection(resource).get(key_of(obj)) is None:
            registry.put(obj)


def _built_in() -> list[JsonObject]:
    namespaces: list[JsonObject] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in _NAMESPACES
    ]
    priorities: list[JsonObject] = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in _PRIORITIES.items()
    ]
    service: JsonObject = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"component": "apiserver"}},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
    }
    return [*namespaces, *priorities, service]
