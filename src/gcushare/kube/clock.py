"""Time as an argument of loops, so that tests can use a virtual clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The clock of a loop."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start, which never decrease. Use it for all decisions."""

    def now(self) -> datetime:
        """The wall clock in UTC. Use it only for timestamps; never compare it with another machine's."""

    async def sleep(self, delay_s: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, delay_s: float) -> None:
        import asyncio  # here, because commands that only format times import this module too

        await asyncio.sleep(delay_s)


def rfc3339_micro(moment: datetime) -> str:
    """Format a time as Kubernetes' MicroTime, for leases and newer events."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rfc3339(moment: datetime) -> str:
    """Format a time as Kubernetes' Time, in whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
