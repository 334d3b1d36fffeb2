"""What the demo prints: steps, commands with their output, and checks; coloured on a terminal, plain in a file."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.text import Text

from gcushare.core.errors import GcushareError

_WIDTH = 110


class Mismatch(GcushareError):
    """A step is not as it must be."""


class Stage:
    """Prints to one stream and counts what was checked."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, width=None if stream.isatty() else _WIDTH, highlight=False, soft_wrap=True)
        self.checks = 0

    def step(self, title: str) -> None:
        """Begin a step."""
        self._console.print()
        self._console.print(Text(f"== {title}", style="bold cyan"))

    def say(self, text: str) -> None:
        """Print a sentence."""
        self._console.print(Text(text))

    def command(self, line: str) -> None:
        """Print the command that a person would have typed."""
        self._console.print(Text(f"$ {line}", style="bold"))

    def output(self, text: str) -> None:
        """Print a command's output, as it is."""
        self._console.print(Text(text.rstrip("\n"), style="dim" if self._console.is_terminal else ""))

    def check(self, what: str, found: object, expected: object) -> None:
        """Say that something is as it must be.

        Raises:
            Mismatch: it is not; the message carries both.
        """
        self.checks += 1
        if found == expected:
            self._console.print(Text.assemble(("  ok     ", "green"), what))
            return
        self._console.print(Text.assemble(("  WRONG  ", "bold red"), what))
        raise Mismatch(f"{what}: expected {expected!r}, found {found!r}")

    def fail(self, reason: str) -> None:
        """Say why the demo ends."""
        self._console.print(Text(reason, style="red"))
