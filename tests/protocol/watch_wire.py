"""A wire between a replica and its API server on which watches, and nothing else, go silent or are cut."""

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


@dataclass
class WatchWire:
    """``url`` is the API server's address for the replica; ``resource``, as in the path, has the controlled watches."""

    url: str
    resource: str
    cuts_watches: bool = False
    """Whether watches are cut as soon as they are asked for."""
    _streams: set[_Stream] = field(default_factory=set)

    def silence(self) -> int:
        """Let the watches that run now carry nothing any more, as when their peer has gone; returns how many."""
        running = [each for each in self._streams if each.is_watch]
        for each in running:
            each.is_silent = True
        return len(running)

    def cut(self) -> None:
        """Cut the watches that run now, and those to come."""
        self.cuts_watches = True
        for each in self._streams:
            if each.is_watch:
                _abort(each)

    async def carry(self, host: str, port: int, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        server, forth = await asyncio.open_connection(host, port)
        stream = _Stream((back, forth))
        self._streams.add(stream)
        try:
            await asyncio.gather(self._forth(stream, client, forth), self._back(stream, server, back))
        except ConnectionError:
            pass  # either side may go whenever it likes
        finally:
            self._streams.discard(stream)
            _abort(stream)

    async def _forth(self, stream: _Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if data.startswith(b"GET ") and b"watch=true" in data and f"/{self.resource}?".encode() in data:
                stream.is_watch = True
                if self.cuts_watches:
                    _abort(stream)
                    return
            writer.write(data)
            await writer.drain()
        _abort(stream)

    async def _back(self, stream: _Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if not stream.is_silent:
                writer.write(data)
                await writer.drain()
        if not stream.is_silent:
            _abort(stream)


def _abort(stream: _Stream) -> None:
    for writer in stream.writers:
        writer.transport.abort()


@asynccontextmanager
async def watch_wire(server_url: str, resource: str) -> AsyncIterator[WatchWire]:
    """Stretch a wire to an API server without TLS."""
    where = urlsplit(server_url)
    assert where.hostname is not None
    assert where.port is not None
    host, port = where.hostname, where.port
    wire = WatchWire("", resource)
    running: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(wire.carry(host, port, reader, writer), name="wire")
        running.add(task)
        task.add_done_callback(running.discard)
        # Here too: a task that is cancelled before its first turn closes nothing.
        task.add_done_callback(lambda _: writer.transport.abort())

    listener = await asyncio.start_server(take, "127.0.0.1", 0)
    wire.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        listener.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
