"""Bars of characters: a card's units with one part per pod, and the memory in use. Pure.

Parts differ without colours too: each begins with its pod's letter, and their fills alternate.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

LETTERS = string.ascii_lowercase + string.ascii_uppercase
COLORS = ("cyan", "magenta", "blue", "yellow", "green", "bright_magenta", "bright_cyan", "bright_blue")
_FILLS = ("█", "▓")
_WAITING = "▒"
_EMPTY = "░"
_UNKNOWN = "·"
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_FULL_PERCENT, _BUSY_PERCENT = 95, 80


@dataclass(frozen=True, slots=True)
class BarSegment:
    """One pod's part of a bar."""

    units: int
    is_waiting: bool = False


def letter_of(position: int) -> str:
    """Return the letter of the pod at this position of a card; ``*`` once letters run out."""
    return LETTERS[position] if position < len(LETTERS) else "*"


def color_of(position: int) -> str:
    """Return the colour of the pod at this position of a card."""
    return COLORS[position % len(COLORS)]


def granted_bar(parts: Sequence[BarSegment], total: int, width: int) -> Text:
    """Draw the pods' parts of ``total`` units in ``width`` columns.

    A part is as long as its share, rounded to a column, and at least one column long.
    """
    bar = Text()
    whole = max(total, sum(part.units for part in parts), 1)
    units = 0
    for position, part in enumerate(parts[:width]):
        units += part.units
        room = width - len(bar)
        # Keep a column for each part that follows.
        columns = max(1, min(round(units * width / whole) - len(bar), room - (len(parts) - position - 1)))
        fill = _WAITING if part.is_waiting else _FILLS[position % len(_FILLS)]
        color = color_of(position)
        bar.append(letter_of(position), f"bold reverse {color}")
        bar.append(fill * (columns - 1), color)
    bar.append(_EMPTY * (width - len(bar)), "bright_black")
    return bar


def used_bar(used: int | None, total: int, width: int) -> Text:
    """Draw the memory in use, to an eighth of a column. None (unknown) is drawn unlike 0."""
    if used is None:
        return Text(_UNKNOWN * width, "bright_black")
    eighths = min(width * 8, used * width * 8 // total) if total else 0
    filled = "█" * (eighths // 8) + _EIGHTHS[eighths % 8]
    if used and not filled:
        filled = _EIGHTHS[1]
    bar = Text()
    bar.append(filled, _style_of(used, total))
    bar.append(_EMPTY * (width - len(filled)), "bright_black")
    return bar


def _style_of(used: int, total: int) -> str:
    percent = used * 100 // total if total else 0
    if percent >= _FULL_PERCENT:
        return "red"
    return "yellow" if percent >= _BUSY_PERCENT else "green"
