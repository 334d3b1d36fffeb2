"""Plain Kubernetes objects as dictionaries, and the few questions everyone asks them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

JsonObject = dict[str, Any]
"""One JSON object. Its values stay untyped on purpose: the double stores what clients send, known fields or not."""


class Key(NamedTuple):
    """Where an object lives in its collection; cluster-scoped objects have an empty namespace."""

    namespace: str
    name: str


def copy_of(obj: JsonObject) -> JsonObject:
    """Return an independent deep copy; everything inside is JSON, so a round trip is exact and fast."""
    copied: JsonObject = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def dig(obj: Any, *path: str, default: Any = None) -> Any:
    """Return the value at ``path``, or ``default`` where a step is missing, null or not a container."""
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
        if obj is None:
            return default
    return obj


def metadata(obj: JsonObject) -> JsonObject:
    """Return the object's metadata, creating it where it is missing."""
    found = obj.get("metadata")
    if not isinstance(found, dict):
        found = obj["metadata"] = {}
    return found


def labels_of(obj: JsonObject) -> dict[str, str]:
    """Return the object's labels, empty where there are none."""
    return dig(obj, "metadata", "labels") or {}


def has_labels(obj: JsonObject, wanted: dict[str, str]) -> bool:
    """Tell whether the object has all of these labels."""
    return wanted.items() <= labels_of(obj).items()


def annotations_of(obj: JsonObject) -> dict[str, str]:
    """Return the object's annotations, empty where there are none."""
    return dig(obj, "metadata", "annotations") or {}


def key_of(obj: JsonObject) -> Key:
    """Return the key under which the object is stored."""
    return Key(dig(obj, "metadata", "namespace", default=""), dig(obj, "metadata", "name", default=""))


def uid_of(obj: JsonObject) -> str:
    """Return the object's uid, empty for one never stored."""
    uid: str = dig(obj, "metadata", "uid", default="")
    return uid


def is_deleting(obj: JsonObject) -> bool:
    """Tell whether a graceful deletion of the object has begun."""
    return dig(obj, "metadata", "deletionTimestamp") is not None


def owners(obj: JsonObject) -> list[JsonObject]:
    """Return the object's owner references."""
    return dig(obj, "metadata", "ownerReferences") or []


def controller_of(obj: JsonObject) -> JsonObject | None:
    """Return the owner reference that controls the object."""
    return next((owner for owner in owners(obj) if owner.get("controller")), None)


def condition(obj: JsonObject, kind: str) -> JsonObject:
    """Return the status condition of that type, empty where it is not set."""
    found: Iterator[JsonObject] = (c for c in dig(obj, "status", "conditions") or [] if c.get("type") == kind)
    return next(found, {})


def set_condition(obj: JsonObject, wanted: JsonObject, now: str) -> None:
    """Set one status condition; its transition time moves only when its status does."""
    status = obj.setdefault("status", {})
    kept = [c for c in status.get("conditions") or [] if c.get("type") != wanted["type"]]
    before = condition(obj, wanted["type"])
    moved = now if before.get("status") != wanted["status"] else before.get("lastTransitionTime", now)
    status["conditions"] = [*kept, {**wanted, "lastTransitionTime": moved}]


def is_ready(pod: JsonObject) -> bool:
    """Tell whether the pod's Ready condition is true and no one is deleting it."""
    return condition(pod, "Ready").get("status") == "True" and not is_deleting(pod)


def is_finished(pod: JsonObject) -> bool:
    """Tell whether the pod has ended for good."""
    return dig(pod, "status", "phase") in ("Succeeded", "Failed")


def rfc3339(timestamp_s: float) -> str:
    """Write a time as the API does: UTC, whole seconds."""
    return datetime.fromtimestamp(int(timestamp_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str | None) -> float | None:
    """Read an API time, with or without a fraction; None where there is none."""
    return datetime.fromisoformat(text).timestamp() if text else None
