"""Listen for TLS connections with a limit on handshakes: how many are in progress, and how long each may take.

asyncio's own server reports a TLS connection after its handshake. Before that, nothing counts the connection, but it
has buffers already, so silent clients could open any number of them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from gcushare.core.log_fields import fields
from gcushare.runtime.http.answers import Cause, RejectedCounts
from gcushare.runtime.settings.serving import ServeSettings

logger = logging.getLogger(__name__)

# How long a TLS handshake may take, unless requests may take less; a working client takes milliseconds.
_HANDSHAKE_S = 3.0
# How long the closing of TLS may take.
_SHUTDOWN_S = 1.0
# How long to accept nothing after a failure: if all file descriptors are in use, they stay so for a while.
_ACCEPT_RETRY_S = 0.5


@dataclass(slots=True, eq=False)
class TlsListener:
    """Accepts on ``sock``, and closes it at the end. ``make`` creates the protocol of a connection after its handshake.

    If ``max_connections`` handshakes are in progress, the oldest one is cancelled, so quick clients still get in.
    """

    sock: socket.socket
    context: ssl.SSLContext
    settings: ServeSettings
    rejected: RejectedCounts
    make: Callable[[], asyncio.Protocol]
    _handshakes: dict[asyncio.Task[None], None] = field(default_factory=dict)
    _accepting: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.sock.setblocking(False)
        # Accepted connections inherit it: the last packet of an answer must not wait for an acknowledgement.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepting = asyncio.create_task(self._accept(), name="accept TLS connections")

    async def close(self) -> None:
        """Stop accepting, and cancel the handshakes in progress."""
        tasks = (self._accepting, *self._handshakes)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self.sock.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self.sock)
            except ConnectionAbortedError:
                continue  # the client left while it was queued
            except OSError as error:
                logger.warning("connection not accepted %s", fields(reason=error, retry_in_s=_ACCEPT_RETRY_S))
                await asyncio.sleep(_ACCEPT_RETRY_S)
                continue
            if len(self._handshakes) >= self.settings.max_connections:
                longest = next(iter(self._handshakes))
                del self._handshakes[longest]
                longest.cancel()
                self.rejected[Cause.HANDSHAKE] += 1
                logger.debug("handshake cut off to make room %s", fields(limit=self.settings.max_connections))
            task = asyncio.create_task(self._shake_hands(client), name="TLS handshake")
            self._handshakes[task] = None
            task.add_done_callback(partial(self._end, client))
            # sock_accept does not yield while clients are queued, but the loop's other tasks must run.
            await asyncio.sleep(0)

    def _end(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():
            # If the task had not started, nothing else closes it.
            client.close()

    async def _shake_hands(self, client: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self.make,
                client,
                ssl=self.context,
                ssl_handshake_timeout=min(_HANDSHAKE_S, self.settings.request_timeout),
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except OSError as error:
            logger.debug("handshake failed %s", fields(reason=error))
