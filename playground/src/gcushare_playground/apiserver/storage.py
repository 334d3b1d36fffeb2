"""The double's etcd: objects by kind, one version counter, a bounded history of changes per kind.

Objects are never changed in place: a write stores a new :class:`Revision`, encoded once, which every list and every
watcher then shares. Single-threaded: everything here runs on the event loop's thread and never awaits half-way.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import msgspec

from gcushare_playground.apiserver.objects import JsonObject, Key, copy_of, uid_of
from gcushare_playground.apiserver.resources import BY_NAME, RESOURCES, is_stored

T = TypeVar("T")
_LAST_NAME = "\U0010ffff"
"""Sorts after every valid name: the end of a namespace's range."""


class Expired(Exception):
    """The history no longer reaches back to the version asked for."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


class ChangeType(StrEnum):
    """What happened to an object, in the words of the watch protocol."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Revision:
    """One object at one version. ``obj`` is shared by all readers: copy it before changing it."""

    key: Key
    version: int
    obj: JsonObject
    raw: bytes

    @property
    def uid(self) -> str:
        """The object's uid."""
        return uid_of(self.obj)

    def copy(self) -> JsonObject:
        """Return an object of one's own."""
        copied: JsonObject = msgspec.json.decode(self.raw)
        return copied


@dataclass(frozen=True, slots=True)
class Change:
    """One write. A deletion's revision is the object as it was last, at the version of its deletion."""

    collection: str
    type: ChangeType
    revision: Revision
    previous: Revision | None
    by: str = ""
    """Who wrote it, where :attr:`Storage.author` says so."""

    @property
    def version(self) -> int:
        """The version that it made."""
        return self.revision.version

    def seen_by(self, matches: Callable[[JsonObject], bool]) -> tuple[ChangeType, Revision] | None:
        """What it looks like to a watch of what matches: an object can enter or leave by being modified."""
        if self.type is ChangeType.DELETED:
            return (self.type, self.revision) if matches(self.revision.obj) else None
        was_seen = self.previous is not None and matches(self.previous.obj)
        if matches(self.revision.obj):
            return (ChangeType.MODIFIED if was_seen else ChangeType.ADDED, self.revision)
        return (ChangeType.DELETED, _as_of(self.previous, self.revision)) if was_seen and self.previous else None


def _as_of(last_seen: Revision, now: Revision) -> Revision:
    # A watcher that resumes from this event must not get it again: it carries the version of the change.
    obj: JsonObject = last_seen.copy()
    obj["metadata"]["resourceVersion"] = str(now.version)
    return Revision(now.key, now.version, obj, msgspec.json.encode(obj))


class View:
    """A collection as it was at one version, in key order."""

    def __init__(self, version: int, keys: list[Key], items: Mapping[Key, Revision]) -> None:
        self.version = version
        self._keys = keys
        self._items = items

    def count(self, namespace: str | None, after: Key | None = None) -> int:
        """Count the objects of a namespace (None: of all) that follow ``after``."""
        first, last = self._range(namespace, after)
        return last - first

    def walk(self, namespace: str | None, after: Key | None = None) -> Iterator[Revision]:
        """Yield the objects of a namespace (None: of all) that follow ``after``, in key order."""
        first, last = self._range(namespace, after)
        for index in range(first, last):
            yield self._items[self._keys[index]]

    def _range(self, namespace: str | None, after: Key | None) -> tuple[int, int]:
        first, last = 0, len(self._keys)
        if namespace is not None:
            first = bisect_left(self._keys, Key(namespace, ""))
            last = bisect_right(self._keys, Key(namespace, _LAST_NAME))
        if after is not None:
            first = max(first, bisect_right(self._keys, after))
        return first, max(first, last)


class Collection:
    """All objects of one kind and their recent changes."""

    def __init__(self, name: str, storage: Storage, history_limit: int) -> None:
        self.name = name
        self.subscribers: set[asyncio.Event] = set()
        """Set on every change; a watcher waits on its own and then reads :meth:`changes_since`."""
        self._storage = storage
        self._history_limit = history_limit
        self.items: dict[Key, Revision] = {}
        """What is stored now, in the order of creation; not to be changed from outside."""
        self._keys: list[Key] = []
        self._history: list[Change] = []
        self._forgotten = storage.compacted
        """The version of the newest change that the history has lost."""

    def get(self, key: Key) -> Revision | None:
        """Return the object stored there."""
        return self.items.get(key)

    def view(self, version: int | None = None) -> View:
        """Return the collection as it was at ``version``, by default as it is.

        Raises:
            Expired: the history does not reach back that far.
        """
        if version is None or not (undone := self.changes_since(version)):
            return View(self._storage.version, self._keys, self.items)
        items = dict(self.items)
        for change in reversed(undone):
            if change.previous is None:
                items.pop(change.revision.key, None)
            else:
                items[change.revision.key] = change.previous
        return View(version, sorted(items), items)

    def changes_since(self, version: int) -> list[Change]:
        """Return every change after ``version``, oldest first.

        Raises:
            Expired: some of them are forgotten.
        """
        if version < self._forgotten:
            raise Expired(version, self._forgotten)
        first = bisect_right(self._history, version, key=lambda change: change.version)
        return self._history[first:]

    def put(self, key: Key, obj: JsonObject) -> Revision:
        """Store the object under a new version, which is written into its metadata."""
        previous = self.items.get(key)
        revision = self._stamp(key, obj)
        self.items[key] = revision
        if previous is None:
            insort(self._keys, key)
        self._record(ChangeType.MODIFIED if previous else ChangeType.ADDED, revision, previous)
        return revision

    def remove(self, key: Key) -> Revision:
        """Remove the object and return it as it was last, at the version of its deletion."""
        previous = self.items.pop(key)
        del self._keys[bisect_left(self._keys, key)]
        revision = self._stamp(key, previous.copy())
        self._record(ChangeType.DELETED, revision, previous)
        return revision

    def compact(self, version: int) -> None:
        """Drop the changes up to a version, as compaction or a restart does: older watches get 410."""
        self._forgotten = max(self._forgotten, version)
        del self._history[: bisect_right(self._history, version, key=lambda change: change.version)]
        self.wake()

    def wake(self) -> None:
        """Let every watcher look again."""
        for subscriber in self.subscribers:
            subscriber.set()

    def _stamp(self, key: Key, obj: JsonObject) -> Revision:
        version = self._storage.next_version()
        obj["metadata"]["resourceVersion"] = str(version)
        return Revision(key, version, obj, msgspec.json.encode(obj))

    def _record(self, kind: ChangeType, revision: Revision, previous: Revision | None) -> None:
        change = Change(self.name, kind, revision, previous, self._storage.author)
        self._history.append(change)
        if len(self._history) > self._history_limit:
            self._forgotten = self._history.pop(0).revision.version
        self.wake()
        self._storage.announce(change)


class Storage:
    """Every collection and the one version counter. Survives restarts of the server that serves it."""

    def __init__(self, history_limit: int = 10_000) -> None:
        self.version = 0
        self.compacted = 0
        """Changes up to this version are forgotten."""
        self.author = ""
        """Who writes what is written from now on."""
        self.observers: list[Callable[[Change], None]] = []
        """Called in the middle of every write: they may only take note."""
        self._changed = asyncio.Event()
        self._collections = {
            r.qualified: Collection(r.qualified, self, history_limit) for r in RESOURCES if is_stored(r)
        }

    def next_version(self) -> int:
        """Return the version of the next write."""
        self.version += 1
        return self.version

    def announce(self, change: Change) -> None:
        """Tell every observer and everyone in :meth:`until` about a change."""
        for observer in self.observers:
            observer(change)
        self._changed.set()

    def collection(self, name: str) -> Collection:
        """Return a collection by its resource's qualified name, such as ``pods`` or ``deployments.apps``."""
        return self._collections[name]

    def collections(self) -> Iterator[Collection]:
        """Yield every collection in the table's order."""
        yield from self._collections.values()

    def get(self, resource: str, name: str, namespace: str = "default") -> JsonObject | None:
        """Return a copy of one object with its kind, None where it is not stored; the way tests look."""
        kind = BY_NAME[resource]
        found = self._collections[kind.qualified].get(Key(namespace if kind.namespaced else "", name))
        return None if found is None else {"kind": kind.kind, "apiVersion": kind.api_version, **found.copy()}

    def list(self, resource: str, namespace: str | None = None) -> list[JsonObject]:
        """Return copies of all objects of a kind, of one namespace or of all, in key order."""
        kind = BY_NAME[resource]
        found = self._collections[kind.qualified].view().walk(namespace)
        return [{"kind": kind.kind, "apiVersion": kind.api_version, **copy_of(revision.obj)} for revision in found]

    def compact(self, version: int) -> None:
        """Drop the changes of every collection up to a version."""
        self.compacted = max(self.compacted, version)
        for collection in self._collections.values():
            collection.compact(version)

    async def until(self, condition: Callable[[], T], timeout_s: float | None = 60.0) -> T:
        """Wait until ``condition`` returns something true, asking again after every write; return that.

        ``timeout_s``: None waits without end.

        Raises:
            TimeoutError: it did not become true in time.
        """
        async with asyncio.timeout(timeout_s):
            while not (found := condition()):
                self._changed.clear()
                await self._changed.wait()
            return found
