"""A collection of pods that lists and watches like the API server, and misbehaves on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from gcushare.kube.connection.config import KubeConfig
from tests.protocol.kube_server import JsonObject, serving, status


@dataclass(frozen=True)
class Change:
    """One entry of the history that watches replay."""

    version: int
    line: bytes


@dataclass
class CollectionServer:
    """Pods by name, their history by version, and switches for what goes wrong."""

    server: str = ""
    version: int = 1000
    oldest: int = 0
    """Versions below are gone: a watch from there is answered 410."""
    objects: dict[str, JsonObject] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    lists: list[dict[str, str]] = field(default_factory=list)
    watches: list[dict[str, str]] = field(default_factory=list)
    silent: bool = False
    """Streams are opened and then carry nothing, bookmarks neither."""
    cut_requests: int = 0
    """How many of the next requests are cut before they are answered."""
    refuse_watches: list[tuple[int, str]] = field(default_factory=list)
    """(code, reason) of the next watches' refusals."""
    retry_after_s: int = 0
    """How long a refused watch is asked to wait."""
    refuse_lists: list[tuple[int, str]] = field(default_factory=list)
    """The same of the next lists."""
    opaque: bool = False
    """Lists tell versions that are no numbers; watches from there begin now."""
    gone_after_page: bool = False
    cut_lists_of_all: int = 0
    """Every continue token has expired by the time it comes back."""
    _states: dict[int, list[JsonObject]] = field(default_factory=dict)
    """The objects as they stood at each version."""
    _snapshots: dict[str, tuple[str, list[JsonObject]]] = field(default_factory=dict)
    """What a list holds by its continue token's number: the version that all its pages tell, and its objects."""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _streams: set[asyncio.Transport] = field(default_factory=set)
    _ended: int = 0

    def config(self) -> KubeConfig:
        return KubeConfig(server=self.server, source="the test")

    async def put(self, name: str, uid: str | None = None, **annotations: str) -> None:
        """Create a pod or change it."""
        kind = "MODIFIED" if name in self.objects else "ADDED"
        previous = self.objects.get(name, {"metadata": {}})["metadata"]
        metadata = {"name": name, "namespace": "ns", "uid": uid or previous.get("uid") or f"uid-{name}"}
        await self._record(kind, {"metadata": {**metadata, "annotations": annotations}, "spec": {"containers": []}})

    async def delete(self, name: str) -> None:
        await self._record("DELETED", self.objects[name])

    async def bookmark(self) -> None:
        await self._record("BOOKMARK", {"kind": "Pod", "metadata": {}})

    async def line(self, raw: bytes) -> None:
        """Put bytes into the streams as they are."""
        self.version += 1
        await self._append(raw)

    def restore(self, version: int, *names: str) -> None:
        """Be away, and go back to an earlier version, as a restored etcd does: versions seen since lie in the future.

        A watch from one of them is silent until it comes, as kube-apiserver 1.36 has it; a list is not answered.
        """
        self.cut_requests = 2  # aiohttp sends the first again by itself.
        self.version, self.history = version, []
        metadata = {"namespace": "ns", "resourceVersion": str(version)}
        self.objects = {
            name: {"metadata": {**metadata, "name": name, "uid": f"uid-{name}"}, "spec": {"containers": []}}
            for name in names
        }
        self.cut_streams()

    def compact(self) -> None:
        """Drop the history: every version seen so far is gone."""
        self.version += 1
        self.oldest = self.version
        self.history.clear()

    def cut_streams(self) -> None:
        """Break the connections of all streams in the middle."""
        for transport in self._streams:
            transport.abort()

    async def end_streams(self) -> None:
        """End all streams properly, as the server does after timeoutSeconds."""
        async with self._changed:
            self._ended += 1
            self._changed.notify_all()

    async def _record(self, kind: str, obj: JsonObject) -> None:
        self.version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        name = obj["metadata"].get("name")
        if kind == "DELETED":
            del self.objects[name]
        elif kind != "BOOKMARK":
            self.objects[name] = obj
        self._states[self.version] = [self.objects[each] for each in sorted(self.objects)]
        await self._append(json.dumps({"type": kind, "object": obj}).encode())

    async def _append(self, line: bytes) -> None:
        async with self._changed:
            self.history.append(Change(self.version, line))
            self._changed.notify_all()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        if self.cut_requests and request.transport is not None:
            self.cut_requests -= 1
            request.transport.abort()
            return web.Response()
        if query.get("watch") == "true":
            self.watches.append(query)
            version = query["resourceVersion"]
            return await self._watch(request, int(version) if version.isdigit() else self.version)
        self.lists.append(query)
        if self.cut_lists_of_all and "limit" not in query and "continue" not in query:
            self.cut_lists_of_all -= 1
            return await status(500, "InternalError")(request)
        if self.refuse_lists:
            return await status(*self.refuse_lists.pop(0))(request)
        return await self._list(request, query)

    async def _list(self, request: web.Request, query: dict[str, str]) -> web.StreamResponse:
        """Answer a page of the collection as it stood when the first page was asked for, whatever changed since."""
        number, start = str(len(self.lists)), 0
        if token := query.get("continue"):
            if self.gone_after_page:
                return await status(410, "Expired")(request)
            number, _, position = token.partition(":")
            start = int(position)
        else:
            asked = int(query.get("resourceVersion") or 0)
            if asked > self.version:
                return await status(504, "Timeout")(request)
            reported = f"list-{number}" if self.opaque else str(self.version)
            objects = [self.objects[name] for name in sorted(self.objects)]
            if asked and "limit" in query:
                # So Kubernetes takes it: that version exactly, not one that is at least as new.
                reported, objects = str(asked), self._states[asked]
            self._snapshots[number] = reported, objects
        reported, objects = self._snapshots[number]
        end = start + int(query.get("limit") or len(objects) or 1)
        metadata: dict[str, Any] = {"resourceVersion": reported}
        if end < len(objects):
            metadata["continue"] = f"{number}:{end}"
        return web.json_response({"kind": "PodList", "metadata": metadata, "items": objects[start:end] or None})

    async def _watch(self, request: web.Request, version: int) -> web.StreamResponse:
        if self.refuse_watches:
            code, reason = self.refuse_watches.pop(0)
            asked: dict[str, Any] = {"retryAfterSeconds": self.retry_after_s} if self.retry_after_s else {}
            return await status(code, reason, **asked)(request)
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        if version < self.oldest:
            said = {"reason": "Expired", "message": f"too old resource version: {version}"}
            gone = {"kind": "Status", "code": 410, **said}
            await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        transport = request.transport
        assert transport is not None
        self._streams.add(transport)
        try:
            await self._replay(response, version)
        except ConnectionError:
            pass  # the client, or cut_streams, closed it
        finally:
            self._streams.discard(transport)
        return response

    async def _replay(self, response: web.StreamResponse, version: int) -> None:
        ended = self._ended
        while True:
            async with self._changed:
                while self._ended == ended and not self._later_than(version):
                    await self._changed.wait()
                if self._ended > ended:
                    return
                fresh = self._later_than(version)
            for each in fresh:
                await response.write(each.line + b"\n")
                version = each.version

    def _later_than(self, version: int) -> list[Change]:
        return [] if self.silent else [each for each in self.history if each.version > version]


@asynccontextmanager
async def collection() -> AsyncIterator[CollectionServer]:
    """Run a server of one collection."""
    server = CollectionServer()
    async with serving(server.handle) as address:
        server.server = address
        try:
            yield server
        finally:
            server.silent = False
            await server.end_streams()
