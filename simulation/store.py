"""The API server's store: the playground's, with collections by their plural and an author of each write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.objects import Key as StoredKey
from gcushare_playground.apiserver.storage import Change, ChangeType, Collection, Expired, Revision, Storage

Doc: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]
"""Namespace and name."""

FINISHED = ("Succeeded", "Failed")
"""The phases of pods that are over."""
DELETED = ChangeType.DELETED
_FIRST_VERSION = 100


class Store(Storage):
    """All objects. ``on_change`` hears of each write, in order."""

    def __init__(self, on_change: Callable[[Change], None]) -> None:
        super().__init__(sys.maxsize)
        self.version = self.compacted = _FIRST_VERSION
        self.observers.append(on_change)
        self._collections: dict[str, Collection] = {}
        self._uids = 0

    def collection(self, name: str) -> Collection:
        """The objects of a kind, by its plural; any kind can be stored."""
        if name not in self._collections:
            self._collections[name] = Collection(name, self, sys.maxsize)
        return self._collections[name]

    def all(self, plural: str) -> Mapping[StoredKey, Revision]:
        """The objects of a kind."""
        return self.collection(plural).items

    def find(self, plural: str, key: Key) -> Revision | None:
        """One object; None where there is none."""
        return self.collection(plural).get(StoredKey(*key))

    def read(self, plural: str, key: Key) -> Revision:
        """One object; 404 where there is none."""
        found = self.find(plural, key)
        if found is None:
            raise ApiFailure(404, "NotFound", f"{plural} {key[1]!r} not found")
        return found

    def create(self, plural: str, doc: Doc, by: str) -> Revision:
        """Create an object; its metadata need a name, and where it has one its namespace."""
        meta = doc["metadata"]
        key = StoredKey(meta.get("namespace", ""), meta["name"])
        if self.find(plural, key) is not None:
            raise ApiFailure(409, "AlreadyExists", f"{plural} {key.name!r} already exists")
        self._uids += 1
        self.author = by
        return self.collection(plural).put(
            key, {**doc, "metadata": {**meta, "uid": f"{self._uids:08x}-0000-4000-8000-000000000000"}}
        )

    def update(self, plural: str, key: Key, change: Callable[[Doc], Doc], by: str) -> Revision:
        """Replace an object; one that stays as it is is not written."""
        old = self.read(plural, key)
        doc = change(old.obj)
        self.author = by
        # The store writes the version into what it is given.
        fresh = {**doc, "metadata": {**doc["metadata"]}}
        return old if doc == old.obj else self.collection(plural).put(old.key, fresh)

    def delete(self, plural: str, key: Key, by: str, uid: str = "") -> None:
        """Remove an object, at once; with a uid only that one."""
        old = self.read(plural, key)
        if uid and old.uid != uid:
            raise ApiFailure(409, "Conflict", "the uid is another one")
        self.author = by
        self.collection(plural).remove(old.key)

    def snapshot(self, plural: str, version: int) -> list[Revision]:
        """The objects as they were at a version, by key; 410 where that is gone."""
        try:
            return list(self.collection(plural).view(version).walk(None))
        except Expired as error:
            raise ApiFailure(410, "Expired", str(error)) from error

    def since(self, plural: str, version: int) -> list[Change]:
        """The changes after a version; 410 where some are gone."""
        try:
            return self.collection(plural).changes_since(version)
        except Expired as error:
            raise ApiFailure(410, "Expired", str(error)) from error
