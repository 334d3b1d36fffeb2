"""``top``: every card's memory granted beside its memory in use, who uses more than granted first to be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from rich.text import Text

from gcushare.core.units import GIB
from gcushare.inspect.layout import Cell, Grid, Row, lay_out
from gcushare.inspect.summary import Summary
from gcushare.inspect.use import POWER, TEMPERATURE, UTILIZATION, CardUseRow

_UNTOLD = "-"
_MAX_PODS = 4


def use_lines(summary: Summary, rows: Sequence[CardUseRow], width: int | None, *, is_wide: bool) -> list[Text]:
    """The table; pods by name only where it is wide, or where somebody uses too much."""
    label = "GiB" if summary.scale.label.endswith("iB") else "GB"
    word = summary.picture.vendor.device_word
    names = (f"GRANTED({label})", f"USED({label})", f"TOTAL({label})", "UTIL", "TEMP", "POWER", "PODS", "NOTE")
    heading = Row((Cell("NAME"), Cell(word)), (), tuple(map(Cell, names)))
    grid = Grid(heading, heading, tuple(_row(row, is_wide=is_wide) for row in rows))
    over = [row for row in rows if row.is_over]
    lines = list(lay_out(grid, width).lines)
    if over:
        lines.append(Text(f"{len(over)} card(s): more is in use than was granted and the driver needs", "red"))
    return lines


def use_report(rows: Sequence[CardUseRow], unread: Mapping[str, str]) -> UseReport:
    """The same for programs, in bytes."""
    cards = [
        CardUseReport(
            node=row.node.name,
            index=row.state.index,
            total_bytes=row.state.card.card.memory_bytes if row.state.card is not None else 0,
            granted_bytes=row.granted_bytes,
            reserved_bytes=row.reserved_bytes,
            used_bytes=row.used_bytes,
            utilization_percent=row.readings.get(UTILIZATION),
            temperature_celsius=row.readings.get(TEMPERATURE),
            power_watts=row.readings.get(POWER),
            over=row.is_over,
            pods=list(row.pods),
        )
        for row in rows
    ]
    return UseReport(version=1, cards=cards, problems=dict(unread))


class CardUseReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One card; null is what nobody tells."""

    node: str
    index: int
    total_bytes: int
    granted_bytes: int | None
    reserved_bytes: int
    used_bytes: int | None
    utilization_percent: float | None
    temperature_celsius: float | None
    power_watts: float | None
    over: bool
    pods: list[str]


class UseReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole document; ``problems`` by plugin that could not be asked, or node without one."""

    version: int
    cards: list[CardUseReport]
    problems: dict[str, str]


def _row(row: CardUseRow, *, is_wide: bool) -> Row:
    style = "bold red" if row.is_over else ""
    total = row.state.card.card.memory_bytes if row.state.card is not None else 0
    cells = (
        Cell(_gib(row.granted_bytes)),
        Cell(_gib(row.used_bytes), style),
        Cell(_gib(total or None)),
        Cell(_figure(row.readings.get(UTILIZATION), "%")),
        Cell(_figure(row.readings.get(TEMPERATURE), "°C")),
        Cell(_figure(row.readings.get(POWER), "W")),
        Cell(_pods(row) if is_wide else str(len(row.pods))),
        Cell(_note(row), style),
    )
    return Row((Cell(row.node.name), Cell(str(row.state.index))), (), cells)


def _note(row: CardUseRow) -> str:
    if not row.is_over:
        return ""
    return f"over by {_gib(row.excess_bytes)}: {_pods(row) or 'nobody holds this card'}"


def _pods(row: CardUseRow) -> str:
    more = f" and {len(row.pods) - _MAX_PODS} more" if len(row.pods) > _MAX_PODS else ""
    return ", ".join(row.pods[:_MAX_PODS]) + more


def _gib(size: int | None) -> str:
    return _UNTOLD if size is None else f"{size / GIB:.1f}"


def _figure(value: float | None, unit: str) -> str:
    return _UNTOLD if value is None else f"{value:.0f}{unit}"
