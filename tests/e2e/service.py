"""What a Service is to the scheduler: one address, behind it whichever replica says that it is ready."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from gcushare_playground.processes import Child

_PROBE_S = 0.2
_PROBE_TIMEOUT = aiohttp.ClientTimeout(total=1.0)


class Service:
    """Forwards connections to the first replica whose /readyz answers 200; connections to others are closed."""

    def __init__(self, replicas: Sequence[Child]) -> None:
        self._replicas = replicas
        self._ready = ""
        self._streams: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server
        self._prober: asyncio.Task[None]

    @property
    def url(self) -> str:
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self._prober = asyncio.create_task(self._probe(), name="readiness of the replicas")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._prober.cancel()
        await asyncio.wait([self._prober])
        self._server.close()
        for writer in self._streams:
            writer.close()

    async def _probe(self) -> None:
        async with aiohttp.ClientSession(timeout=_PROBE_TIMEOUT) as session:
            while True:
                ready = [each.addresses[0] for each in self._replicas if await _is_ready(session, each.addresses[1])]
                if ready[:1] != [self._ready]:
                    self._ready = ready[0] if ready else ""
                    # As endpoints that went away: what still talks to them has to call again.
                    for writer in self._streams:
                        writer.close()
                await asyncio.sleep(_PROBE_S)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._streams.add(writer)
        try:
            if self._ready:
                parts = urlsplit(self._ready)
                with contextlib.suppress(OSError):
                    inner_reader, inner_writer = await asyncio.open_connection(parts.hostname, parts.port)
                    try:
                        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
                    finally:
                        inner_writer.close()
        finally:
            self._streams.discard(writer)
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _is_ready(session: aiohttp.ClientSession, page_url: str) -> bool:
    try:
        async with session.get(f"{page_url}/readyz") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
