"""What a Service is to the scheduler: one address, behind it a pod that its EndpointSlices name as ready."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import urlsplit

from gcushare.core.errors import GcushareError
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import Resource, Selector

SLICES: Resource[dict[str, Any]] = Resource("apis/discovery.k8s.io/v1", "endpointslices", dict)
_LOOK_S = 0.1


async def ready_addresses(client: KubeClient, service: str) -> list[str]:
    """The addresses to which kube-proxy, or what takes its place, sends connections."""
    selector = Selector(namespace="kube-system", labels=f"kubernetes.io/service-name={service}")
    slices = await client.list_all(SLICES, selector)
    endpoints = [each for found in slices for each in found.get("endpoints") or []]
    return sorted(each["addresses"][0] for each in endpoints if each.get("conditions", {}).get("ready"))


class Service:
    """Forwards each connection to one of the ready addresses; as with kube-proxy those that are open stay as they are.

    ``url_of`` is where the pod with an address really listens; empty if it does not run.
    """

    def __init__(self, client: KubeClient, name: str, url_of: Callable[[str], str]) -> None:
        self._client = client
        self._name = name
        self._url_of = url_of
        self._ready: list[str] = []
        self._streams: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server
        self._looking: asyncio.Task[None]

    @property
    def url(self) -> str:
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self._looking = asyncio.create_task(self._look(), name=f"endpoints of {self._name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._looking.cancel()
        await asyncio.wait([self._looking])
        self._server.close()
        for writer in self._streams:
            writer.close()

    async def _look(self) -> None:
        while True:
            with contextlib.suppress(GcushareError):
                self._ready = await ready_addresses(self._client, self._name)
            await asyncio.sleep(_LOOK_S)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._streams.add(writer)
        try:
            url = self._url_of(random.choice(self._ready)) if self._ready else ""
            if url:
                parts = urlsplit(url)
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
