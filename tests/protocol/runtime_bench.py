"""What tests of the shared parts share: handlers that can be held, clients that say what they want, processes."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web

from gcushare.runtime.http.page_server import start_server
from gcushare.runtime.http.scheduler_requests import Call, GetPath, Verb
from gcushare.runtime.http.scheduler_server import start_scheduler_server
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.settings.serving import ServeSettings

SETTINGS = ServeSettings(listen_address="127.0.0.1", max_request_size=64 * 1024, request_timeout=20.0)
IMPATIENT = replace(SETTINGS, request_timeout=0.1)
# Far above anything a passing test needs.
DEADLINE_S = 60.0


@dataclass
class Work:
    """Handlers whose progress a test can see and hold; ``taken`` are the bodies that came to a verb."""

    taken: list[bytes] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def hold(self, _request: web.Request | Call) -> web.Response:
        self.started.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return web.json_response({"held": True})

    async def pour(self, _request: web.Request | Call) -> web.Response:
        return web.Response(body=b"x" * (64 << 20))

    async def be_well(self, _request: web.Request | Call) -> web.Response:
        return web.json_response({})

    def echo(self, body: bytes) -> bytes:
        self.taken.append(body)
        return json.dumps({"size": len(body), "start": body[:8].decode("latin-1")}).encode()

    async def hold_post(self, body: bytes) -> bytes:
        self.taken.append(body)
        self.started.set()
        await self.may_end.wait()
        return b"{}"

    async def begin_and_fail(self, _call: Call) -> AsyncGenerator[bytes, None]:
        return fail_half_way()

    async def stream_and_fail(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        raise ValueError("half way")


async def fail_half_way() -> AsyncGenerator[bytes, None]:
    yield b"begun"
    raise ValueError("half way")


@dataclass
class Client:
    """A connection on which a test says exactly what it wants."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, text: str) -> None:
        self.writer.write(text.replace("\n", "\r\n").encode())
        await self.writer.drain()

    async def ask(self, path: str) -> None:
        await self.send(f"GET {path} HTTP/1.1\nHost: x\n\n")

    async def get(self, path: str) -> tuple[int, dict[str, Any]]:
        return await self.exchange(f"GET {path} HTTP/1.1\nHost: x\n\n")

    async def exchange(self, request: str) -> tuple[int, dict[str, Any]]:
        """Send a request, and return the answer's status and document."""
        await self.send(request)
        return await self.receive_response()

    async def receive_response(self) -> tuple[int, dict[str, Any]]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        (length,) = (
            int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length:")
        )
        return int(head.split()[1]), json.loads(await self.reader.readexactly(length))

    async def wait_closed(self) -> bytes:
        """Return what arrives until the server ends the connection, in order or by a reset."""
        got = bytearray()
        try:
            while chunk := await self.reader.read(65536):
                got += chunk
        except ConnectionError:
            pass
        return bytes(got)


@asynccontextmanager
async def serving(
    settings: ServeSettings = SETTINGS, work: Work | None = None, *more: Verb | GetPath
) -> AsyncIterator[RunningServer]:
    """The server of the scheduler's port."""
    work = work or Work()
    paths = [Verb("/echo", work.echo), Verb("/hold", work.hold_post), *more]
    paths += [GetPath("/hold", work.hold), GetPath("/pour", work.pour), GetPath("/well", work.be_well)]
    paths += [GetPath("/stream", work.begin_and_fail)]
    verbs = [each for each in paths if isinstance(each, Verb)]
    pages = [each for each in paths if isinstance(each, GetPath)]
    async with running(await start_scheduler_server(verbs, pages, settings)) as server:
        yield server


@asynccontextmanager
async def serving_pages(
    settings: ServeSettings = SETTINGS, work: Work | None = None, *routes: web.RouteDef
) -> AsyncIterator[RunningServer]:
    """The server of every other port."""
    work = work or Work()
    app = web.Application()
    own = {"hold": work.hold, "pour": work.pour, "well": work.be_well, "stream": work.stream_and_fail}
    app.add_routes([*(web.get(f"/{path}", handler) for path, handler in own.items()), *routes])
    async with running(await start_server(app, settings)) as server:
        yield server


@asynccontextmanager
async def running(server: RunningServer) -> AsyncIterator[RunningServer]:
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield server
    finally:
        await server.stop(0)


BOTH = pytest.mark.parametrize("serving", [serving, serving_pages], ids=lambda each: str(each.__name__))
"""The test is run with either server."""
Serving = Callable[..., AbstractAsyncContextManager[RunningServer]]


@asynccontextmanager
async def connected(server: RunningServer, context: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what no event tells; the caller's deadline bounds it."""
    while not condition():  # noqa: ASYNC110 - the state of a server has no event for tests
        await asyncio.sleep(0.005)


@contextmanager
def python(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run Python with these words in its own process; it is gone when the block is left, whatever happened."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
