"""Owners and their objects, updated from the storage's changes, so that no controller walks all pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gcushare_playground.apiserver.objects import Key, owners, uid_of
from gcushare_playground.apiserver.storage import Change, ChangeType, Revision, Storage


class Ref(NamedTuple):
    """An object's place in the whole storage."""

    collection: str
    key: Key


class Ownership:
    """The index from an owner's uid to what it owns, and from every uid to its object."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._children: dict[str, dict[Ref, None]] = {}
        self._objects: dict[str, Ref] = {}

    def rebuild(self) -> None:
        """Read the whole storage; from then on :meth:`note` keeps the index true."""
        self._children.clear()
        self._objects.clear()
        for collection in self._storage.collections():
            for revision in collection.view().walk(None):
                self._add(Ref(collection.name, revision.key), revision)

    def note(self, change: Change) -> None:
        """Take one change into account."""
        ref = Ref(change.collection, change.revision.key)
        if change.previous is not None:
            self._drop(ref, change.previous)
        if change.type is not ChangeType.DELETED:
            self._add(ref, change.revision)

    def find(self, uid: str) -> Ref | None:
        """Return where the object with that uid is stored."""
        return self._objects.get(uid)

    def refs(self, uid: str) -> list[Ref]:
        """Return what the owner with that uid owns, in order of creation."""
        return list(self._children.get(uid, ()))

    def children(self, uid: str, collection: str) -> Iterator[Revision]:
        """Yield the owned objects of one kind."""
        stored = self._storage.collection(collection)
        for ref in self.refs(uid):
            if ref.collection == collection and (revision := stored.get(ref.key)) is not None:
                yield revision

    def _add(self, ref: Ref, revision: Revision) -> None:
        self._objects[uid_of(revision.obj)] = ref
        for owner in owners(revision.obj):
            self._children.setdefault(owner["uid"], {})[ref] = None

    def _drop(self, ref: Ref, revision: Revision) -> None:
        self._objects.pop(uid_of(revision.obj), None)
        for owner in owners(revision.obj):
            found = self._children.get(owner["uid"], {})
            found.pop(ref, None)
            if not found:
                self._children.pop(owner["uid"], None)
