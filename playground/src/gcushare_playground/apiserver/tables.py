"""Tables as the server renders them for ``kubectl get``: column definitions and a cell per column.

The kinds that the demo and the documents show have columns of their own; every other one has its name and age.
Source: ``pkg/printers/internalversion/printers.go`` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gcushare_playground.apiserver.objects import JsonObject, condition, dig, is_deleting, seconds_of
from gcushare_playground.apiserver.resources import Resource

Cell = Callable[[JsonObject, float], Any]
"""From an object and the present time to what stands in the column."""
_NONE = "<none>"


def _since(timestamp: str | None, now_s: float) -> str:
    """Write how long ago an API time was, in the largest unit: ``5s``, ``3m``, ``4h``, ``12d``."""
    if (start := seconds_of(timestamp)) is None:
        return "<unknown>"
    total = max(int(now_s - start), 0)
    found = (f"{total // size}{unit}" for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")) if total >= 2 * size)
    return next(found, f"{total}s")


@dataclass(frozen=True, slots=True)
class Column:
    """One column; ``wide`` ones appear with ``-o wide`` only."""

    name: str
    cell: Cell
    wide: bool = False
    type: str = "string"

    def definition(self) -> JsonObject:
        """Return the column's definition document."""
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": self.name,
            "priority": 1 if self.wide else 0,
        }


def _path(*path: str, default: Any = _NONE) -> Cell:
    return lambda obj, now: dig(obj, *path, default=default)


def _plain(function: Callable[[JsonObject], Any]) -> Cell:
    return lambda obj, now: function(obj)


def _pod_ready(pod: JsonObject) -> str:
    """Write ready containers over all containers; restartable init containers count as such."""
    sidecars = [c for c in dig(pod, "spec", "initContainers", default=[]) if c.get("restartPolicy") == "Always"]
    names = {c.get("name") for c in (*sidecars, *dig(pod, "spec", "containers", default=[]))}
    ready = [s for s in _container_statuses(pod) if s.get("name") in names and dig(s, "state", "running")]
    return f"{sum(bool(s.get('ready')) for s in ready)}/{len(names)}"


def _pod_status(pod: JsonObject) -> str:
    """Write the one word that says best how the pod is: its end, else the end of a container, else its phase."""
    if is_deleting(pod):
        return "Terminating"
    ended = (dig(each, "state", "terminated", "reason") for each in dig(pod, "status", "containerStatuses", default=[]))
    return str(dig(pod, "status", "reason") or next(filter(None, ended), "") or dig(pod, "status", "phase"))


def _pod_restarts(pod: JsonObject) -> str:
    return str(sum(each.get("restartCount", 0) for each in dig(pod, "status", "containerStatuses", default=[])))


def _container_statuses(pod: JsonObject) -> list[JsonObject]:
    parts = ("initContainerStatuses", "containerStatuses")
    return [each for part in parts for each in dig(pod, "status", part, default=[])]


def _node_status(node: JsonObject) -> str:
    ready = condition(node, "Ready").get("status")
    words = [{"True": "Ready", None: "Unknown"}.get(ready, "NotReady")]
    if dig(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_address(node: JsonObject) -> str:
    found = (a["address"] for a in dig(node, "status", "addresses", default=[]) if a.get("type") == "InternalIP")
    return next(found, _NONE)


def _ready_of(ready: str) -> Cell:
    def cell(obj: JsonObject, now: float) -> str:
        return f"{dig(obj, 'status', ready, default=0)}/{dig(obj, 'spec', 'replicas', default=0)}"

    return cell


def _event_seen(event: JsonObject, now: float) -> str:
    last = dig(event, "series", "lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return _since(last or dig(event, "metadata", "creationTimestamp"), now)


def _event_object(event: JsonObject) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


_NAME = Column("Name", _path("metadata", "name"))
_AGE = Column("Age", lambda obj, now: _since(dig(obj, "metadata", "creationTimestamp"), now))
_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        _NAME,
        Column("Ready", _plain(_pod_ready)),
        Column("Status", _plain(_pod_status)),
        Column("Restarts", _plain(_pod_restarts)),
        _AGE,
        Column("IP", _path("status", "podIP"), wide=True),
        Column("Node", _path("spec", "nodeName"), wide=True),
    ),
    "nodes": (
        _NAME,
        Column("Status", _plain(_node_status)),
        Column("Roles", lambda node, now: _NONE),
        _AGE,
        Column("Version", _path("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", _plain(_node_address), wide=True),
    ),
    "deployments.apps": (
        _NAME,
        Column("Ready", _ready_of("readyReplicas")),
        Column("Up-to-date", _path("status", "updatedReplicas", default=0), type="integer"),
        Column("Available", _path("status", "availableReplicas", default=0), type="integer"),
        _AGE,
    ),
    "events": (
        Column("Last Seen", _event_seen),
        Column("Type", _path("type", default="")),
        Column("Reason", _path("reason", default="")),
        Column("Object", _plain(_event_object)),
        Column("Message", lambda obj, now: str(obj.get("message", "")).strip()),
    ),
}


def table(resource: Resource, objects: list[JsonObject], meta: JsonObject, now_s: float) -> JsonObject:
    """Return the Table document of some objects, each whole in its row; ages are counted from ``now_s``."""
    columns = _COLUMNS.get(resource.qualified, (_NAME, _AGE))
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    rows = [{"cells": [column.cell(obj, now_s) for column in columns], "object": {**head, **obj}} for obj in objects]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [column.definition() for column in columns],
        "rows": rows,
    }
