"""Split long work into steps, so that the event loop answers the scheduler's calls in between."""

from __future__ import annotations

import asyncio


class CooperativeYield:
    """Yields to other tasks after every ``limit`` pieces of work. The caller defines what a piece is."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._done = 0

    async def after(self, pieces: int = 1) -> None:
        """Count work that was done, and yield if the limit is reached."""
        self._done += pieces
        if self._done >= self._limit:
            self._done = 0
            await asyncio.sleep(0)
