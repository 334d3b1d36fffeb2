"""An event loop without sockets on which time passes only when there is nothing to do, shared by simulated processes.

Everything that runs belongs to the process in whose context it was started (or to the world, which is none). A process
may be paused: what is due waits until it goes on, while its clocks run. It may be killed between any two steps: what it
had left to do never happens, and what it sent is on its way nevertheless.
"""

from __future__ import annotations

import asyncio
from asyncio.futures import _set_result_unless_cancelled  # type: ignore[attr-defined]
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import Any, TypeVar, TypeVarTuple, Unpack

from simulation.process import CURRENT, SWEEP_AT, Handle, Process, TimedHandle, unwinding

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_S = 1000.0
_SETTLING = Handle(lambda: None, (), copy_context(), None)
"""What a timer is called that need not be cancelled: it does nothing to a future that has ended."""
_STEP = object()
"""In place of a result: what is due is a step to take."""


class _Task(asyncio.Task[Any]):
    """A task whose hash is a number of its own: sets of tasks are walked in the same order in every run."""

    upcoming = 0
    """The number of the task that is made next: asyncio keeps it in a set before its maker has it."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, loop: SimulatedLoop, name: str, context: Context) -> None:
        self.number = _Task.upcoming
        self.process = context.get(CURRENT)
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop. ``on_failure`` takes what nothing else caught: a failure of a program, or of the simulation."""

    def __init__(self, on_failure: Callable[[str], None]) -> None:
        self.now_s = START_S
        self.steps = 0
        self._on_failure = on_failure
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Any, object]] = []
        """When, in which order, and what: a ``Handle`` with ``_STEP``, or a future with the result that it gets."""
        self._sequence = 0
        self._numbers = 0
        self._is_running = False
        self.is_stopped = False
        """Set to have ``run`` return after the step under way."""
        self.world = copy_context()

    def __del__(self) -> None:
        """Nothing is held that would have to be closed."""

    # Time

    def time(self) -> float:
        """The monotonic clock of the process that asks."""
        process = CURRENT.get()
        return self.now_s if process is None else process.offset_s + process.rate * self.now_s

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> TimedHandle:
        """Run it at a time of the clock of the process that asks."""
        context = context or copy_context()
        process = context.get(CURRENT)
        at_s = when if process is None else (when - process.offset_s) / process.rate
        handle = TimedHandle(callback, args, context, process)
        handle.when_s = when
        self._put(at_s, handle, _STEP)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        """Run it after some seconds of the clock of the process that asks."""
        if callback is _set_result_unless_cancelled:
            self.settle_later(delay, *args)  # type: ignore[call-arg,arg-type]
            return _SETTLING
        context = context or copy_context()
        process = context.get(CURRENT)
        handle = Handle(callback, args, context, process)
        self._put(self.now_s + (delay if process is None else delay / process.rate), handle, _STEP)
        return handle

    def settle_later(self, delay: float, future: asyncio.Future[T], result: T) -> None:
        """Give a future its result, unless it has ended, after some seconds of the clock of the process that asks.

        That is no step of the process: while it is paused, or after its end, nothing of it goes on by this.
        """
        process = CURRENT.get()
        self._put(self.now_s + (delay if process is None else delay / process.rate), future, result)

    def settle_in_world(self, delay_s: float, future: asyncio.Future[T], result: T) -> None:
        """The same after some true seconds."""
        self._put(self.now_s + delay_s, future, result)

    def call_world(self, delay_s: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Have the world do something after some true seconds, whatever becomes of the process that asks."""
        self._put(self.now_s + delay_s, Handle(callback, args, self.world, None), _STEP)

    def _put(self, at_s: float, due: object, result: object) -> None:
        self._sequence += 1
        now_s = self.now_s
        heappush(self._timers, (at_s if at_s > now_s else now_s, self._sequence, due, result))

    def call_soon(  # type: ignore[override]
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        """Run it next."""
        context = context or copy_context()
        handle = Handle(callback, args, context, context.get(CURRENT))
        self._ready.append(handle)
        return handle

    # Futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        """A task of the process in whose context it is."""
        context = context or copy_context()
        self._numbers += 1
        _Task.upcoming = self._numbers
        task = _Task(coro, loop=self, name=str(name or f"task-{self._numbers}"), context=context)
        process = context.get(CURRENT)
        if process is not None:
            process.tasks.append(task)
            if len(process.tasks) >= process.sweep_at:
                process.tasks = [each for each in process.tasks if not each.done()]
                process.sweep_at = max(SWEEP_AT, 2 * len(process.tasks))
        return task

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        """Do at once what a thread would do meanwhile; who waits for it goes on a millisecond later."""
        future: asyncio.Future[T] = self.create_future()
        try:
            result = func(*args)
        except Exception as error:
            self.call_later(0.001, _settle, future, None, error)
        else:
            self.call_later(0.001, _settle, future, result, None)
        return future

    # Running

    def run(self, until_s: float) -> None:
        """Let things happen until a moment of true time, which must not be over: ValueError."""
        if until_s < self.now_s:
            raise ValueError(f"cannot run until {until_s:.3f} s: it is {self.now_s:.3f} s already")
        with self.entered():
            self._run_until(until_s)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be the running loop for a while, also within another one's step."""
        before, was_running = asyncio._get_running_loop(), self._is_running
        asyncio._set_running_loop(self)
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = was_running
            asyncio._set_running_loop(before)

    def _run_until(self, until_s: float) -> None:
        """Step after step; written flat, for everything passes here."""
        ready, timers = self._ready, self._timers
        while not self.is_stopped:
            if ready:
                handle = ready.popleft()
            elif timers and timers[0][0] <= until_s:
                self.now_s, _, due, result = heappop(timers)
                if result is not _STEP:
                    if not due.done():
                        due.set_result(result)
                    continue
                handle = due
            else:
                self.now_s = until_s
                return
            if handle.is_cancelled:
                continue
            process = handle.process
            if process is not None:
                if process.is_paused:
                    process.held.append(handle)
                    continue
                if not process.is_alive:
                    continue
            self.steps += 1
            try:
                if process is None:
                    handle.callback(*handle.args)  # What runs the loop is of the world as well.
                else:
                    handle.context.run(handle.callback, *handle.args)
            except Exception as error:
                who = "world" if process is None else process.name
                self._on_failure(f"{who}: {handle.callback}: {type(error).__name__}: {error}")
            if process is not None:
                if process.after_step is not None:
                    process.after_step()
                if process.steps_to_live is not None:
                    process.steps_to_live -= 1
                    if process.steps_to_live <= 0:
                        self.kill(process)

    def pause(self, process: Process) -> None:
        """Stop a process where it is."""
        process.is_paused = True

    def resume(self, process: Process) -> None:
        """Let a process go on: what was due meanwhile happens now."""
        process.is_paused = False
        self._ready.extend(process.held)
        process.held.clear()

    def kill(self, process: Process) -> None:
        """End a process at once. Its code is unwound so that nothing of it is left; none of that reaches the world."""
        if not process.is_alive:
            return
        process.is_alive, process.is_paused = False, False
        process.held.clear()
        ends, process.on_end = list(process.on_end.values()), {}
        for end in ends:
            self.call_world(0.0, end)
        with unwinding():
            for task in process.tasks:
                if task.done():
                    continue
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                try:
                    task.get_coro().close()
                except KeyboardInterrupt:
                    raise
                except BaseException:
                    # It waits for something at its end, which does not come, or tried to reach the world.
                    continue
        process.tasks = []

    # What asyncio asks of a loop

    def get_debug(self) -> bool:
        """No."""
        return False

    def is_running(self) -> bool:
        """Whether ``run`` is at work."""
        return self._is_running

    def is_closed(self) -> bool:
        """Never: nothing is held that has to be closed."""
        return False

    def get_exception_handler(self) -> None:
        """There is none but ours."""
        return

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report what nothing caught; who was to catch what a killed process leaves behind is gone with it."""
        future = context.get("future")
        process = future.process if isinstance(future, _Task) else CURRENT.get()
        if process is not None and not process.is_alive:
            return
        error = context.get("exception")
        if isinstance(error, asyncio.CancelledError):
            return  # the task that waited for it was cancelled, and killed before it could go on
        who = "world" if process is None else process.name
        self._on_failure(f"{who}: {context.get('message')}: {type(error).__name__}: {error}")


def _settle(future: asyncio.Future[T], result: T | None, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)  # type: ignore[arg-type]
