"""Two small API servers over real HTTP for the tests of ``gcushare.kube``: one scripted, one with a live collection."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.credentials import Credentials, FixedHeader

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answer(code: int, document: object) -> Step:
    """Answer with a JSON document."""
    return text(code, json.dumps(document), kind="application/json")


def status(code: int, reason: str, message: str = "said the server", **details: Any) -> Step:
    """Answer with a Status, as the API server refuses."""
    document: JsonObject = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return answer(code, {**document, "details": details} if details else document)


def text(code: int, body: str, headers: dict[str, str] | None = None, kind: str = "text/plain") -> Step:
    """Answer with text that is no JSON, as a proxy in between does."""

    async def step(request: web.Request) -> web.StreamResponse:
        return web.Response(status=code, text=body, headers=headers, content_type=kind)

    return step


def drop() -> Step:
    """Close the connection without an answer; a recorded request has arrived, so its effect would have happened."""

    async def step(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return step


def lines(*documents: object) -> Step:
    """Stream documents, one a line, and end the stream."""

    async def step(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for document in documents:
            raw = document if isinstance(document, bytes) else json.dumps(document).encode()
            await response.write(raw + b"\n")
        return response

    return step


@dataclass
class ScriptedServer:
    """Plays the steps scripted for a request's method and path, in order; a request beyond them is answered 404."""

    server: str = ""
    requests: list[Recorded] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    _script: dict[tuple[str, str], deque[Step]] = field(default_factory=lambda: defaultdict(deque))

    def on(self, method: str, path: str, *steps: Step) -> None:
        self._script[(method, path)].extend(steps)

    def hang(self) -> Step:
        """Answer only when the test ends."""

        async def step(request: web.Request) -> web.StreamResponse:
            await self.released.wait()
            return web.Response(status=500)

        return step

    def config(self, credentials: Credentials | None = None) -> KubeConfig:
        return KubeConfig(server=self.server, source="the test", credentials=credentials or FixedHeader())

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(Recorded(request.method, request.path, dict(request.query), dict(request.headers), body))
        script = self._script[(request.method, request.path)]
        step = script.popleft() if script else status(404, "NotFound", "nothing scripted")
        return await step(request)


@asynccontextmanager
async def serving(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serve every path with one handler on a free loopback port and yield the address."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    try:
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(answer: bytes) -> AsyncIterator[str]:
    """Answer every connection with the same bytes, whatever it asked, and close it; yields the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def scripted(tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """Run a scripted server."""
    server = ScriptedServer()
    async with serving(server.handle, tls) as address:
        server.server = address
        try:
            yield server
        finally:
            server.released.set()
