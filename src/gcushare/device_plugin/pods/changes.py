"""Waiting: for a change of this node's pods, which the watch may show later than the kubelet, and for a wake-up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class PodChanges:
    """Wakes those who wait for a pod whenever the pod book has changed."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def note(self) -> None:
        """Wake everybody who waits: the book has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Wait for a change that makes the condition true; False when the loop's time is past the deadline first."""
        while not condition():
            changed = self._changed
            try:
                async with asyncio.timeout_at(deadline):
                    await changed.wait()
            except TimeoutError:
                return False
        return True


async def wait_and_clear(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for the event and clear it; False where the time ran out first."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
