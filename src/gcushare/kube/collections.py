"""The handler that gets a reflector's objects, one that keeps them, and what keeps the newest entries of anything.

Objects are distinguished by uid: a name may be given again. A program also learns of objects by the answers to its own
requests, and such an answer may come after the watch has shown the object's end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

from gcushare.kube.resources import is_at_least
from gcushare.wire.objects import ObjectMeta

T_contra = TypeVar("T_contra", contravariant=True)


class WatchHandler(Protocol[T_contra]):
    """Stores the objects. Called from the reflector's task, never concurrently. Its exceptions end the reflector."""

    def applied(self, obj: T_contra) -> None:
        """Store the newest state of an object."""

    def deleted(self, obj: T_contra) -> None:
        """Remove an object. ``obj`` is its last state."""

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Remove all other objects: a full list at ``version`` contained only these uids."""


class HasMetadata(Protocol):
    """Any object of the API server."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=HasMetadata)
K = TypeVar("K")
V = TypeVar("V")


class Newest(OrderedDict[K, V]):
    """The entries that were written last, in that order, and no more than ``most`` of them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class Gone:
    """The uids that were deleted last. A uid is not given again, so an answer that has one of them is too late."""

    def __init__(self, most: int = 4096) -> None:
        self._uids = Newest[str, None](most)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        """Record a deleted object; repeatable."""
        self._uids[uid] = None

    def discard(self, uid: str) -> None:
        """Record that the watch shows the object all the same: the server's store was restored."""
        self._uids.pop(uid, None)


class Places:
    """The objects that exist, by uid, and which of them has each name now: one at a time, in every order of events."""

    def __init__(self) -> None:
        self._place_of: dict[str, tuple[str, str]] = {}
        self._uid_at: dict[tuple[str, str], str] = {}

    def put(self, meta: ObjectMeta) -> str | None:
        """Record an object; returns the uid of the one that had its name before and is therefore gone."""
        place = (meta.namespace, meta.name)
        before = self._uid_at.get(place)
        self._uid_at[place], self._place_of[meta.uid] = meta.uid, place
        if before is None or before == meta.uid:
            return None
        del self._place_of[before]
        return before

    def drop(self, uid: str) -> str | None:
        """Remove an object; returns its name, None if it was not here."""
        place = self._place_of.pop(uid, None)
        if place is None:
            return None
        del self._uid_at[place]
        return place[1]

    def missing_in(self, uids: Collection[str]) -> list[str]:
        """The uids of the objects that a full list lacks."""
        return [uid for uid in self._place_of if uid not in uids]


class ObjectCache(Generic[T]):
    """A ``WatchHandler`` that holds the newest state of every object by uid, and reports each change.

    ``on_change`` gets the state before and after; one of both is None for an object that came or went. Of two objects
    with one name, the end of the first is reported before the second comes.
    """

    def __init__(self, on_change: Callable[[T | None, T | None], None]) -> None:
        self._on_change = on_change
        self.objects: dict[str, T] = {}
        self._places = Places()
        self._gone = Gone()
        self._newer_answers: dict[str, str] = {}
        """The versions of answers that the watch has not reached, by uid."""
        self._version = ""
        """The watch has shown all that there was up to this version."""

    def applied(self, obj: T) -> None:
        """Store the object's newest state, unless an answer was newer."""
        uid, version = obj.metadata.uid, obj.metadata.resource_version
        if not is_at_least(self._version, version):
            self._version = version
        if uid in self._newer_answers and not is_at_least(version, self._newer_answers[uid]):
            return
        self._newer_answers.pop(uid, None)
        self._gone.discard(uid)
        self._put(obj)

    def answered(self, obj: T) -> bool:
        """Store the answer to a request of our own; False if the watch has shown a newer state, or the object's end."""
        uid, version = obj.metadata.uid, obj.metadata.resource_version
        known = self.objects.get(uid)
        is_shown = is_at_least(self._version, version)
        if uid in self._gone or (known is None and is_shown):
            return False
        if known is not None and not is_at_least(version, known.metadata.resource_version):
            return False
        if version and not is_shown:
            self._newer_answers[uid] = version
        self._put(obj)
        return True

    def deleted(self, obj: T) -> None:
        """Remove the object."""
        self._gone.add(obj.metadata.uid)
        self._drop(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every object that a full list lacks, except those whose answers are newer than the list."""
        self._version = version
        for uid in self._places.missing_in(uids):
            if uid not in self._newer_answers or is_at_least(version, self._newer_answers[uid]):
                self._gone.add(uid)
                self._drop(uid)

    def _put(self, obj: T) -> None:
        before = self.objects.get(obj.metadata.uid)
        if (displaced := self._places.put(obj.metadata)) is not None:
            self._gone.add(displaced)
            self._newer_answers.pop(displaced, None)
            self._on_change(self.objects.pop(displaced), None)
        self.objects[obj.metadata.uid] = obj
        self._on_change(before, obj)

    def _drop(self, uid: str) -> None:
        self._places.drop(uid)
        self._newer_answers.pop(uid, None)
        if (before := self.objects.pop(uid, None)) is not None:
            self._on_change(before, None)
