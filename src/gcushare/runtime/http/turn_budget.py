"""How much of one turn of the event loop the answering of requests may take.

In one turn a request may become complete on each of some hundred connections. Answered all at once, they would hold up
whatever else runs on the loop, the renewal of a Lease among it, for as long as all of them take together.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

TURN_S = 0.005
"""A few dozen ordinary requests, or one that is as large as may be."""

LARGE_BYTES = 256 << 10
"""From here on a body is large: a pod and the names of 5,000 nodes take less."""

_S_PER_BYTE = 6e-9
"""What a body costs whose handler is not timed: a dense one of 1.5 MB took 8 ms to read."""


class TurnBudget:
    """Runs work at once while a turn has time left, else in the turns after it.

    Work of one kind keeps its order. Small work goes before large, so that ordinary requests do not wait behind bodies
    made to be expensive; of those at least every second turn does one, so that nothing waits without end.
    """

    def __init__(self, most_s: float = TURN_S) -> None:
        self._most_s = most_s
        self._spent_s = 0.0
        self._is_turn_open = False
        self._is_larges_turn = True
        self._small: deque[Callable[[], None]] = deque()
        self._large: deque[Callable[[], None]] = deque()

    @property
    def waiting(self) -> int:
        """Work that waits for its turn."""
        return len(self._small) + len(self._large)

    def run(self, work: Callable[[], None], size: int = 0) -> None:
        """Do some work on so many bytes, now or later; what it raises goes where a callback's errors go."""
        is_large = size > LARGE_BYTES
        queue = self._large if is_large else self._small
        if queue or self._spent_s >= self._most_s or (is_large and self._small):
            queue.append(work)
        else:
            self._do(work)

    async def admit(self, size: int) -> None:
        """Return when a body of so many bytes may be handled; it counts by its size."""
        may_go = asyncio.get_running_loop().create_future()

        def let_go() -> None:
            if not may_go.done():
                may_go.set_result(None)
                self._spent_s += size * _S_PER_BYTE

        self.run(let_go, size)
        await may_go

    def clear(self) -> None:
        """Drop what waits: no one can get its answers any more."""
        self._small.clear()
        self._large.clear()

    def _do(self, work: Callable[[], None]) -> None:
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
        if self._large and self._is_larges_turn:
            self._is_larges_turn = False
            self._do(self._large.popleft())
            return
        self._is_larges_turn = True
        for queue in (self._small, self._large):
            while queue and self._spent_s < self._most_s:
                self._do(queue.popleft())
