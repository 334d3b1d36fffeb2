"""What is being done is said on terminals alone, once it takes long, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import io

from gcushare.cli.terminal.screen import Progress


class Terminal(io.StringIO):
    """A terminal that tells when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


async def test_a_terminal_is_shown_what_takes_long_and_is_left_clean() -> None:
    terminal = Terminal()
    async with Progress(terminal, terminal="xterm", patience_s=0.0) as progress:
        progress("reading pods: 40000")
        async with asyncio.timeout(60):
            await terminal.written.wait()
    assert "reading pods: 40000 ..." in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


async def test_counts_of_what_is_read_stand_side_by_side() -> None:
    terminal = Terminal()
    async with Progress(terminal, terminal="xterm", patience_s=0.0) as progress:
        progress.count("nodes", 500)
        progress.count("pods", 12)
        async with asyncio.timeout(60):
            await terminal.written.wait()
    assert "reading nodes: 500, pods: 12 ..." in terminal.getvalue()


async def test_pipes_and_dumb_terminals_are_shown_nothing() -> None:
    for stream, kind in ((io.StringIO(), "xterm"), (Terminal(), "dumb"), (Terminal(), "")):
        async with Progress(stream, terminal=kind, patience_s=0.0) as progress:
            progress("asking")
            await asyncio.sleep(0)
        assert stream.getvalue() == ""
