from __future__ import annotations

import asyncio
import io

from gcushare.cli.terminal.progress import Progress


class Screen(io.StringIO):
    """A terminal that tells when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


async def test_a_terminal_is_told_what_takes_long_and_is_left_clean() -> None:
    screen = Screen()
    async with Progress(screen, terminal="xterm", quiet_s=0.0) as progress:
        progress("reading pods: 40000")
        async with asyncio.timeout(5):
            await screen.written.wait()
    assert "reading pods: 40000 ..." in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


async def test_what_is_quick_writes_nothing() -> None:
    screen = Screen()
    async with Progress(screen, terminal="xterm") as progress:
        progress("asking")
    assert screen.getvalue() == ""


async def test_pipes_and_dumb_terminals_are_told_nothing() -> None:
    for stream, terminal in ((io.StringIO(), "xterm"), (Screen(), "dumb"), (Screen(), "")):
        async with Progress(stream, terminal=terminal, quiet_s=0.0) as progress:
            progress("asking")
            await asyncio.sleep(0)
        assert stream.getvalue() == ""
