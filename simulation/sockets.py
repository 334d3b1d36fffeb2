"""The plugin's sockets towards a simulated kubelet, without files; calls through the plugin's own gRPC handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, Protocol

import grpc

from gcushare.core.errors import RetryableError
from gcushare.device_plugin.kubelet.sockets import Identity, ServedSocket
from simulation.process import CallsUnderWay, Process

_SERVICE = "/v1beta1.DevicePlugin/"


class CallFailed(Exception):
    """A plugin answered a call with a status that is not OK."""


class _Context:
    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise CallFailed(f"rpc error: code = {code.name} desc = {details}")


@dataclass(eq=False)
class PluginSocket:
    """One served socket; its calls run in the plugin's process."""

    process: Process
    handler: grpc.GenericRpcHandler
    identity: tuple[int, int]
    place: str
    files: dict[str, PluginSocket]
    is_served: bool = True
    calls: CallsUnderWay = field(default_factory=CallsUnderWay)

    @property
    def answers(self) -> bool:
        """Whether a call reaches the plugin."""
        return self.is_served and self.process.is_alive

    @property
    def is_there(self) -> bool:
        """Whether its file stands there."""
        return self.files.get(self.place) is self

    def call(self, method: str, request: bytes) -> Awaitable[bytes]:
        """A unary call, to be awaited in the plugin's process."""
        behaviour: Callable[[bytes, _Context], Awaitable[bytes]] = self._method(method).unary_unary
        return behaviour(request, _Context())

    def stream(self, method: str) -> AsyncIterator[bytes]:
        """A call that answers again and again, likewise."""
        behaviour: Callable[[bytes, _Context], AsyncIterator[bytes]] = self._method(method).unary_stream
        return behaviour(b"", _Context())

    def _method(self, method: str) -> Any:
        return self.handler.service(SimpleNamespace(method=_SERVICE + method))

    async def stop(self, grace: float) -> None:
        """Stop serving: calls under way have ``grace`` seconds to end, then they are cancelled, as gRPC does it."""
        self.is_served = False
        await self.calls.end(grace)
        if self.is_there and self.process.is_alive:
            del self.files[self.place]


class Registrar(Protocol):
    """The kubelet's side of a registration."""

    def socket_identity(self) -> Identity:
        """Which ``kubelet.sock`` stands there; None while it does not."""
        ...

    async def register(self, resource: str, socket_name: str, process: Process) -> str:
        """Take a registration; returns why not, or nothing."""
        ...


@dataclass
class SocketDirectory:
    """A node's folder of plugins' sockets."""

    files: dict[str, PluginSocket] = field(default_factory=dict)
    made: int = 0

    def clear(self) -> None:
        """The kubelet removes every socket when it starts."""
        self.files.clear()


class SimulatedSockets:
    """One plugin process's ``KubeletSockets``."""

    def __init__(self, directory: SocketDirectory, kubelet: Registrar, process: Process) -> None:
        self._directory = directory
        self._kubelet = kubelet
        self._process = process

    def identity(self, path: Path) -> Identity:
        """Which socket stands at a path."""
        if path.name == "kubelet.sock":
            return self._kubelet.socket_identity()
        found = self._directory.files.get(path.name)
        return None if found is None else found.identity

    async def probe(self, socket: Path) -> str | None:
        """Whether a plugin answers there."""
        found = self._directory.files.get(socket.name)
        return None if found is not None and found.answers else "nothing answers"

    async def register(self, kubelet_socket: Path, resource: str, socket_name: str, *, pre_start: bool) -> None:
        """Register with the kubelet."""
        self._process.require_alive()
        problem = await self._kubelet.register(resource, socket_name, self._process)
        if problem:
            raise RetryableError(f"the kubelet refused the registration of {resource}: {problem}")

    async def serve(self, socket: Path, handler: grpc.GenericRpcHandler) -> ServedSocket:
        """Serve a socket."""
        self._process.require_alive()
        self._directory.made += 1
        files = self._directory.files
        served = PluginSocket(self._process, handler, (self._directory.made, 0), socket.name, files)
        files[socket.name] = served
        return served
