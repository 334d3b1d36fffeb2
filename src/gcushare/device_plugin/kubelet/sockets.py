"""The sockets between the plugin and the kubelet: serve one, register it, see that one was replaced.

What ``registration`` uses, which decides when to do what; a simulation has another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import grpc
import grpc.aio

from gcushare.core.errors import RetryableError
from gcushare.device_plugin.kubelet.server import MAX_REQUEST_BYTES
from gcushare.runtime.safe_directory import UnsafePathError, open_directory
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services

REGISTER_TIMEOUT_S = 5.0
PROBE_TIMEOUT_S = 0.5
"""Below the time that a health check may take; a socket that is not served answers at once."""
CHANNEL_OPTIONS = (
    # A new server may listen on the same path: no connection, and no back-off, of an earlier call is used again.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)

Identity: TypeAlias = tuple[int, int] | None
"""Distinguishes a socket file from a later one of the same name: inode and change time; None if there is none."""


def find_identity(path: Path) -> Identity:
    """``stat`` a socket: right on file systems without notifications too."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


class ServedSocket(Protocol):
    """A socket that is served."""

    @property
    def is_there(self) -> bool:
        """Whether its file stands there still, and no other in its place."""
        ...

    async def stop(self, grace: float) -> None:
        """Stop serving, and remove the file if it can be; calls under way get ``grace`` seconds to end. Repeatable."""
        ...


class UnixSocket:
    """A socket that gRPC serves."""

    def __init__(self, path: Path, server: grpc.aio.Server) -> None:
        self._path = path
        self._server = server
        self._identity = find_identity(path)

    @property
    def is_there(self) -> bool:
        return find_identity(self._path) == self._identity

    async def stop(self, grace: float) -> None:
        await self._server.stop(grace)
        # gRPC removes the file by its name. A file that another program put there meanwhile is not ours to remove.
        if self.is_there:
            with contextlib.suppress(OSError):  # On a read-only file system it stays; to serve it again says so.
                self._path.unlink()


async def serve_socket(path: Path, handlers: Sequence[grpc.GenericRpcHandler], *, make: bool = False) -> UnixSocket:
    """Serve a socket in place of whatever file stands there; ``make`` creates missing directories.

    Raises:
        RetryableError: it cannot be created, or others could replace it.
    """
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", MAX_REQUEST_BYTES), ("grpc.max_send_message_length", -1)]
    )
    server.add_generic_rpc_handlers(tuple(handlers))
    try:
        # A user who can write in this directory could answer in our place; the kubelet's own allows only root.
        with open_directory(path.parent, make=make) as directory:
            directory.remove(path.name)
            server.add_insecure_port(f"unix:{path}")
            await server.start()
    except (OSError, RuntimeError, UnsafePathError) as error:  # RuntimeError is gRPC's for a socket it cannot bind
        await server.stop(grace=None)
        raise RetryableError(f"the socket {path} cannot be served: {error}") from error
    return UnixSocket(path, server)


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
        return await serve_socket(socket, (handler,))
