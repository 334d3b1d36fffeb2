"""A way to the API server on which answers and watch events come late, as on a machine that is short of CPU."""

from __future__ import annotations

import asyncio
from typing import Self

_CHUNK = 1 << 16


class LateWire:
    """Passes connections on to a port of loopback; what the server sends arrives ``late_s`` later, in order."""

    def __init__(self, port: int, late_s: float) -> None:
        self._port = port
        self._late_s = late_s
        self._server: asyncio.Server
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer), name="late connection")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Here too: a task that is cancelled before its first turn closes nothing.
        task.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pass(reader, up_writer, 0.0))
                    group.create_task(_pass(up_reader, writer, self._late_s))
            finally:
                up_writer.close()
        except* OSError:
            pass  # One end has gone; the other is closed below, and the client opens another connection.
        finally:
            writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late_s: float) -> None:
    """Pass bytes on until the end of the stream, each so much later than it came."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        data = b"-"
        while data:
            data = await reader.read(_CHUNK)
            waiting.put_nowait((loop.time() + late_s, data))

    reading = asyncio.create_task(read(), name="read what comes late")
    try:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    finally:
        reading.cancel()
        await asyncio.wait([reading])
