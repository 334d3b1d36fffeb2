"""Limit what the requests of the scheduler's port may take: the memory of their bodies, and their time in one turn.

If memory runs short, one body is dropped. In one turn of the event loop, requests may become complete on a hundred
connections. If all were answered at once, nothing else would run meanwhile, not even the renewal of the Lease.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

# In bodies of the largest size: enough for bursts, and far below a pod's memory limit.
_BODIES_AT_ONCE = 8


class Body(Protocol):
    """A body, from its first byte until its handler is done."""

    held: int
    """Bytes of memory that it has; only the budget changes it."""

    def give_up(self) -> None:
        """Drop it: its memory goes to others."""


class BodyBudget:
    """The memory for bodies, in bytes. It is charged for bytes that arrived; a declared length costs nothing.

    If it runs short, the oldest incomplete body is dropped. So a slow or silent client never blocks the others.
    ``largest``: the limit of one body.
    """

    def __init__(self, largest: int) -> None:
        self._left = _BODIES_AT_ONCE * largest
        self._arriving: dict[Body, None] = {}

    def begin(self, body: Body) -> None:
        """A body is expected. Until it is complete, it may be dropped."""
        self._arriving[body] = None

    def take(self, body: Body, size: int) -> bool:
        """Take memory for more of a body. False if there is none left: then drop it."""
        while size > self._left:
            oldest = next((each for each in self._arriving if each.held or each is body), body)
            if oldest is body:
                return False
            self.release(oldest)
            oldest.give_up()
        self._left -= size
        body.held += size
        return True

    def complete(self, body: Body) -> None:
        """The whole body has arrived: from now on it is not dropped."""
        self._arriving.pop(body, None)

    def release(self, body: Body) -> None:
        """Take its memory back; repeatable."""
        self.complete(body)
        self._left += body.held
        body.held = 0


TURN_S = 0.005
"""Enough for a few dozen ordinary requests, or for one of the largest size."""

LARGE_BYTES = 256 << 10
"""Larger bodies are large work. A request with a pod and the names of 5,000 nodes is smaller."""


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
