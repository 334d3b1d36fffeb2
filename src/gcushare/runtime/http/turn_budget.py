"""Limit how much of one turn of the event loop is spent on answers.

In one turn, requests may become complete on a hundred connections. If all were answered at once, nothing else would run
meanwhile, not even the renewal of the Lease.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

TURN_S = 0.005
"""Enough for a few dozen ordinary requests, or for one of the largest size."""

LARGE_BYTES = 256 << 10
"""Larger bodies are large work. A request with a pod and the names of 5,000 nodes is smaller."""

_S_PER_BYTE = 6e-9
"""The assumed cost of a body whose handler is not timed: a dense body of 1.5 MB took 8 ms to decode."""


class TurnBudget:
    """Runs work at once while the turn has time left, and in later turns otherwise.

    Small work keeps its order, and so does large work. Small work goes first, so that ordinary requests do not wait for
    bodies that were made to be expensive. At least every second turn does one piece of large work, so that it does not
    wait for small work that keeps coming.
    """

    def __init__(self, max_s: float = TURN_S) -> None:
        self._max_s = max_s
        self._spent_s = 0.0
        self._is_turn_open = False
        self._large_goes_next = True
        self._small: deque[Callable[[], None]] = deque()
        self._large: deque[Callable[[], None]] = deque()

    def run(self, work: Callable[[], None], size: int = 0) -> None:
        """Run ``work``, which handles ``size`` bytes, now or in a later turn.

        An exception from ``work`` reaches the caller if it runs now, else the event loop's exception handler.
        """
        is_large = size > LARGE_BYTES
        queue = self._large if is_large else self._small
        if queue or self._spent_s >= self._max_s or (is_large and self._small):
            queue.append(work)
        else:
            self._run_now(work)

    async def admit(self, size: int) -> None:
        """Wait until a body of ``size`` bytes may be handled, and charge the turn for it by its size.

        Use it if the work cannot be passed to ``run``, because it is a coroutine of its own.
        """
        admitted = asyncio.get_running_loop().create_future()

        def admit_now() -> None:
            if not admitted.done():
                admitted.set_result(None)
                self._spent_s += size * _S_PER_BYTE

        self.run(admit_now, size)
        await admitted

    def clear(self) -> None:
        """Drop all waiting work. Call it when the server has stopped and its connections are closed."""
        self._small.clear()
        self._large.clear()

    def _run_now(self, work: Callable[[], None]) -> None:
        if not self._is_turn_open:
            self._is_turn_open = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        started = time.perf_counter()
        try:
            work()
        finally:
            self._spent_s += time.perf_counter() - started

    def _begin_turn(self) -> None:
        self._is_turn_open = False
        self._spent_s = 0.0
        if self._large and self._large_goes_next:
            self._large_goes_next = False
            self._run_now(self._large.popleft())
            return
        self._large_goes_next = True
        for queue in (self._small, self._large):
            while queue and self._spent_s < self._max_s:
                self._run_now(queue.popleft())
