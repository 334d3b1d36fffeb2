"""Turns: long work on the loop that the scheduler's calls are answered on, cut into steps by what was done."""

from __future__ import annotations

import asyncio


class CooperativeYield:
    """Lets others run after every ``most`` pieces of work; what a piece is, and how long it takes, the owner knows."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._done = 0

    async def after(self, pieces: int = 1) -> None:
        """Count work that was done, and let others run when it is time."""
        self._done += pieces
        if self._done >= self._most:
            self._done = 0
            await asyncio.sleep(0)
