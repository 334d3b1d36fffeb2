"""A collection as an API server keeps it: each write has a version, lists are of one version, watches lag and break."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gcushare.core.errors import RetryableError
from gcushare.kube.connection.transport import Request
from gcushare.kube.errors import GoneError
from gcushare.wire.objects import ListMeta, ListOf
from tests.played_api import Asked, PlayedApi


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
class VersionedStore(PlayedApi):
    """What is to go wrong next is written into its fields, and happens once each."""

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

    async def answer(self, asked: Asked) -> ListOf[dict[str, Any]]:
        """Answer with a page of a list; who asks for a page of one wants to know the version."""
        query = asked.query
        if query.get("limit") == "1":
            return _page([], str(self.version))
        start, version = 0, self.version
        if "continue" in query:
            start, version = map(int, query["continue"].split())
        elif "resourceVersion" in query:
            version = max(int(query["resourceVersion"]), version - self.cache_lag, 1)
        found = [each.object for each in self.at(version).values()]
        end = start + int(query.get("limit", len(found)))
        await asyncio.sleep(self.page_delay_s)
        if start and version < self.compacted:
            raise GoneError(f"version {version} is too old")
        if self.cut_page is not None and start == self.cut_page * (end - start):
            self.cut_page = None
            raise RetryableError("the list broke")
        return _page(found[start:end], str(version), f"{end} {version}" if end < len(found) else "")

    @asynccontextmanager
    async def stream(self, request: Request, stall_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        query = Asked.read(request).query
        version = int(query["resourceVersion"])
        if version < self.compacted:
            raise GoneError(f"version {version} is too old")
        yield self._events(version, float(query["timeoutSeconds"]), stall_s)

    async def _events(self, seen: int, timeout_s: float, stall_s: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends, quiet_since, sent = loop.time() + timeout_s, loop.time(), 0
        while loop.time() < ends:
            changed = self._changed
            if seen < self.compacted and not self.is_silent:
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


def _event(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def _page(items: list[dict[str, Any]], version: str, more: str = "") -> ListOf[dict[str, Any]]:
    return ListOf(items=items, metadata=ListMeta(resource_version=version, continue_=more))
