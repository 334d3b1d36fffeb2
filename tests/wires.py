"""A wire to an API server on which answers come late, as on a machine short of CPU, or watches go silent or are cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_CHUNK = 64 * 1024


@dataclass(eq=False)
class _Stream:
    """One connection; a watch keeps one of its own."""

    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    is_watch: bool = False
    is_silent: bool = False

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


@dataclass
class Wire:
    """Leads to a port of loopback. What the server sends comes ``late_s`` later, in order.

    ``resource``, as in the path, has the watches that can be controlled; over TLS none can.
    """

    server_port: int
    late_s: float
    resource: str
    port: int = 0
    is_cut: bool = False
    """Whether watches are cut as soon as they are asked for."""
    _streams: set[_Stream] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def silence(self) -> int:
        """Let the watches that run now carry nothing any more, as when their peer has gone; returns how many."""
        running = [each for each in self._streams if each.is_watch]
        for each in running:
            each.is_silent = True
        return len(running)

    def cut(self) -> None:
        """Cut the watches that run now, and those to come."""
        self.is_cut = True
        for each in self._streams:
            if each.is_watch:
                each.abort()

    async def carry(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        server, forth = await asyncio.open_connection("127.0.0.1", self.server_port)
        stream = _Stream((back, forth))
        self._streams.add(stream)
        try:
            await asyncio.gather(self._forth(stream, client, forth), self._back(stream, server, back))
        except ConnectionError:
            pass  # either side may go whenever it likes
        finally:
            self._streams.discard(stream)
            stream.abort()

    async def _forth(self, stream: _Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if data.startswith(b"GET ") and b"watch=true" in data and f"/{self.resource}?".encode() in data:
                stream.is_watch = True
                if self.is_cut:
                    break
            writer.write(data)
            await writer.drain()
        stream.abort()

    async def _back(self, stream: _Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if not stream.is_silent:
                asyncio.get_running_loop().call_later(self.late_s, writer.write, data)
        await asyncio.sleep(self.late_s)
        if not stream.is_silent:
            writer.close()


@asynccontextmanager
async def wire_to(server_url: str, *, late_s: float = 0.0, resource: str = "-") -> AsyncIterator[Wire]:
    """Stretch a wire to an API server on this machine."""
    wire = Wire(urlsplit(server_url).port or 0, late_s, resource)
    running: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(wire.carry(reader, writer), name="wire")
        running.add(task)
        task.add_done_callback(running.discard)
        # Here too: a task that is cancelled before its first turn closes nothing.
        task.add_done_callback(lambda _: writer.close())

    listener = await asyncio.start_server(take, "127.0.0.1", 0)
    wire.port = listener.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        listener.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
