"""Services: the addresses of the ready pods behind each, as Endpoints and as one EndpointSlice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gcushare_playground.apiserver.controllers.cluster import Cluster, own_key
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import (
    JsonObject,
    Key,
    dig,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    uid_of,
)
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.storage import Change

_SERVICES = "services"
_SLICES = "endpointslices.discovery.k8s.io"


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

    def sync(self, ref: Ref) -> float | None:
        """Write the addresses that are ready now; those of a service that is gone go with it."""
        service = self._cluster.find(ref)
        if service is None:
            self._cluster.delete(Ref("endpoints", ref.key))
            return None
        if is_deleting(service.obj) or not dig(service.obj, "spec", "selector"):
            return None
        pods = list(self._pods(ref.key.namespace, service.obj))
        self._write("endpoints", ref, service.obj, _endpoints(service.obj, pods))
        self._write(_SLICES, ref, service.obj, _endpoint_slice(service.obj, pods))
        return None

    def _pods(self, namespace: str, service: JsonObject) -> Iterator[JsonObject]:
        for revision in self._cluster.registry.storage.collection("pods").view().walk(namespace):
            pod = revision.obj
            if _selects(service, pod) and dig(pod, "status", "podIP") and not is_finished(pod):
                yield pod

    def _write(self, collection: str, ref: Ref, service: JsonObject, content: JsonObject) -> None:
        name = ref.key.name if collection == "endpoints" else f"{ref.key.name}-ipv4"
        target = Ref(collection, Key(ref.key.namespace, name))
        if self._cluster.find(target) is None:
            meta: JsonObject = {"name": name, "labels": {"kubernetes.io/service-name": ref.key.name}}
            if collection == "endpoints":
                self._cluster.registry.create(BY_NAME[collection], ref.key.namespace, {"metadata": meta, **content})
            else:
                self._cluster.create_child(ref, service, BY_NAME[collection], {"metadata": meta, **content})
        else:
            self._cluster.change(target, lambda obj: {"metadata": obj["metadata"], **content})


def _selects(service: JsonObject, pod: JsonObject) -> bool:
    selector = dig(service, "spec", "selector") or {}
    found = labels_of(pod)
    return bool(selector) and all(found.get(name) == value for name, value in selector.items())


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
    for pod in pods:
        for container in dig(pod, "spec", "containers", default=[]):
            for declared in container.get("ports") or []:
                if declared.get("name") == target:
                    return int(declared["containerPort"])
    return None


def _target(pod: JsonObject) -> JsonObject:
    meta = pod["metadata"]
    return {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": uid_of(pod)}


def _endpoints(service: JsonObject, pods: list[JsonObject]) -> JsonObject:
    def addresses(*, ready: bool) -> list[JsonObject]:
        chosen = [pod for pod in pods if is_ready(pod) is ready]
        return [
            {"ip": pod["status"]["podIP"], "nodeName": dig(pod, "spec", "nodeName"), "targetRef": _target(pod)}
            for pod in chosen
        ]

    if not pods:
        return {}
    subset: JsonObject = {"ports": _ports(service, pods)}
    for name, found in (("addresses", addresses(ready=True)), ("notReadyAddresses", addresses(ready=False))):
        if found:
            subset[name] = found
    return {"subsets": [subset]}


def _endpoint_slice(service: JsonObject, pods: list[JsonObject]) -> JsonObject:
    endpoints = [
        {
            "addresses": [pod["status"]["podIP"]],
            "conditions": {"ready": is_ready(pod), "serving": is_ready(pod), "terminating": is_deleting(pod)},
            "nodeName": dig(pod, "spec", "nodeName"),
            "targetRef": _target(pod),
        }
        for pod in pods
    ]
    return {"addressType": "IPv4", "endpoints": endpoints, "ports": _ports(service, pods)}
