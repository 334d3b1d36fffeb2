"""Loops of the programs that run during a test, and the end of processes."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(loop: Coroutine[Any, Any, object], name: str) -> AsyncIterator[asyncio.Task[object]]:
    """Run a loop that goes on until it is cancelled, and cancel it; one that ended before by itself fails the test."""
    task = asyncio.create_task(loop, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        raise AssertionError(f"{name} ended by itself with {task.result()!r}")


async def wait_for_end(pid: int) -> None:
    """Wait until a process, ours or not, is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        assert await asyncio.to_thread(poller.poll, 20_000), f"process {pid} is still there"
    finally:
        os.close(descriptor)


async def turns_until_done(task: asyncio.Task[Any]) -> int:
    """Wait for a task; returns how many turns of the loop others got meanwhile."""
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return turns
