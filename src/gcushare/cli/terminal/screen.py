"""Prints to the process's streams: width, colours, and messages on stderr."""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import Sequence
from typing import Self, TextIO

from rich.console import Console
from rich.text import Text

from gcushare.cluster.reader import ReadProgress
from gcushare.core.log_fields import escape
from gcushare.core.wording import printable
from gcushare.runtime.entry import ProcessContext

PATIENCE_S = 2.0
"""Work that takes longer than this is reported on terminals."""
_EVERY_S = 0.2
_CLEAR = "\r\x1b[K"
_WIDEST = 79
_NARROWEST = 40
"""Columns that prose takes at least: on a narrower terminal it is the terminal that breaks the lines."""


class Progress(ReadProgress):
    """A status line on stderr that overwrites itself. Use it as a context manager; call it with the current step."""

    def __init__(self, stream: TextIO, *, terminal: str, patience_s: float = PATIENCE_S) -> None:
        self._stream = stream
        self._is_shown = stream.isatty() and terminal not in ("", "dumb")
        self._patience_s = patience_s
        self._doing = ""
        self._counts: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    def __call__(self, doing: str) -> None:
        """Set the current step."""
        self._doing = doing

    def count(self, what: str, count: int) -> None:
        """Set how many of something were read: ``reading nodes: 500, pods: 12000``."""
        self._counts[what] = count
        self._doing = "reading " + ", ".join(f"{each}: {number}" for each, number in self._counts.items())

    async def __aenter__(self) -> Self:
        if self._is_shown:
            self._task = asyncio.create_task(self._show(), name="progress")
        return self

    async def __aexit__(self, *_: object) -> None:
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


class Screen:
    """The process's standard output and error, with width and colours."""

    def __init__(self, process: ProcessContext) -> None:
        self._process = process
        self.is_terminal = process.stdout.isatty()
        self.environ = dict(process.environ)
        wants_color = self.environ.get("FORCE_COLOR") or (self.is_terminal and self.environ.get("TERM") != "dumb")
        self.has_color = bool(wants_color) and not self.environ.get("NO_COLOR")

    @property
    def width(self) -> int | None:
        """Columns of the terminal, or COLUMNS there; None in a pipe, whose lines are searched and have any length."""
        return _columns(self._process.stdout, self.environ) if self.is_terminal else None

    def console(self) -> Console:
        """Return a console on standard output that does not crop lines."""
        return Console(
            file=self._process.stdout,
            width=self.width or 80,
            force_terminal=self.has_color or self.is_terminal,
            color_system="auto" if self.has_color and self.is_terminal else ("standard" if self.has_color else None),
            no_color=not self.has_color,
            highlight=False,
            markup=False,
            emoji=False,
            _environ=self.environ,
        )

    def print_lines(self, lines: Sequence[Text]) -> None:
        """Print lines without escape sequences of others, with colours if wanted."""
        if not self.has_color:
            self.print_text("".join(f"{harmless(line).plain}\n" for line in lines))
            return
        console = self.console()
        for line in lines:
            console.print(harmless(line), soft_wrap=True)

    def print_text(self, text: str) -> None:
        self._process.stdout.write(text)
        self._process.stdout.flush()

    def say(self, kind: str, line: str) -> None:
        """Print a line to stderr: a warning, a hint, a source."""
        self._process.stderr.write(f"{kind}: {escape(line)}\n")
        self._process.stderr.flush()

    def progress(self) -> Progress:
        """Return the status line on stderr, which appears once the work takes long."""
        return Progress(self._process.stderr, terminal=self.environ.get("TERM", ""))


def wrapped(text: str, width: int | None, *, first: str, following: str) -> list[str]:
    """Break a line at its blanks and indent it; None is any width. Words stay whole, so that people can copy them."""
    if width is None or len(first) + len(text) <= width:
        return [first + text]
    return textwrap.wrap(
        text,
        max(width, _NARROWEST),
        initial_indent=first,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )


def harmless(line: Text) -> Text:
    """Replace characters that are not printable by blanks, so that the line's styles stay in place."""
    if line.plain.isprintable():
        return line
    safe = line.copy()
    safe.plain = printable(line.plain)
    return safe


def _columns(stream: TextIO, environ: dict[str, str]) -> int:
    """Return the columns that the environment sets, else the terminal's."""
    text = environ.get("COLUMNS", "")
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # a stream without descriptor or size
        return 80
