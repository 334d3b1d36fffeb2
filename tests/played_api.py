"""An API server that a test plays behind a real client: the client's requests come to ``answer``, taken apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import Request


@dataclass(frozen=True)
class Asked:
    """One request. ``verb`` is the client's, such as get, list, patch or bind; what the path does not name is ""."""

    verb: str
    plural: str
    namespace: str
    name: str
    query: dict[str, str]
    body: Any
    timeout_s: float | None

    @classmethod
    def read(cls, request: Request) -> Asked:
        path, _, query = request.path.partition("?")
        parts = path.split("/")[3 if path.startswith("/api/") else 4 :]
        namespace = ""
        if parts[:1] == ["namespaces"] and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        body = msgspec.json.decode(request.body) if request.body else None
        name = parts[1] if len(parts) > 1 else ""
        return cls(request.verb, request.resource, namespace, name, dict(parse_qsl(query)), body, request.timeout_s)

    @property
    def annotations(self) -> dict[str, str | None]:
        """Those that a patch sets or removes, or that a Binding brings."""
        found: dict[str, str | None] = self.body["metadata"].get("annotations", {})
        return found


class PlayedApi:
    """The transport of ``client``. A double answers with objects, and with our own errors."""

    @cached_property
    def client(self) -> KubeClient:
        return KubeClient(KubeConfig(server="http://api", source="a test"), transport=self)

    async def answer(self, asked: Asked) -> object:
        raise AssertionError(asked)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, request: Request) -> tuple[bytes, str]:
        found = msgspec.to_builtins(await self.answer(Asked.read(request)))
        return msgspec.json.encode({"kind": "Played", **found}), ""

    async def post(self, request: Request) -> None:
        await self.answer(Asked.read(request))

    def stream(self, request: Request, stall_s: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise AssertionError(request)
