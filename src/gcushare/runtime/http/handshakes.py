"""Listen for TLS connections with a bound on their handshakes: how many are under way, and how long one may take.

An event loop's own server tells of a TLS connection once TLS is agreed on. Until then no one counts it, and each holds
the buffers of a connection: clients that say nothing could have as many as they like.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gcushare.runtime.http.rejected import Cause, RejectedCounts
from gcushare.runtime.logs import fields

log = logging.getLogger(__name__)

# How long a TLS connection may take to say goodbye.
_GOODBYE_S = 1.0
# How long to accept nothing after a failure: descriptors that are used up do not come back at once.
_ACCEPT_RETRY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeLimits:
    """How many handshakes may be under way at once, and for how many seconds each."""

    count: int
    each_s: float


class TlsListener:
    """Accepts on ``sock``, which it closes at the end; ``make`` makes what serves a connection once TLS is agreed on.

    Where too many handshakes are under way the longest one makes room: those that are quick get in.
    """

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        limits: HandshakeLimits,
        rejected: RejectedCounts,
        make: Callable[[], asyncio.Protocol],
    ) -> None:
        self._sock = sock
        self._context = context
        self._limits = limits
        self._rejected = rejected
        self._make = make
        self._handshakes: dict[asyncio.Task[None], None] = {}
        sock.setblocking(False)
        # Accepted connections inherit it: an answer's last packet is not to wait for an acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepting = asyncio.create_task(self._accept(), name="accept TLS connections")

    async def close(self) -> None:
        """Accept no more, and cut off the handshakes under way."""
        tasks = (self._accepting, *self._handshakes)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._sock.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._sock)
            except ConnectionAbortedError:
                continue  # it was gone before its turn came
            except OSError as error:
                log.warning("connection not accepted %s", fields(reason=error, retry_in_s=_ACCEPT_RETRY_S))
                await asyncio.sleep(_ACCEPT_RETRY_S)
                continue
            if len(self._handshakes) >= self._limits.count:
                longest = next(iter(self._handshakes))
                del self._handshakes[longest]
                longest.cancel()
                self._rejected.note(Cause.HANDSHAKE)
                log.debug("handshake cut off to make room %s", fields(limit=self._limits.count))
            task = asyncio.create_task(self._agree(client), name="TLS handshake")
            self._handshakes[task] = None
            task.add_done_callback(partial(self._end, client))
            # Accepting does not wait while clients wait: others of this loop must come in between.
            await asyncio.sleep(0)

    def _end(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():
            # Where it had not even begun no one else does.
            client.close()

    async def _agree(self, client: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                client,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.each_s,
                ssl_shutdown_timeout=_GOODBYE_S,
            )
        except OSError as error:
            log.debug("handshake failed %s", fields(reason=error))
