"""Time for the loops of this package, as an argument, so that tests run on a virtual one."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a loop needs of time."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never go back; the only time decisions are made on."""
        ...

    def now(self) -> datetime:
        """The wall clock in UTC; only written into records for people, never compared with another machine's."""
        ...

    async def sleep(self, delay_s: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        """Read CLOCK_MONOTONIC."""
        return time.monotonic()

    def now(self) -> datetime:
        """Read the wall clock."""
        return datetime.now(UTC)

    async def sleep(self, delay_s: float) -> None:
        """Wait on the running event loop."""
        import asyncio  # here: commands that only write times import this module too

        await asyncio.sleep(delay_s)


def rfc3339_micro(moment: datetime) -> str:
    """Write a time as Kubernetes' MicroTime: leases and newer events."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rfc3339(moment: datetime) -> str:
    """Write a time as Kubernetes' Time: whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
