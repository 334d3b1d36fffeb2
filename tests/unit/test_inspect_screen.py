"""Progress is told on terminals alone, once work takes long, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import io

from gcushare.runtime.entry import Surroundings
from gcushare.runtime.screen import Screen, Tracker


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and tells when something is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


def around(stderr: io.StringIO) -> Surroundings:
    return Surroundings(argv=(), environ={}, stdout=io.StringIO(), stderr=stderr)


async def test_long_work_is_told_with_its_counts_and_the_line_is_cleared() -> None:
    terminal, tracker = Terminal(), Tracker()
    async with Screen(around(terminal)).progress(tracker, patience_s=0.0):
        tracker("nodes", 500)
        tracker("pods", 12)
        async with asyncio.timeout(10):
            await terminal.written.wait()
    assert "reading nodes: 500, pods: 12" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


async def test_short_work_is_not_told() -> None:
    terminal = Terminal()
    async with Screen(around(terminal)).progress(Tracker()):
        pass
    assert terminal.getvalue() == ""


async def test_a_pipe_is_told_nothing() -> None:
    pipe = io.StringIO()
    async with Screen(around(pipe)).progress(Tracker(), patience_s=0.0):
        await asyncio.sleep(0)
    assert pipe.getvalue() == ""
