"""Tables of what was measured, shown when the run is over."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Figures:
    """The tables of one run."""

    tables: list[str] = field(default_factory=list)

    def add(self, title: str, *rows: tuple[str, ...]) -> None:
        """Keep a table; the first row is its heading."""
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
        lines = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
        ]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        self.tables.append("\n".join([title, "", *lines]))
