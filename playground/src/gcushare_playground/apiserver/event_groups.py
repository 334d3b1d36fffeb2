"""Events have two API groups over the same objects: stored as core v1, translated for events.k8s.io.

Source: ``pkg/apis/events/v1/conversion.go`` of Kubernetes.
"""

from __future__ import annotations

from gcushare_playground.apiserver.objects import JsonObject

_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK = {new: old for old, new in _RENAMED.items()}


def to_events_group(event: JsonObject) -> JsonObject:
    """Return a core event as events.k8s.io/v1 shows it."""
    return {_RENAMED.get(name, name): value for name, value in event.items()}


def from_events_group(event: JsonObject) -> JsonObject:
    """Return an events.k8s.io/v1 event as it is stored."""
    return {_BACK.get(name, name): value for name, value in event.items()}


def stored_path(path: str) -> str:
    """Return where a field of an events.k8s.io/v1 event is stored."""
    first, dot, rest = path.partition(".")
    return _BACK.get(first, first) + dot + rest
