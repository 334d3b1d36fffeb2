"""Reports the health of every device to the kubelet, which shows it in the status of the pods that hold one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from gcushare.core.cards import Health, Inventory
from gcushare.core.claim_names import device_name
from gcushare.wire.protos import dra_health_pb2 as pb

REPEAT_S = 10.0
"""The kubelet takes a device's health for unknown 30 s after the last report. Source: ``DefaultHealthTimeout``."""
MAX_MESSAGE_CHARS = 1024


class HealthStream:
    """The devices of one node. ``wall_clock_s`` is the time that reports carry, in seconds since the epoch."""

    def __init__(self, pool: str, wall_clock_s: Callable[[], float], *, repeat_s: float = REPEAT_S) -> None:
        self._pool = pool
        self._wall_clock_s = wall_clock_s
        self._repeat_s = repeat_s
        self._inventory: Inventory | None = None
        self._changed = asyncio.Event()
        self._is_closed = False
        self.streams = 0
        """Kubelets that follow now: one, or none."""

    def offer(self, inventory: Inventory) -> None:
        """Report the health of these cards from now on."""
        self._inventory = inventory
        self._wake()

    def hang_up(self) -> None:
        """End the streams; a kubelet asks again."""
        self._is_closed = True
        self._wake()

    async def follow(self) -> AsyncIterator[bytes]:
        """Yield all devices now, at each change, and often enough that they do not become unknown."""
        self._is_closed = False
        self.streams += 1
        try:
            while not self._is_closed:
                changed = self._changed
                if self._inventory is not None:
                    yield self._message(self._inventory).SerializeToString()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._repeat_s):
                        await changed.wait()
        finally:
            self.streams -= 1

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _message(self, inventory: Inventory) -> pb.NodeWatchResourcesResponse:
        message = pb.NodeWatchResourcesResponse()
        now_s = int(self._wall_clock_s())
        for card in inventory.cards:
            is_sick = card.health is Health.UNHEALTHY
            device = message.devices.add(
                health=pb.UNHEALTHY if is_sick else pb.HEALTHY,
                last_updated_time=now_s,
                message=card.reason[:MAX_MESSAGE_CHARS] if is_sick else "",
            )
            device.device.pool_name = self._pool
            device.device.device_name = device_name(card.index)
        return message
