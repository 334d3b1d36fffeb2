"""What a drawing is made of: bars for a card's units and its memory in use, folded lines, boxes with a title. Pure.

Parts of a bar differ without colours too: each begins with its pod's letter, and their fills alternate. Widths are
columns of a terminal: a Chinese character takes two. Only a title that does not fit is cut off.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text

from gcushare.core.wording import one_line

LETTERS = string.ascii_lowercase + string.ascii_uppercase
COLORS = ("cyan", "magenta", "blue", "yellow", "green", "bright_magenta", "bright_cyan", "bright_blue")
_FILLS = ("█", "▓")
_WAITING = "▒"
_EMPTY = "░"
_UNKNOWN = "·"
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
_FULL_PERCENT, _BUSY_PERCENT = 95, 80
_FRAME = "bright_black"
_LEAST_RULE = 3


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
    percent = used * 100 // total if total else 0
    style = "green"
    if percent >= _BUSY_PERCENT:
        style = "red" if percent >= _FULL_PERCENT else "yellow"
    bar.append(filled, style)
    bar.append(_EMPTY * (width - len(filled)), "bright_black")
    return bar


def fold(text: str, width: int) -> list[str]:
    """Break text at its blanks, and words that are longer than a line at the line's end."""
    lines: list[str] = []
    line = ""
    for word in one_line(text).split(" "):
        if line and cell_len(line) + 1 + cell_len(word) <= width:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        *full, line = chop_cells(word, max(2, width)) or [""]
        lines.extend(full)
    return [*lines, line]


def flow(parts: Iterable[Text], width: int, gap: str = "   ") -> list[Text]:
    """Set parts next to each other, as many on a line as fit."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + len(gap) + part.cell_len <= width:
            lines[-1].append(gap).append_text(part)
        else:
            lines.append(Text().append_text(part))
    return lines


def frame(title: Text, badge: Text, lines: Sequence[Text], width: int) -> list[Text]:
    """Draw a box: the title on the left of its upper edge, the badge on the right; lines fit ``width - 4`` columns."""
    room = width - 8 - badge.cell_len - _LEAST_RULE
    if title.cell_len > room:
        title = Text(set_cell_size(title.plain, max(1, room - 1)).rstrip() + "…", "bold")
    rule = "─" * max(1, width - 8 - title.cell_len - badge.cell_len)
    top = Text.assemble(("╭─ ", _FRAME), title, (f" {rule} ", _FRAME), badge, (" ─╮", _FRAME))
    body = [
        Text.assemble(("│ ", _FRAME), line, " " * max(0, width - 4 - line.cell_len), (" │", _FRAME)) for line in lines
    ]
    return [top, *body, Text(f"╰{'─' * (width - 2)}╯", _FRAME)]
