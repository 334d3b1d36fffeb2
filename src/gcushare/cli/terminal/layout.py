"""Columns of text that fit a terminal: one line per row if there is room, else cards folded over several lines.

Widths are those of a terminal: a Chinese character takes two columns. Nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len
from rich.text import Span, Text

from gcushare.core.log_fields import escape

GAP = "  "


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of text with a style of ``rich``, "" for none. Escape sequences in the text are made visible."""

    text: str
    style: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", escape(self.text))

    @property
    def width(self) -> int:
        return cell_len(self.text)


EMPTY = Cell("")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the first cells, one cell per card, and the last cells."""

    first: tuple[Cell, ...]
    cards: tuple[Cell, ...]
    last: tuple[Cell, ...] = ()

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (*self.first, *self.cards, *self.last)

    @property
    def sides(self) -> tuple[Cell, ...]:
        """The cells apart from the cards."""
        return (*self.first, *self.last)


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[Cell | str]], width: int | None) -> list[Text]:
    """Lay out rows of cells below their headings for a terminal of ``width`` columns; None is any width."""
    cells = (tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
    heading = Row(tuple(map(Cell, headings)), ())
    return lay_out(heading, heading, [Row(row, ()) for row in cells], width)[0]


def lay_out(heading: Row, short: Row, rows: Sequence[Row], width: int | None) -> tuple[list[Text], bool]:
    """Lay out rows for a terminal of ``width`` columns; None is any width.

    Returns the lines, and whether ``short``, the heading to use if the full one does not fit, was used.
    """
    whole, grid = [heading, *rows], [short, *rows]
    if width is None or _line_width(whole) <= width:
        return _set_rows(whole), False
    return _set_rows(grid) if _line_width(grid) <= width else _fold(grid, width), True


def _line_width(rows: Sequence[Row]) -> int:
    widths = _widths([row.cells for row in rows])
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _fold(rows: Sequence[Row], width: int) -> list[Text]:
    """Give each row as many lines as its cards need: next to its other cells, or below them if that takes fewer."""
    count = len(rows[0].cards)
    card_width = max((cell.width for row in rows for cell in row.cards), default=0)
    sides = sum(size + len(GAP) for size in _widths([row.sides for row in rows]))
    next_to = (width - sides + len(GAP)) // (card_width + len(GAP))
    below = max(1, (width - len(GAP)) // (card_width + len(GAP)))
    if next_to < 1 or -(-count // next_to) > 1 + -(-count // below):
        return _fold_below(rows, width, (card_width, below))
    return _set_rows([line for row in rows for line in _split_row(row, next_to)])


def _split_row(row: Row, per_line: int) -> list[Row]:
    """Split a row: its first and last cells go on the first line; lines without cards are left out."""
    lines = []
    for start in range(0, max(1, len(row.cards)), per_line):
        cards = row.cards[start : start + per_line]
        cards += (EMPTY,) * (per_line - len(cards))
        if start == 0:
            lines.append(Row(row.first, cards, row.last))
        elif any(cell.text for cell in cards):
            lines.append(Row((EMPTY,) * len(row.first), cards, (EMPTY,) * len(row.last)))
    return lines


def _fold_below(rows: Sequence[Row], width: int, cards: tuple[int, int]) -> list[Text]:
    """Put cards and other cells that do not fit on indented lines. ``cards``: their width, and how many fit a line."""
    card_width, per_line = cards
    widths = _widths([row.sides for row in rows])
    breaks = _break_columns(widths, width, len(rows[0].first))
    lines = []
    for row in rows:
        for start, end in pairwise(breaks):
            if start == 0 or any(cell.text for cell in row.sides[start:end]):
                lines.append(_set_line(row.sides[start:end], widths[start:end], GAP if start else ""))
        for start in range(0, len(row.cards), per_line):
            part = row.cards[start : start + per_line]
            if any(cell.text for cell in part):
                lines.append(_set_line(part, [card_width] * len(part), GAP))
    return lines


def _break_columns(widths: Sequence[int], width: int, least: int) -> list[int]:
    """Return where lines begin, as column numbers. The first ``least`` columns stay on one line."""
    breaks, used = [0], 0
    for index, size in enumerate(widths):
        if index >= least and used + size > width:
            breaks.append(index)
            used = len(GAP)
        used += size + len(GAP)
    return [*breaks, len(widths)]


def _set_rows(rows: Sequence[Row]) -> list[Text]:
    widths = _widths([row.cells for row in rows])
    return [_set_line(row.cells, widths) for row in rows]


def _set_line(cells: Sequence[Cell], widths: Sequence[int], indent: str = "") -> Text:
    """Write cells in columns, without blanks at the end of the line."""
    line, spans = indent, []
    for cell, width in zip(cells, widths, strict=True):
        if cell.style:
            spans.append(Span(len(line), len(line) + len(cell.text), cell.style))
        line += cell.text + " " * (width - cell.width) + GAP
    return Text(line.rstrip(), spans=spans)


def _widths(rows: Sequence[Sequence[Cell]]) -> list[int]:
    return [max(cell.width for cell in column) for column in zip(*rows, strict=True)]
