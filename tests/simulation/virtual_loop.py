"""An event loop on which time passes only when no one has anything to do: hours run in moments, always the same way."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Instead of waiting it moves the loop's time on."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every task waits for another, and none for time")
        if not ready and timeout is not None and timeout > 0:
            self.passed_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """``asyncio.sleep`` and timeouts on virtual time."""

    def __init__(self) -> None:
        self._moments = _Selector()
        super().__init__(self._moments)

    def time(self) -> float:
        return 1000.0 + self._moments.passed_s


class LoopClock:
    """The loop's time for those who take a clock."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
