"""A simulated process: its tasks, its clocks, whether it runs, and what is due in it."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any

SWEEP_AT = 64
"""So many tasks are kept before those that have ended are dropped."""


class Handle:
    """Something that is due. asyncio's own handles cost twice as much to make, and idling makes little else."""

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
        """Have it not happen; it is dropped when it comes up."""
        self.is_cancelled = True
        self.args = ()

    def cancelled(self) -> bool:
        """Whether it does not happen."""
        return self.is_cancelled


class TimedHandle(Handle):
    """One that says when it is due, as timeouts ask."""

    __slots__ = ("when_s",)
    when_s: float

    def when(self) -> float:
        """When it is due, by its process's clock."""
        return self.when_s


class Killed(BaseException):
    """A killed process tried to reach the world, while its code was being unwound."""


@contextmanager
def unwinding() -> Iterator[None]:
    """Let coroutines and generators of killed processes be closed, whatever they say to that."""
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
        """How many steps it has left before it is killed; None for any number."""
        self.context = copy_context()
        self.context.run(CURRENT.set, self)
        self.held: deque[Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.on_end: dict[int, Callable[[], None]] = {}
        """Called when it is killed, by whoever waits for an answer of it."""
        self.sweep_at = SWEEP_AT

    def live_tasks(self) -> int:
        """Tasks that have not ended."""
        return sum(not task.done() for task in self.tasks)

    def require_alive(self) -> None:
        """Let code of this process reach the world.

        Raises:
            Killed: it was killed.
        """
        if not self.is_alive:
            raise Killed(self.name)


CURRENT: ContextVar[Process | None] = ContextVar("simulated process", default=None)


class CallsUnderWay:
    """The calls that a server is at work on."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[None]] = set()

    def hold(self, call: asyncio.Task[None]) -> None:
        """Take one in until it has ended."""
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def end(self, grace_s: float) -> None:
        """End them: they have so many seconds for it, then they are cancelled."""
        left = {call for call in self._calls if not call.done()}
        if left and grace_s:
            _, left = await asyncio.wait(left, timeout=grace_s)
        for call in left:
            call.cancel()
        if left:
            await asyncio.wait(left)
