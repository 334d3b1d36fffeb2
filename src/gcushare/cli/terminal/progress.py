"""What is being done, on a terminal's stderr, once it takes longer than two seconds; nothing anywhere else."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self, TextIO

PATIENCE_S = 2.0
"""Work that takes longer is reported, on terminals."""
_EVERY_S = 0.2
_CLEAR = "\r\x1b[K"
_WIDEST = 79


class Progress:
    """One line that is written over itself. Call it with what is being done; use it as a context manager."""

    def __init__(self, stream: TextIO, *, terminal: str, patience_s: float = PATIENCE_S) -> None:
        self._stream = stream
        self._is_shown = stream.isatty() and terminal not in ("", "dumb")
        self._patience_s = patience_s
        self._doing = ""
        self._counts: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    def __call__(self, doing: str) -> None:
        """Say what is being done."""
        self._doing = doing

    def count(self, what: str, count: int) -> None:
        """Say how much of something was read: ``reading nodes: 500, pods: 12000``."""
        self._counts[what] = count
        self._doing = "reading " + ", ".join(f"{each}: {number}" for each, number in self._counts.items())

    async def __aenter__(self) -> Self:
        if self._is_shown:
            self._task = asyncio.create_task(self._show(), name="progress")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _show(self) -> None:
        await asyncio.sleep(self._patience_s)
        try:
            while True:
                self._write(_CLEAR + f"{self._doing} ..."[:_WIDEST])
                await asyncio.sleep(_EVERY_S)
        finally:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
