"""The sockets between the plugin and the kubelet: serve one, register it, see that one was replaced.

What ``registration`` uses, which decides when to do what; a simulation has another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import grpc
import grpc.aio

from gcushare.core.errors import RetryableError
from gcushare.device_plugin.kubelet.server import MAX_REQUEST_BYTES
from gcushare.node.kubelet_sockets import CHANNEL_OPTIONS, PROBE_TIMEOUT_S, Identity, find_identity
from gcushare.runtime.safe_directory import UnsafePathError, open_directory
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services

REGISTER_TIMEOUT_S = 5.0


class ServedSocket(Protocol):
    """A socket that is served."""

    async def stop(self, grace: float | None) -> None:
        """Stop serving; calls under way get ``grace`` seconds to end, None for none."""
        ...


class KubeletSockets(Protocol):
    """Both ends of the conversation with the kubelet, by the paths of their sockets."""

    def identity(self, path: Path) -> Identity:
        """The identity of the socket at a path; None if there is none."""
        ...

    async def probe(self, socket: Path) -> str | None:
        """Call a plugin's socket as the kubelet does; None if it answers, else why not."""
        ...

    async def register(self, kubelet_socket: Path, resource: str, socket_name: str, *, pre_start: bool) -> None:
        """Register a resource with the kubelet, which dials the plugin's socket back before it answers.

        ``pre_start``: have it call PreStartContainer before each container is created.

        Raises:
            RetryableError: it refused, or does not answer.
        """
        ...

    async def serve(self, socket: Path, handler: grpc.GenericRpcHandler) -> ServedSocket:
        """Serve a socket in place of whatever file stands there.

        Raises:
            RetryableError: it cannot be created, or others could replace it.
        """
        ...

    def remove(self, socket: Path) -> None:
        """Remove a socket's file; repeatable."""
        ...


class UnixSockets:
    """The machine's own."""

    def identity(self, path: Path) -> Identity:
        return find_identity(path)

    async def probe(self, socket: Path) -> str | None:
        """Ask for its options."""
        try:
            async with grpc.aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS) as channel:
                await channel.unary_unary(services.GET_DEVICE_PLUGIN_OPTIONS)(b"", timeout=PROBE_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            return f"{socket} does not answer: {error.code().name} {error.details()}"
        return None

    async def register(self, kubelet_socket: Path, resource: str, socket_name: str, *, pre_start: bool) -> None:
        """Call the kubelet's Register."""
        options = pb.DevicePluginOptions(get_preferred_allocation_available=True, pre_start_required=pre_start)
        request = pb.RegisterRequest(
            version=services.DEVICE_PLUGIN_VERSION,
            endpoint=socket_name,
            resource_name=resource,
            options=options,
        )
        try:
            async with grpc.aio.insecure_channel(f"unix:{kubelet_socket}", options=CHANNEL_OPTIONS) as channel:
                register = channel.unary_unary(services.REGISTER)
                await register(request.SerializeToString(), timeout=REGISTER_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise RetryableError(f"the kubelet refused the registration of {resource}: {error.details()}") from error

    async def serve(self, socket: Path, handler: grpc.GenericRpcHandler) -> ServedSocket:
        """Listen with gRPC."""
        try:
            # A user who can write in this directory could answer in our place; the kubelet's own allows only root.
            with open_directory(socket.parent):
                pass
        except (OSError, UnsafePathError) as error:
            raise RetryableError(f"the plugin's socket is not served: {error}") from error
        server = grpc.aio.server(
            options=[("grpc.max_receive_message_length", MAX_REQUEST_BYTES), ("grpc.max_send_message_length", -1)]
        )
        server.add_generic_rpc_handlers((handler,))
        try:
            self.remove(socket)
            server.add_insecure_port(f"unix:{socket}")
            await server.start()
        except (OSError, RuntimeError) as error:  # RuntimeError is gRPC's word for a socket that cannot be bound
            await server.stop(grace=None)
            raise RetryableError(f"the socket {socket} cannot be served: {error}") from error
        served: ServedSocket = server
        return served

    def remove(self, socket: Path) -> None:
        """Unlink it."""
        socket.unlink(missing_ok=True)
