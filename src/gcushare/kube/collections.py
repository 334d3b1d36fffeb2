"""What a reflector reads from (the API server), the handler that gets the objects, and a handler that keeps them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from gcushare.kube.client import PAGE_SIZE
from gcushare.kube.connection.watch_lines import RawWatchEvent
from gcushare.kube.resources import EVERYTHING, Resource, Selector
from gcushare.wire.objects import ListOf, ObjectMeta

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


class Kept(Generic[T]):
    """A ``WatchHandler`` that holds the newest state of every object by uid, and reports each change.

    ``on_change`` gets the state before and after; one of both is None for an object that came or went.
    """

    def __init__(self, on_change: Callable[[T | None, T | None], None]) -> None:
        self._on_change = on_change
        self.objects: dict[str, T] = {}

    def applied(self, obj: T) -> None:
        """Store the object's newest state."""
        before = self.objects.get(obj.metadata.uid)
        self.objects[obj.metadata.uid] = obj
        self._on_change(before, obj)

    def deleted(self, obj: T) -> None:
        """Remove the object."""
        if (before := self.objects.pop(obj.metadata.uid, None)) is not None:
            self._on_change(before, None)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every object that a full list lacks."""
        for uid in self.objects.keys() - uids:
            self._on_change(self.objects.pop(uid), None)


class CollectionApi(Protocol):
    """The API calls of a reflector. ``KubeClient`` implements them and documents their errors."""

    def pages(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        page_size: int | None = PAGE_SIZE,
        not_older_than: str | None = None,
    ) -> AsyncGenerator[ListOf[msgspec.Raw], None]:
        """Read the collection page by page, all pages at one version."""

    def watch(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float,
        stall_s: float,
    ) -> AbstractAsyncContextManager[AsyncIterator[RawWatchEvent]]:
        """Watch the collection from a version on."""

    async def newest_version(self, resource: Resource[Any], selector: Selector = EVERYTHING) -> str:
        """Return the collection's present version."""
