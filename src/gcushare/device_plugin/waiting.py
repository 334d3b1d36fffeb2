"""Waiting for this node's pods: a call of the kubelet may come before the watch has shown the pod that it is for."""

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
