"""The two interfaces of a reflector: the API server that it reads from, and the handler that gets the objects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import msgspec

from gcushare.kube.client import PAGE_SIZE
from gcushare.kube.connection.watch_lines import RawWatchEvent
from gcushare.kube.resources import EVERYTHING, Resource, Selector
from gcushare.wire.objects import ListOf

T_contra = TypeVar("T_contra", contravariant=True)


class WatchHandler(Protocol[T_contra]):
    """Stores the objects. Called from the reflector's task, never concurrently. Its exceptions end the reflector."""

    def applied(self, obj: T_contra) -> None:
        """Store the newest state of an object."""

    def deleted(self, obj: T_contra) -> None:
        """Remove an object. ``obj`` is its last state."""

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Remove all other objects: a full list at ``version`` contained only these uids."""


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
