"""Virtual time for the loops of ``gcushare.kube``: it moves only when a test says so, and then in the right order."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

_SETTLING_TURNS = 20
"""Turns of the event loop given to tasks between two moments; a request of the fakes takes one or two."""


@dataclass
class VirtualTime:
    """The one time line; ``clock`` gives a machine its view of it."""

    now_s: float = 1000.0
    sleeps: int = 0
    """How often anything began to wait for time."""
    _sleepers: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def clock(self, *, wall_offset_s: float = 0.0) -> VirtualClock:
        return VirtualClock(self, wall_offset_s)

    async def sleep(self, delay_s: float) -> None:
        self.sleeps += 1
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now_s + delay_s, next(self._order), woken))
        await woken

    async def settle(self) -> None:
        """Let every task run until it waits for time, or for something that only the test does."""
        for _ in range(_SETTLING_TURNS):
            await asyncio.sleep(0)

    async def pass_(self, seconds: float) -> None:
        """Let time pass, waking sleepers in order."""
        end_s = self.now_s + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end_s:
            due_s, _, woken = heapq.heappop(self._sleepers)
            self.now_s = max(self.now_s, due_s)
            if not woken.done():
                woken.set_result(None)
            await self.settle()
        self.now_s = max(self.now_s, end_s)

    def stand_still(self, seconds: float) -> None:
        """Let time pass while no one runs: the whole process was paused, or one call did not return."""
        self.now_s += seconds


@dataclass(frozen=True)
class VirtualClock:
    """One machine's clocks: the common time, and a wall clock that may be wrong."""

    time: VirtualTime
    wall_offset_s: float

    def monotonic(self) -> float:
        return self.time.now_s

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time.now_s + self.wall_offset_s)

    async def sleep(self, delay_s: float) -> None:
        await self.time.sleep(delay_s)
