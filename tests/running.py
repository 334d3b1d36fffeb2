"""A loop of the programs that runs during a test."""

from __future__ import annotations

import asyncio
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
