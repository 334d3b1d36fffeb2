"""Services: the addresses of the pods behind each, as Endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gcushare_playground.apiserver.controllers.cluster import Cluster, own_key
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import (
    JsonObject,
    dig,
    has_labels,
    is_deleting,
    is_finished,
    is_ready,
)
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.storage import Change

_SERVICES = "services"


class EndpointsController:
    """Keeps the endpoints of services that select pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at a changed service, and at those that select a changed pod as it is or was."""
        if change.collection != "pods":
            return own_key(change, _SERVICES)
        pods = [change.revision.obj, *([change.previous.obj] if change.previous else [])]
        stored = self._cluster.registry.storage.collection(_SERVICES).view()
        return [
            Ref(_SERVICES, revision.key)
            for revision in stored.walk(change.revision.key.namespace)
            if any(_selects(revision.obj, pod) for pod in pods)
        ]

    def sync(self, ref: Ref) -> None:
        """Write the addresses that are ready now; those of a service that is gone go with it."""
        service, target = self._cluster.find(ref), Ref("endpoints", ref.key)
        if service is None:
            self._cluster.delete(target)
        elif not is_deleting(service.obj) and dig(service.obj, "spec", "selector"):
            content = _endpoints(service.obj, list(self._pods(ref.key.namespace, service.obj)))
            if self._cluster.find(target) is None:
                endpoints = {"metadata": {"name": ref.key.name}, **content}
                self._cluster.registry.create(BY_NAME["endpoints"], ref.key.namespace, endpoints)
            else:
                self._cluster.change(target, lambda obj: {"metadata": obj["metadata"], **content})

    def _pods(self, namespace: str, service: JsonObject) -> Iterator[JsonObject]:
        for revision in self._cluster.registry.storage.collection("pods").view().walk(namespace):
            pod = revision.obj
            if _selects(service, pod) and dig(pod, "status", "podIP") and not is_finished(pod):
                yield pod


def _selects(service: JsonObject, pod: JsonObject) -> bool:
    selector = dig(service, "spec", "selector")
    return bool(selector) and has_labels(pod, selector)


def _ports(service: JsonObject, pods: list[JsonObject]) -> list[JsonObject]:
    found = []
    for port in dig(service, "spec", "ports", default=[]):
        number = _target_port(port, pods)
        if number is not None:
            named = {"name": port["name"]} if port.get("name") else {}
            found.append({**named, "port": number, "protocol": port.get("protocol", "TCP")})
    return found


def _target_port(port: JsonObject, pods: list[JsonObject]) -> int | None:
    target = port.get("targetPort", port.get("port"))
    if isinstance(target, int):
        return target
    containers = (each for pod in pods for each in dig(pod, "spec", "containers", default=[]))
    declared = (port for container in containers for port in container.get("ports") or [])
    return next((int(each["containerPort"]) for each in declared if each.get("name") == target), None)


def _endpoints(service: JsonObject, pods: list[JsonObject]) -> JsonObject:
    subset: JsonObject = {"ports": _ports(service, pods)}
    for pod in pods:
        state = "addresses" if is_ready(pod) else "notReadyAddresses"
        subset.setdefault(state, []).append({"ip": pod["status"]["podIP"], "nodeName": dig(pod, "spec", "nodeName")})
    return {"subsets": [subset]} if pods else {}
