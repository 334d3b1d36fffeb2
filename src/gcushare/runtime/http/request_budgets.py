"""Limit what the requests of one server may take: the memory of their bodies, and their time in one turn.

If memory runs short, one body is dropped. In one turn of the event loop, requests may become complete on a hundred
connections. If all were answered at once, nothing else would run meanwhile, not even the renewal of the Lease.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping

# In bodies of the largest size: enough for bursts, and far below a pod's memory limit.
_BODIES_AT_ONCE = 8


class BodyBudget:
    """The memory for bodies, in bytes. It is charged for bytes that arrived; a declared length costs nothing.

    ``largest``: the limit of one body. ``by_path``: lower limits of single paths, asked at each request.

    If the memory runs short, the oldest incomplete body is dropped. So a slow or silent client never blocks the others.
    """

    def __init__(self, largest: int, by_path: Mapping[str, Callable[[], int]] | None = None) -> None:
        self._largest = largest
        self._by_path = by_path or {}
        self._left = _BODIES_AT_ONCE * largest
        self._arriving: dict[BodyShare, None] = {}

    def largest_of(self, path: str) -> int:
        """The most bytes that a body for this path may have."""
        own = self._by_path.get(path)
        return self._largest if own is None else min(self._largest, own())

    def open(self, give_up: Callable[[], None]) -> BodyShare:
        """Begin a body. ``give_up`` is called if its memory goes to another body; it must drop this one."""
        share = BodyShare(self, give_up)
        self._arriving[share] = None
        return share

    def _take(self, size: int, taker: BodyShare) -> bool:
        while size > self._left:
            oldest = next((share for share in self._arriving if share.size or share is taker), taker)
            if oldest is taker:
                return False
            oldest.cut()
        self._left -= size
        return True


class BodyShare:
    """The memory of one body, from its first byte until its handler is done."""

    __slots__ = ("_budget", "_give_up", "is_cut", "size")

    def __init__(self, budget: BodyBudget, give_up: Callable[[], None]) -> None:
        self._budget = budget
        self._give_up = give_up
        self.size = 0
        """Bytes that it has now."""
        self.is_cut = False
        """Whether its memory went to another body."""

    def grow(self, size: int) -> bool:
        """Take ``size`` more bytes. False if there are none left or the body was cut: then drop it."""
        if self.is_cut or not self._budget._take(size, self):
            return False
        self.size += size
        return True

    def complete(self) -> None:
        """Call it when the whole body has arrived: from now on it is not cut."""
        self._budget._arriving.pop(self, None)

    def cut(self) -> None:
        """Give its memory to another body, and drop it."""
        self.is_cut = True
        self.close()
        self._give_up()

    def close(self) -> None:
        """Give its memory back; repeatable."""
        size, self.size = self.size, 0
        self.complete()
        self._budget._left += size


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
