"""A bar on a terminal's stderr; nothing anywhere else."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class ProgressBar:
    """How many runs of how many have ended; use it as a context manager."""

    def __init__(self, stream: TextIO, *, terminal: str, what: str) -> None:
        is_shown = stream.isatty() and terminal not in ("", "dumb")
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        console = Console(file=stream)
        self._progress = Progress(*columns, console=console, transient=True, disable=not is_shown)
        self._task = self._progress.add_task(what, total=None)

    def update(self, done: int, of: int) -> None:
        """Show where it stands."""
        self._progress.update(self._task, completed=done, total=of)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
