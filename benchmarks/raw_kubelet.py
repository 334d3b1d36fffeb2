"""A kubelet made of raw bytes, so that the plugin is measured and no double: registration, list, podresources."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import grpc.aio

from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.protos import podresources_pb2, services


@dataclass
class RawKubelet:
    """Listens in two folders below ``root``, like a kubelet; ``holdings`` is its podresources socket's answer."""

    root: Path
    message: bytes = b""
    holdings: bytes = b""
    received_at: float = 0.0
    registered_at: float = 0.0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    registered: asyncio.Event = field(default_factory=asyncio.Event)
    _server: grpc.aio.Server | None = None

    @property
    def directory(self) -> Path:
        """Where plugins register and listen."""
        return self.root / "device-plugins"

    async def serve(self, stack: AsyncExitStack) -> None:
        """Listen until the stack ends."""
        socket = self.root / "pod-resources" / "kubelet.sock"
        for folder in (self.directory, socket.parent):
            folder.mkdir(exist_ok=True)
        await self.start()
        stack.push_async_callback(self._stop)
        server = _server_of(services.POD_RESOURCES_SERVICE, services.POD_RESOURCES_LIST, self._list, socket)
        await server.start()
        stack.push_async_callback(server.stop, 0)

    async def start(self) -> None:
        """Listen for registrations, as after a start of the kubelet."""
        self.registered.clear()
        socket = self.directory / "kubelet.sock"
        self._server = _server_of(services.REGISTRATION_SERVICE, services.REGISTER, self._register, socket)
        await self._server.start()

    async def restart(self) -> float:
        """Restart and drop every plugin's socket; returns the seconds until a plugin has registered."""
        await self._stop()
        for path in self.directory.glob("*.sock"):
            path.unlink()
        await self.start()
        started = time.perf_counter()
        async with asyncio.timeout(30):
            await self.registered.wait()
        return self.registered_at - started

    async def follow(self, channel: grpc.aio.Channel) -> None:
        """Read a plugin's list until cancelled."""
        async for message in channel.unary_stream(services.LIST_AND_WATCH)(b""):
            self.message, self.received_at = message, time.perf_counter()
            self.changed.set()

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)

    async def _register(self, _request: bytes, _context: object) -> bytes:
        self.registered_at = time.perf_counter()
        self.registered.set()
        return b""

    async def _list(self, _request: bytes, _context: object) -> bytes:
        return self.holdings


def _server_of(service: str, method: str, answer: object, socket: Path) -> grpc.aio.Server:
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    handlers = {services.short_name(method): grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_insecure_port(f"unix:{socket}")
    return server


def holdings_of(resource: str, cards: int, units: int, pods_per_card: int) -> bytes:
    """The podresources answer of a node whose every unit is held, one message per id as the kubelet writes it."""
    answer = podresources_pb2.ListPodResourcesResponse()
    share = units // pods_per_card
    for card in range(cards):
        ids = device_ids_of_card(card, units)
        for number in range(pods_per_card):
            pod = answer.pod_resources.add(name=f"held-{card}-{number}", namespace="default")
            container = pod.containers.add(name="app")
            for device_id in ids[number * share : (number + 1) * share]:
                container.devices.add(resource_name=resource, device_ids=[device_id])
    return answer.SerializeToString()
