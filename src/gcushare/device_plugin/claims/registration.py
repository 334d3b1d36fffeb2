"""The driver's two sockets: its own, which the kubelet calls, and the one by which the kubelet finds it.

The kubelet watches ``plugins_registry``: it asks every socket there for its name, also those that were there before it
started. So a restart of the kubelet needs no action here. A removed socket is found by two ``stat`` calls twice a
second, and served again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import grpc
import grpc.aio

from gcushare.core.errors import RemoteContractError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.device_plugin.kubelet.registration import CLOSE_GRACE_S, POLL_S
from gcushare.device_plugin.kubelet.sockets import (
    CHANNEL_OPTIONS,
    PROBE_TIMEOUT_S,
    UnixSocket,
    find_identity,
    serve_socket,
)
from gcushare.runtime.health import Heartbeat
from gcushare.wire.protos import plugin_registration_pb2 as pb
from gcushare.wire.protos import services
from gcushare.wire.protos.services import read_message

logger = logging.getLogger(__name__)

RETRY_S = 5.0
UNCONFIRMED = "the kubelet has not registered the driver yet"


@dataclass(eq=False)
class Registration:
    """Keeps a driver's sockets served; ``run`` is its owner task.

    ``problem`` says why the kubelet does not know the driver, and is "" once it has registered it. ``pulse`` beats at
    every turn of the task.
    """

    driver: str
    _: KW_ONLY
    socket: Path
    registry_socket: Path
    handler: grpc.GenericRpcHandler
    pulse: Heartbeat

    def __post_init__(self) -> None:
        self._served: dict[Path, UnixSocket] = {}
        self.problem = UNCONFIRMED
        self.registrations = 0

    async def run(self) -> None:
        """Serve now, and again whenever a socket is lost, until cancelled; then close both."""
        try:
            while True:
                self.pulse.beat()
                try:
                    await self._serve()
                except RetryableError as error:
                    await self._pause(str(error))
                else:
                    await self._until_lost()
        finally:
            await self.close()

    async def probe(self) -> str | None:
        """Call our own registration socket as the kubelet does; None if it answers as ours, else why not."""
        name = await _ask_name(self.registry_socket)
        return None if name == self.driver else f"{self.registry_socket} does not answer as {self.driver}"

    async def close(self) -> None:
        """Stop serving, first the registration: the kubelet then knows that the driver has gone."""
        for path in (self.registry_socket, self.socket):
            if path in self._served:
                await self._served.pop(path).stop(CLOSE_GRACE_S)

    async def _get_info(self, _request: bytes, _context: object) -> bytes:
        return pb.PluginInfo(
            type=services.DRA_PLUGIN_TYPE,
            name=self.driver,
            endpoint=str(self.socket),
            supported_versions=[services.DRA_VERSION],
        ).SerializeToString()

    async def _notify(self, request: bytes, _context: object) -> bytes:
        status = read_message(pb.RegistrationStatus, request)
        if status.plugin_registered:
            self.problem = ""
            self.registrations += 1
            logger.info("registered with the kubelet %s", fields(driver=self.driver))
        else:
            self.problem = f"the kubelet refused the driver: {status.error or 'without a reason'}"
            logger.error("not registered %s", fields(driver=self.driver, reason=status.error))
        return pb.RegistrationStatusResponse().SerializeToString()

    async def _serve(self) -> None:
        """Serve both sockets, the driver's own first, because the kubelet calls it as soon as it finds the other.

        Raises:
            RetryableError: another driver of this name answers, or a socket cannot be created.
        """
        await self.close()
        if (name := await _ask_name(self.registry_socket)) is not None:
            raise RetryableError(
                f"another driver, {name}, serves {self.registry_socket}: two would take each other's claims; stop "
                "that one. Waiting until it ends"
            )
        self.problem = UNCONFIRMED
        self._served[self.socket] = await serve_socket(self.socket, (self.handler,), make=True)
        unary = grpc.unary_unary_rpc_method_handler
        calls = {
            services.short_name(services.GET_INFO): unary(self._get_info),
            services.short_name(services.NOTIFY_REGISTRATION_STATUS): unary(self._notify),
        }
        handler = grpc.method_handlers_generic_handler(services.PLUGIN_REGISTRATION_SERVICE, calls)
        self._served[self.registry_socket] = await serve_socket(self.registry_socket, (handler,), make=True)

    async def _pause(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("not served; will retry %s", fields(driver=self.driver, reason=problem, delay_s=RETRY_S))
        self.problem = problem
        loop = asyncio.get_running_loop()
        until = loop.time() + RETRY_S
        while loop.time() < until:
            self.pulse.beat()
            await asyncio.sleep(POLL_S)

    async def _until_lost(self) -> None:
        while all(socket.is_there for socket in self._served.values()):
            await asyncio.sleep(POLL_S)
            self.pulse.beat()
        logger.warning("a socket was removed; serving again %s", fields(driver=self.driver))


async def _ask_name(registry_socket: Path) -> str | None:
    """The name of the driver that answers at a registration socket; None if none does."""
    if find_identity(registry_socket) is None:
        return None
    try:
        async with grpc.aio.insecure_channel(f"unix:{registry_socket}", options=CHANNEL_OPTIONS) as channel:
            answer = await channel.unary_unary(services.GET_INFO)(b"", timeout=PROBE_TIMEOUT_S)
    except (grpc.aio.AioRpcError, RemoteContractError):
        return None
    return str(read_message(pb.PluginInfo, answer).name)
