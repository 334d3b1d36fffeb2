"""A simulated process: its tasks, clocks, state and scheduled callbacks."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any

SWEEP_AT = 64
"""The number of tasks above which ended ones are removed."""


class Handle:
    """A scheduled callback. asyncio's own handles cost twice as much to create, and idle programs create many."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "process")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, process: Process | None
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.process = process
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancel the callback. It is dropped when it is due."""
        self.is_cancelled = True
        self.args = ()

    def cancelled(self) -> bool:
        """Whether the callback is cancelled."""
        return self.is_cancelled


class TimedHandle(Handle):
    """A callback with a time, as timeouts need."""

    __slots__ = ("when_s",)
    when_s: float

    def when(self) -> float:
        """When it is due, on its process's clock."""
        return self.when_s


class Killed(BaseException):
    """A killed process tried to act while its code was being cancelled."""


@contextmanager
def unwinding() -> Iterator[None]:
    """Close coroutines and generators of killed processes, and ignore their errors."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = before


class Process:
    """One simulated process: its tasks, its clocks, and whether it runs.

    ``rate`` is how fast its monotonic clock goes, ``wall_offset_s`` how far its wall clock is off.
    """

    def __init__(self, name: str, *, rate: float = 1.0, offset_s: float = 0.0, wall_offset_s: float = 0.0) -> None:
        self.name = name
        self.rate = rate
        self.offset_s = offset_s
        self.wall_offset_s = wall_offset_s
        self.is_alive = True
        self.is_paused = False
        self.after_step: Callable[[], None] | None = None
        self.steps_to_live: int | None = None
        """The number of steps before it is killed; None for no limit."""
        self.context = copy_context()
        self.context.run(CURRENT.set, self)
        self.held: deque[Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.on_end: dict[int, Callable[[], None]] = {}
        """Callbacks for its kill, from callers that wait for its answers."""
        self.sweep_at = SWEEP_AT

    def live_tasks(self) -> int:
        """Tasks that have not ended."""
        return sum(not task.done() for task in self.tasks)

    def require_alive(self) -> None:
        """Allow code of this process to act.

        Raises:
            Killed: it was killed.
        """
        if not self.is_alive:
            raise Killed(self.name)


CURRENT: ContextVar[Process | None] = ContextVar("simulated process", default=None)


class CallsUnderWay:
    """The calls that a server is handling."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[None]] = set()

    def hold(self, call: asyncio.Task[None]) -> None:
        """Count a call until it ends."""
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def end(self, grace_s: float) -> None:
        """Wait for the calls, and cancel them after a number of seconds."""
        left = {call for call in self._calls if not call.done()}
        if left and grace_s:
            _, left = await asyncio.wait(left, timeout=grace_s)
        for call in left:
            call.cancel()
        if left:
            await asyncio.wait(left)
