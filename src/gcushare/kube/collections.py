"""Both sides of following a collection: the API server that it is read from, and the handler of what is read."""

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
    """Keeps what was read. Called from the reflector's task, never concurrently; what it raises ends the reflector."""

    def applied(self, obj: T_contra) -> None:
        """Learn an object's newest state."""
        ...

    def deleted(self, obj: T_contra) -> None:
        """Learn that an object is gone; ``obj`` is its last state."""
        ...

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Learn that a full list ended: at ``version`` of the collection nothing else existed."""
        ...


class CollectionApi(Protocol):
    """What following a collection takes of the API server; ``KubeClient`` is one, and says what each raises."""

    def pages(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        page_size: int | None = PAGE_SIZE,
        not_older_than: str | None = None,
    ) -> AsyncGenerator[ListOf[msgspec.Raw], None]:
        """Read the collection page by page, all of one version."""
        ...

    def watch(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float,
        stall_s: float,
    ) -> AbstractAsyncContextManager[AsyncIterator[RawWatchEvent]]:
        """Follow it from a version on."""
        ...

    async def newest_version(self, resource: Resource[Any], selector: Selector = EVERYTHING) -> str:
        """Return the version at which it stands now."""
        ...
