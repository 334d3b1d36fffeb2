"""The API server's store: objects with versions, and every change since the last compaction."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

Doc: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]
"""Namespace and name."""

FINISHED = ("Succeeded", "Failed")
"""The phases of pods that are over."""
ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
_FIRST_VERSION = 100


class Failure(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, reason: str, message: str = "", field: str = "") -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code, self.reason, self.message, self.field = code, reason, message, field

    def body(self) -> bytes:
        """The Status document."""
        status: Doc = {"kind": "Status", "code": self.code, "reason": self.reason, "message": self.message}
        if self.field:
            status["details"] = {"causes": [{"field": self.field, "message": self.message}]}
        return msgspec.json.encode(status)


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of an object; ``doc`` is never changed in place."""

    plural: str
    key: Key
    version: int
    doc: Doc
    raw: bytes

    @property
    def uid(self) -> str:
        uid: str = self.doc["metadata"]["uid"]
        return uid


@dataclass(frozen=True, slots=True)
class Change:
    """One write."""

    kind: str
    version: int
    new: Stored
    old: Stored | None
    by: str


class Store:
    """All objects. ``on_change`` hears of each write, in order."""

    def __init__(self, on_change: Callable[[Change], None]) -> None:
        self.version = _FIRST_VERSION
        self.objects: defaultdict[str, dict[Key, Stored]] = defaultdict(dict)
        self.changes: dict[str, deque[Change]] = {}
        self.compacted = _FIRST_VERSION
        """Versions before this one are gone."""
        self._on_change = on_change
        self._uids = 0

    def all(self, plural: str) -> dict[Key, Stored]:
        """The objects of a kind."""
        return self.objects[plural]

    def find(self, plural: str, key: Key) -> Stored | None:
        """One object; None where there is none."""
        return self.objects[plural].get(key)

    def get(self, plural: str, key: Key) -> Stored:
        """One object; 404 where there is none."""
        found = self.find(plural, key)
        if found is None:
            raise Failure(404, "NotFound", f"{plural} {key[1]!r} not found")
        return found

    def create(self, plural: str, doc: Doc, by: str) -> Stored:
        """Create an object; its metadata need a name, and where it has one its namespace."""
        meta = doc["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        if self.find(plural, key) is not None:
            raise Failure(409, "AlreadyExists", f"{plural} {key[1]!r} already exists")
        self._uids += 1
        return self._write(ADDED, plural, key, {**doc, "metadata": {**meta, "uid": f"uid-{self._uids:06}"}}, None, by)

    def update(self, plural: str, key: Key, change: Callable[[Doc], Doc], by: str) -> Stored:
        """Replace an object; one that stays as it is is not written."""
        old = self.get(plural, key)
        doc = change(old.doc)
        return old if doc == old.doc else self._write(MODIFIED, plural, key, doc, old, by)

    def delete(self, plural: str, key: Key, by: str, uid: str = "") -> None:
        """Remove an object, at once; with a uid only that one."""
        old = self.get(plural, key)
        if uid and old.uid != uid:
            raise Failure(409, "Conflict", "the uid is another one")
        self._write(DELETED, plural, key, old.doc, old, by)

    def snapshot(self, plural: str, version: int) -> list[Stored]:
        """The objects as they were at a version, by key; 410 where that is gone."""
        if version < self.compacted:
            raise Failure(410, "Expired", f"version {version} is gone, the oldest is {self.compacted}")
        objects = dict(self.all(plural))
        for change in reversed(self.changes.get(plural, ())):
            if change.version <= version:
                break
            if change.old is None:
                del objects[change.new.key]
            else:
                objects[change.new.key] = change.old
        return [objects[key] for key in sorted(objects)]

    def since(self, plural: str, version: int) -> Iterator[Change]:
        """The changes after a version; 410 where some are gone."""
        if version < self.compacted:
            raise Failure(410, "Expired", f"too old resource version: {version} ({self.compacted})")
        return iter([change for change in self.changes.get(plural, ()) if change.version > version])

    def compact(self, version: int) -> None:
        """Forget what was before a version."""
        self.compacted = max(self.compacted, version)
        for changes in self.changes.values():
            while changes and changes[0].version <= self.compacted:
                changes.popleft()

    def _write(self, kind: str, plural: str, key: Key, doc: Doc, old: Stored | None, by: str) -> Stored:
        self.version += 1
        doc = {**doc, "metadata": {**doc["metadata"], "resourceVersion": str(self.version)}}
        new = Stored(plural, key, self.version, doc, msgspec.json.encode(doc))
        if kind == DELETED:
            del self.all(plural)[key]
        else:
            self.all(plural)[key] = new
        change = Change(kind, self.version, new, old, by)
        self.changes.setdefault(plural, deque()).append(change)
        self._on_change(change)
        return new


def merged(doc: Doc, patch: Doc) -> Doc:
    """Apply a merge patch."""
    result = dict(doc)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, dict) else {}, value)
        else:
            result[name] = value
    return result
