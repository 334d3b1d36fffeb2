"""Lines of a given width: folded text, and boxes with a title. Pure.

Widths are those of a terminal: a Chinese character takes two columns. Only a title that does not fit is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text

from gcushare.core.wording import one_line

_FRAME = "bright_black"
_LEAST_RULE = 3


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
