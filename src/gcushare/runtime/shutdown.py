"""Runs an asynchronous program: named root tasks, two-stage signals, and a shutdown in bounded time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from types import FrameType

from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields
from gcushare.runtime.exit_codes import FAILED, SIGNALLED

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Half of the 30 s that the kubelet waits between SIGTERM and SIGKILL by default.
STOP_DEADLINE_S = 15.0


class Shutdown:
    """The request to stop the program, from a signal, a failed task or a test."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason = ""
        """Why the program stops; empty while it runs."""

    @property
    def is_requested(self) -> bool:
        return self._event.is_set()

    def request(self, reason: str) -> None:
        """Request a stop. The first reason is kept."""
        if not self.is_requested:
            self.reason = reason
            logger.info("stopping %s", fields(reason=reason))
            self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


class TaskFailed(GcushareError):
    """A root task ended before a stop was requested. Its exception, if any, is chained."""

    def __init__(self, task: str, reason: str) -> None:
        super().__init__(f"task {task!r} {reason}")
        self.task = task


REQUESTS_DRAIN_S = 3.0
"""How long requests in progress may take when a program ends. The extender gives its binds more time, in its app."""
EVENTS_DRAIN_S = 1.0
"""How long Events may take to be posted after that."""
CANCEL_PATIENCE_S = 5.0
"""Longer than any task takes to clean up after a cancellation, in seconds."""


class RootTasks:
    """The root tasks of a program. Each must run until the shutdown."""

    def __init__(self, group: asyncio.TaskGroup, shutdown: Shutdown) -> None:
        self._group = group
        self._shutdown = shutdown
        self._background: set[asyncio.Task[None]] = set()
        self._draining: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Coroutine[object, object, object], *, drains: bool = False) -> None:
        """Start a named task.

        Args:
            name: shown in the log and in stack dumps.
            work: runs until the shutdown. If it returns or raises earlier, the program stops.
            drains: it handles the shutdown itself and completes its work. Other tasks are cancelled after it.
        """

        async def supervise() -> None:
            try:
                await work
            except Exception as error:
                raise TaskFailed(name, f"failed: {type(error).__name__}: {error}") from error
            if not self._shutdown.is_requested:
                raise TaskFailed(name, "ended although the program was not asked to stop")

        task = self._group.create_task(supervise(), name=name)
        owners = self._draining if drains else self._background
        owners.add(task)
        task.add_done_callback(owners.discard)

    async def finish(self, drain_s: float, patience_s: float) -> None:
        """Wait up to ``drain_s`` seconds for the draining tasks, then cancel all tasks that still run.

        A task that has not ended ``patience_s`` later is cancelled again, because a library may swallow a cancellation
        that arrives together with the event that it waits for.
        """
        if self._draining:
            _, late = await asyncio.wait(self._draining, timeout=drain_s)
            if late:
                logger.warning("drain deadline passed %s", fields(tasks=_names(late), drain_s=drain_s))
        left = {*self._draining, *self._background}
        for task in left:
            task.cancel()
        while left:
            _, left = await asyncio.wait(left, timeout=patience_s)
            if left:
                logger.warning("cancelling again what did not end %s", fields(tasks=_names(left)))
                for task in left:
                    task.cancel()


def _names(tasks: set[asyncio.Task[None]]) -> str:
    return ",".join(sorted(task.get_name() for task in tasks))


@asynccontextmanager
async def root_tasks(
    shutdown: Shutdown, *, drain_s: float, patience_s: float = CANCEL_PATIENCE_S
) -> AsyncIterator[RootTasks]:
    """Run the program's tasks. Start them in the block; its end waits for the shutdown and stops them in order.

    Raises:
        ExceptionGroup: of `TaskFailed`, if tasks ended early; the others were cancelled.
    """
    async with asyncio.TaskGroup() as group:
        tasks = RootTasks(group, shutdown)
        yield tasks
        await shutdown.wait()
        await tasks.finish(drain_s, patience_s)


def run(
    main: Callable[[Shutdown], Coroutine[object, object, int]],
    *,
    deadline_s: float = STOP_DEADLINE_S,
    use_uvloop: bool = True,
) -> int:
    """Run ``main`` to its end and return the program's exit code.

    The first signal requests the shutdown; the second one exits at once with 128+n. After the request, ``main`` has
    ``deadline_s`` seconds; then it is cancelled and the code is 1. If root tasks fail, their names are logged and the
    code is 1.

    ``use_uvloop`` uses the faster event loop if it is installed.

    Effects: replaces the handlers of ``STOP_SIGNALS`` while it runs, then restores them. It needs the main thread.
    """
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if use_uvloop:
        with suppress(ImportError):
            import uvloop

            loop_factory = uvloop.new_event_loop
    runner, shutdown = asyncio.Runner(loop_factory=loop_factory), Shutdown()
    with _two_stage_signals(runner.get_loop(), shutdown), runner:
        return runner.run(_run_bounded(main, shutdown, deadline_s))


async def _run_bounded(
    main: Callable[[Shutdown], Coroutine[object, object, int]], shutdown: Shutdown, deadline_s: float
) -> int:
    program = asyncio.create_task(main(shutdown), name="main")
    stop = asyncio.create_task(shutdown.wait(), name="wait for the shutdown")
    await asyncio.wait((program, stop), return_when=asyncio.FIRST_COMPLETED)
    if not program.done():
        await asyncio.wait((program,), timeout=deadline_s)
    stop.cancel()
    if not program.done():
        running = sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())
        logger.error("stop deadline passed, cancelling %s", fields(deadline_s=deadline_s, tasks=",".join(running)))
        program.cancel()
        await asyncio.wait((program,), timeout=deadline_s)
        if program.done() and not program.cancelled() and program.exception() is not None:
            logger.error("program failed while stopping", exc_info=program.exception())
        return FAILED
    try:
        return program.result()
    except* TaskFailed as failures:
        for failure in failures.exceptions:
            _log_failure(failure)
    return FAILED


def _log_failure(failure: BaseException) -> None:
    if isinstance(failure, BaseExceptionGroup):
        for inner in failure.exceptions:
            _log_failure(inner)
        return
    name = failure.task if isinstance(failure, TaskFailed) else None
    logger.error("root task failed %s", fields(task=name, reason=failure), exc_info=failure.__cause__)


@contextmanager
def _two_stage_signals(loop: asyncio.AbstractEventLoop, shutdown: Shutdown) -> Iterator[None]:
    """Handle signals outside the event loop, so that a signal ends even a program with a blocked loop."""
    seen: list[str] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if seen:
            # Nothing else is safe here: the interrupted code may hold any lock, also the log's.
            os.write(2, f"second signal {name}: leaving at once\n".encode())
            os._exit(SIGNALLED + number)
        seen.append(name)
        with suppress(RuntimeError):  # The loop is closed: the program has ended.
            loop.call_soon_threadsafe(shutdown.request, f"signal {name}")

    previous = {number: signal.signal(number, on_signal) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
