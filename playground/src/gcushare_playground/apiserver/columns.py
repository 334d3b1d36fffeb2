"""The columns of the kinds that the demo and the documents show; every other kind has its name and age."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gcushare_playground.apiserver import pod_cells
from gcushare_playground.apiserver.durations import age, since
from gcushare_playground.apiserver.objects import JsonObject, condition, dig, labels_of

Cell = Callable[[JsonObject, float], Any]
"""From an object and the present time to what stands in the column."""
_NONE = "<none>"
_ROLE_LABEL = "node-role.kubernetes.io/"


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


def _path(*path: str | int, default: Any = _NONE) -> Cell:
    return lambda obj, now: dig(obj, *path, default=default)


def _count(*path: str) -> Cell:
    return lambda obj, now: dig(obj, *path, default=0)


def _plain(function: Callable[[JsonObject], Any]) -> Cell:
    return lambda obj, now: function(obj)


def _node_status(node: JsonObject) -> str:
    ready = condition(node, "Ready").get("status")
    words = [{"True": "Ready", None: "Unknown"}.get(ready, "NotReady")]
    if dig(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: JsonObject) -> str:
    roles = sorted(name.removeprefix(_ROLE_LABEL) for name in labels_of(node) if name.startswith(_ROLE_LABEL))
    return ",".join(role for role in roles if role) or _NONE


def _node_address(node: JsonObject) -> str:
    found = (a["address"] for a in dig(node, "status", "addresses", default=[]) if a.get("type") == "InternalIP")
    return next(found, _NONE)


def _ready_of(ready: str) -> Cell:
    def cell(obj: JsonObject, now: float) -> str:
        return f"{dig(obj, 'status', ready, default=0)}/{dig(obj, 'spec', 'replicas', default=0)}"

    return cell


def _event_seen(event: JsonObject, now: float) -> str:
    last = dig(event, "series", "lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return since(last or dig(event, "metadata", "creationTimestamp"), now)


def _event_object(event: JsonObject) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


_NAME = Column("Name", _path("metadata", "name"))
_AGE = Column("Age", age)
_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        _NAME,
        Column("Ready", _plain(pod_cells.ready)),
        Column("Status", _plain(pod_cells.status)),
        Column("Restarts", _plain(pod_cells.restarts)),
        _AGE,
        Column("IP", _path("status", "podIP"), wide=True),
        Column("Node", _path("spec", "nodeName"), wide=True),
    ),
    "nodes": (
        _NAME,
        Column("Status", _plain(_node_status)),
        Column("Roles", _plain(_node_roles)),
        _AGE,
        Column("Version", _path("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", _plain(_node_address), wide=True),
    ),
    "deployments.apps": (
        _NAME,
        Column("Ready", _ready_of("readyReplicas")),
        Column("Up-to-date", _count("status", "updatedReplicas"), type="integer"),
        Column("Available", _count("status", "availableReplicas"), type="integer"),
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
_GENERIC = (_NAME, _AGE)


def columns_of(collection: str) -> tuple[Column, ...]:
    """Return the columns of a collection."""
    return _COLUMNS.get(collection, _GENERIC)
