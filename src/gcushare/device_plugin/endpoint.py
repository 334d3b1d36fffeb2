"""One resource's place with the kubelet: its socket, its registration, and both again whenever the kubelet restarts.

The kubelet removes every socket in its directory when it starts and forgets all plugins; it tells nobody. What shows it
is a new ``kubelet.sock`` or the loss of our own socket, which two ``stat`` calls twice a second find out: cheaper than
anything cleverer, and right on file systems without notifications.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from gcushare.device_plugin.device_table import DeviceTable
from gcushare.device_plugin.service import MAX_REQUEST_BYTES
from gcushare.runtime.logs import fields
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services

logger = logging.getLogger(__name__)

API_VERSION = "v1beta1"
KUBELET_SOCKET = "kubelet.sock"
POLL_S = 0.5
REGISTER_TIMEOUT_S = 5.0
STREAM_GRACE_S = 3.0
"""A registered plugin whose list nobody reads for this long was replaced or dropped, and registers again."""
_RETRY_S = (0.5, 1.0, 2.0, 5.0)

Identity = tuple[int, int] | None
"""What tells one socket file from its successor of the same name: inode and change time; None where there is none."""


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Where the kubelet listens and under which names a resource is registered there."""

    directory: Path
    resource: str
    socket_name: str

    @property
    def kubelet_socket(self) -> Path:
        return self.directory / KUBELET_SOCKET

    @property
    def socket(self) -> Path:
        return self.directory / self.socket_name


class Endpoint:
    """Serves one resource to the kubelet and keeps it registered. ``run`` is its owner task.

    ``problem`` says why the resource is not registered now, and is empty when the kubelet reads its list.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        handler: grpc.GenericRpcHandler,
        table: DeviceTable,
        on_registered: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._handler = handler
        self._table = table
        self._on_registered = on_registered
        self._server: grpc.aio.Server | None = None
        self.problem = "not registered with the kubelet yet"
        self.registrations = 0
        self._failures = 0

    async def run(self) -> None:
        """Register now and after every restart of the kubelet, until cancelled; then close the socket."""
        try:
            while True:
                kubelet = _identity(self._settings.kubelet_socket)
                if kubelet is None:
                    self.problem = f"the kubelet's socket {self._settings.kubelet_socket} is not there"
                    await asyncio.sleep(POLL_S)
                    continue
                await self._serve()
                if await self._register():
                    await self._until_lost(kubelet)
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop serving; calls under way get a second to end. The socket file goes, so that nobody dials a dead one."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(grace=1.0)
            self._settings.socket.unlink(missing_ok=True)

    async def _serve(self) -> None:
        await self.close()
        self._settings.socket.unlink(missing_ok=True)
        server = grpc.aio.server(
            options=[("grpc.max_receive_message_length", MAX_REQUEST_BYTES), ("grpc.max_send_message_length", -1)]
        )
        server.add_generic_rpc_handlers((self._handler,))
        server.add_insecure_port(f"unix:{self._settings.socket}")
        await server.start()
        self._server = server

    async def _register(self) -> bool:
        request = pb.RegisterRequest(
            version=API_VERSION,
            endpoint=self._settings.socket_name,
            resource_name=self._settings.resource,
            options=pb.DevicePluginOptions(get_preferred_allocation_available=True),
        )
        try:
            async with grpc.aio.insecure_channel(f"unix:{self._settings.kubelet_socket}") as channel:
                register = channel.unary_unary(services.REGISTER)
                await register(request.SerializeToString(), timeout=REGISTER_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            self.problem = f"the kubelet refused the registration of {self._settings.resource}: {error.details()}"
            delay_s = _RETRY_S[min(self._failures, len(_RETRY_S) - 1)]
            logger.warning("registration failed; will retry %s", fields(error=self.problem, delay_s=delay_s))
            await asyncio.sleep(delay_s)
            self._failures += 1
            return False
        self._failures = 0
        self.registrations += 1
        self.problem = ""
        logger.info(
            "registered with the kubelet %s",
            fields(resource=self._settings.resource, units=sum(self._table.units.values())),
        )
        self._on_registered()
        return True

    async def _until_lost(self, kubelet: Identity) -> None:
        """Return when the kubelet has restarted, our socket is gone, or nobody reads the list any more."""
        own = _identity(self._settings.socket)
        loop = asyncio.get_running_loop()
        last_stream = loop.time()
        while True:
            await asyncio.sleep(POLL_S)
            if self._table.streams:
                last_stream = loop.time()
            if _identity(self._settings.kubelet_socket) != kubelet:
                reason = "the kubelet has restarted"
            elif _identity(self._settings.socket) != own:
                reason = f"the plugin's socket {self._settings.socket} was removed"
            elif loop.time() - last_stream > STREAM_GRACE_S:
                reason = "the kubelet does not read the device list; it may have refused it (message too large?)"
            else:
                continue
            self.problem = f"registering again: {reason}"
            logger.warning("registering again %s", fields(resource=self._settings.resource, reason=reason))
            return


def _identity(path: Path) -> Identity:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
