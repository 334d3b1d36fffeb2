"""Split long work and long answers into steps, so that the event loop answers the scheduler's calls in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

PIECE_BYTES = 64 * 1024
"""Bytes encoded before other tasks get a turn: well below a millisecond of encoding."""


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


async def join_in_pieces(opening: bytes, items: Iterable[bytes], closing: bytes) -> AsyncGenerator[bytes, None]:
    """Write a JSON list between its opening and closing text, in pieces with turns for other tasks."""
    piece, separator = bytearray(opening), b""
    for item in items:
        piece += separator + item
        separator = b","
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
            await asyncio.sleep(0)
    yield bytes(piece + closing)
