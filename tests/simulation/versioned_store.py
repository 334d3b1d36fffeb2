"""A collection as an API server keeps it: each write has a version, lists are of one version, watches lag and break."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gcushare.core.errors import RetryableError
from gcushare.kube.client import PAGE_SIZE
from gcushare.kube.connection.watch_lines import EVENT, RawWatchEvent
from gcushare.kube.errors import GoneError
from gcushare.kube.resources import EVERYTHING, Resource, Selector
from gcushare.wire.objects import ListMeta, ListOf


@dataclass(frozen=True)
class Write:
    """One version of the collection."""

    version: int
    kind: str
    uid: str

    @property
    def object(self) -> dict[str, Any]:
        return {"metadata": {"name": self.uid, "uid": self.uid, "resourceVersion": str(self.version)}}


@dataclass
class VersionedStore:
    """A ``CollectionApi``. What is to go wrong next is written into its fields, and happens once each."""

    writes: list[Write] = field(default_factory=lambda: [Write(1, "START", "")])
    compacted: int = 0
    cache_lag: int = 0
    """How many versions the cache, from which lists are answered that allow it, is behind."""
    page_delay_s: float = 0.0
    cut_page: int | None = None
    """The page, from 0, that breaks."""
    cut_event: int | None = None
    """After how many events a stream breaks."""
    is_silent: bool = False
    """Whether streams deliver nothing, as half-open connections do."""
    repeats: bool = False
    """Whether each event comes twice."""
    lists: int = 0
    gone: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def version(self) -> int:
        return self.writes[-1].version

    def write(self, kind: str, uid: str) -> None:
        self.writes.append(Write(self.version + 1, kind, uid))
        self.wake()

    def wake(self) -> None:
        """Have streams look again, after a write or a change of what goes wrong."""
        self._changed.set()
        self._changed = asyncio.Event()

    def compact(self) -> None:
        """Forget how this state came about: versions before it can be neither watched nor paged."""
        self.compacted = self.version
        self.wake()

    def at(self, version: int) -> dict[str, Write]:
        found: dict[str, Write] = {}
        for write in self.writes[1:]:
            if write.version > version:
                break
            if write.kind == "DELETED":
                found.pop(write.uid, None)
            else:
                found[write.uid] = write
        return found

    async def pages(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        page_size: int | None = PAGE_SIZE,
        not_older_than: str | None = None,
    ) -> AsyncGenerator[ListOf[msgspec.Raw], None]:
        self.lists += 1
        version = self.version
        if not_older_than is not None:
            version = max(int(not_older_than), version - self.cache_lag, 1)
        found = [msgspec.Raw(json.dumps(each.object).encode()) for each in self.at(version).values()]
        size = page_size or max(1, len(found))
        for number, start in enumerate(range(0, max(1, len(found)), size)):
            await asyncio.sleep(self.page_delay_s)
            if number and version < self.compacted:
                self.gone += 1
                raise GoneError(f"version {version} is too old")
            if self.cut_page == number:
                self.cut_page = None
                raise RetryableError("the list broke")
            yield ListOf(found[start : start + size], ListMeta(resource_version=str(version)))

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[Any],
        selector: Selector = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float,
        stall_s: float,
    ) -> AsyncIterator[AsyncIterator[RawWatchEvent]]:
        if int(resource_version) < self.compacted:
            self.gone += 1
            raise GoneError(f"version {resource_version} is too old")
        yield self._events(int(resource_version), timeout_s, stall_s)

    async def newest_version(self, resource: Resource[Any], selector: Selector = EVERYTHING) -> str:
        return str(self.version)

    async def _events(self, seen: int, timeout_s: float, stall_s: float) -> AsyncIterator[RawWatchEvent]:
        loop = asyncio.get_running_loop()
        ends, quiet_since, sent = loop.time() + timeout_s, loop.time(), 0
        while loop.time() < ends:
            changed = self._changed
            if seen < self.compacted and not self.is_silent:
                self.gone += 1
                raise GoneError(f"version {seen} is too old")
            for write in [] if self.is_silent else [each for each in self.writes if each.version > seen]:
                if self.cut_event is not None and sent >= self.cut_event:
                    self.cut_event = None
                    raise RetryableError("the stream broke")
                for _ in range(1 + self.repeats):
                    yield _event(write.kind, write.object)
                seen, sent, quiet_since = write.version, sent + 1, loop.time()
            if not self.is_silent and loop.time() - quiet_since >= 60:
                yield _event("BOOKMARK", Write(self.version, "BOOKMARK", "").object)
                seen, quiet_since = self.version, loop.time()
            if loop.time() - quiet_since >= stall_s:
                raise RetryableError("the stream is silent")
            try:
                async with asyncio.timeout(1.0):
                    await changed.wait()
            except TimeoutError:
                continue


def _event(kind: str, body: dict[str, Any]) -> RawWatchEvent:
    return EVENT.read(json.dumps({"type": kind, "object": body}).encode())
