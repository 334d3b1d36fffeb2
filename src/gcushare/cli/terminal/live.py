"""Live screens: as much as fits a terminal, with a foot that stays in sight."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group
from rich.live import Live
from rich.text import Text

from gcushare.cli.terminal.screen import Screen


def open_live(screen: Screen) -> Live:
    """The terminal's other screen, drawn only when it is updated."""
    return Live(console=screen.console(), screen=True, auto_refresh=False, vertical_overflow="crop")


def fit_page(screen: Screen, body: Sequence[Text], foot: Sequence[Text], *, shown_by: str) -> Group:
    """As much of the body as there is room for, and the whole foot; ``shown_by`` is what shows the rest."""
    room = max(2, screen.height - len(foot))
    if len(body) > room:
        hidden = len(body) - room + 1
        body = [*body[: room - 1], Text(f"… {hidden} more lines: {shown_by} shows them", "dim")]
    for line in (*body, *foot):
        line.no_wrap = True
    return Group(*body, *foot)


def time_now() -> str:
    """The time of day here."""
    return datetime.now().astimezone().strftime("%H:%M:%S")
