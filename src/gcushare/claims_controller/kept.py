"""A watch handler that keeps the newest state of each object and reports each change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from gcushare.wire.objects import ObjectMeta


class HasMetadata(Protocol):
    """Any object of the API server."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its identity."""
        ...


T = TypeVar("T", bound=HasMetadata)


class Kept(Generic[T]):
    """A watch handler (``kube.collections.WatchHandler``) that holds the newest state of every object.

    ``on_change`` gets the state before and after; one of both is None for an object that came or went.
    """

    def __init__(self, on_change: Callable[[T | None, T | None], None]) -> None:
        self._on_change = on_change
        self._objects: dict[str, T] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def applied(self, obj: T) -> None:
        """Store the object's newest state."""
        before = self._objects.get(obj.metadata.uid)
        self._objects[obj.metadata.uid] = obj
        self._on_change(before, obj)

    def deleted(self, obj: T) -> None:
        """Remove the object."""
        before = self._objects.pop(obj.metadata.uid, None)
        if before is not None:
            self._on_change(before, None)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every object that a full list lacks."""
        for uid in self._objects.keys() - uids:
            self._on_change(self._objects.pop(uid), None)
