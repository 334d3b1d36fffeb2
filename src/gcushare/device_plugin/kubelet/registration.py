"""Serves and registers one resource with the kubelet, and does so again after every restart of the kubelet.

When the kubelet starts, it removes every socket in its directory and forgets all plugins, without notice. A new
``kubelet.sock`` or the loss of our own socket shows it. Two ``stat`` calls twice a second find either: that is cheap,
and works on file systems without notifications.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import grpc

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import RetryableError
from gcushare.core.log_fields import fields
from gcushare.device_plugin.kubelet.device_list import DeviceList
from gcushare.device_plugin.kubelet.sockets import Identity, KubeletSockets, ServedSocket
from gcushare.runtime.health import Heartbeat

logger = logging.getLogger(__name__)

KUBELET_SOCKET = "kubelet.sock"
POLL_S = 0.5
CLOSE_GRACE_S = 1.0
"""For open calls when the socket closes; streams are ended by the plugin."""
STREAM_GRACE_S = 3.0
"""A registered plugin whose list is not read for this long was replaced or dropped, and registers again."""
RETRY = BackoffPolicy(first_s=0.5, cap_s=5.0)
"""After a registration that failed."""


@dataclass(eq=False)
class Endpoint:
    """Serves one resource to the kubelet and keeps it registered. ``run`` is its owner task.

    The kubelet listens in ``directory``, where the plugin's socket is created too. ``problem`` says why the resource is
    not registered now, and is empty while the kubelet reads its list. ``pulse`` beats at every turn of ``run``, at
    least every few seconds, and shows that it makes progress. ``find_conflict`` says why another plugin seems to serve
    the resource, which is then left to that plugin; "" if none does.
    """

    resource: str
    directory: Path
    socket_name: str
    handler: grpc.GenericRpcHandler
    table: DeviceList
    _: KW_ONLY
    find_conflict: Callable[[], Awaitable[str]] | None
    on_registered: Callable[[], None]
    pre_start: bool = False
    pulse: Heartbeat
    sockets: KubeletSockets
    rng: random.Random

    def __post_init__(self) -> None:
        self._backoff = Backoff(RETRY, self.rng)
        self._socket = self.directory / self.socket_name
        self._kubelet_socket = self.directory / KUBELET_SOCKET
        self._server: ServedSocket | None = None
        self.problem = "not registered with the kubelet yet"
        self.registrations = 0

    async def run(self) -> None:
        """Register now and after every restart of the kubelet, until cancelled; then close the socket."""
        try:
            while True:
                self.pulse.beat()
                kubelet = self.sockets.identity(self._kubelet_socket)
                if kubelet is None:
                    self.problem = f"the kubelet's socket {self._kubelet_socket} is not there"
                    await asyncio.sleep(POLL_S)
                    continue
                try:
                    await self._serve()
                    await self._register()
                except RetryableError as error:
                    await self._pause(kubelet, error)
                else:
                    await self._until_lost(kubelet)
        finally:
            await self.close()

    @property
    def is_read(self) -> bool:
        """Whether the kubelet reads the list now: a kubelet that refuses it takes the registration all the same."""
        return not self.problem and self.table.streams > 0

    async def probe(self) -> str | None:
        """Call our own socket as the kubelet does; None if it answers, else why not."""
        if self._server is None:
            return self.problem or "the plugin's socket is not served"
        return await self.sockets.probe(self._socket)

    async def close(self) -> None:
        """Stop serving; open calls may end. The socket file is removed, so that the kubelet connects to no dead one."""
        if self._server is None:
            return
        self.table.hang_up()
        # Cleared only now: if the shutdown cancels the stop, the next call repeats it.
        await self._server.stop(grace=CLOSE_GRACE_S)
        self._server = None

    async def _serve(self) -> None:
        """Listen on the plugin's socket.

        Raises:
            RetryableError: another program serves it or the resource, it cannot be created, or others could replace it.
        """
        await self.close()
        if self.find_conflict is not None and (conflicting := await self.find_conflict()):
            raise RetryableError(conflicting)
        socket = self._socket
        if self.sockets.identity(socket) is not None and await self.sockets.probe(socket) is None:
            raise RetryableError(
                f"another plugin serves {socket}: two would take the resource from each other again and again; "
                "waiting until it ends"
            )
        self._server = await self.sockets.serve(socket, self.handler)

    async def _register(self) -> None:
        await self.sockets.register(self._kubelet_socket, self.resource, self._socket.name, pre_start=self.pre_start)
        self._backoff.reset()
        self.registrations += 1
        self.problem = ""
        logger.info("registered with the kubelet %s", fields(resource=self.resource, devices=self.table.size))
        self.on_registered()

    async def _pause(self, kubelet: Identity, error: RetryableError) -> None:
        """Wait longer after each failure, but not if the kubelet has started again meanwhile."""
        problem, delay_s = str(error), self._backoff.next_delay_s(error)
        if problem != self.problem:
            facts = fields(resource=self.resource, reason=problem, delay_s=round(delay_s, 1))
            logger.warning("not registered; will retry %s", facts)
        self.problem = problem
        loop = asyncio.get_running_loop()
        until = loop.time() + delay_s
        while loop.time() < until and self.sockets.identity(self._kubelet_socket) == kubelet:
            self.pulse.beat()
            await asyncio.sleep(POLL_S)

    async def _until_lost(self, kubelet: Identity) -> None:
        """Return when the kubelet has restarted, our socket is gone, or the list is not read any more."""
        loop = asyncio.get_running_loop()
        last_stream = loop.time()
        while True:
            await asyncio.sleep(POLL_S)
            self.pulse.beat()
            if self.table.streams:
                last_stream = loop.time()
            if self.sockets.identity(self._kubelet_socket) != kubelet:
                reason = "the kubelet has restarted"
            elif self._server is None or not self._server.is_there:
                reason = f"the plugin's socket {self._socket} was removed"
            elif loop.time() - last_stream > STREAM_GRACE_S:
                reason = "the kubelet does not read the device list; it may have refused it (message too large?)"
            else:
                continue
            self.problem = f"registering again: {reason}"
            logger.warning("registering again %s", fields(resource=self.resource, reason=reason))
            return
