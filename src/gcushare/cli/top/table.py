"""``top``: every card's and pod's memory granted beside that in use, who uses more than granted first to be seen."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

import msgspec
from rich.text import Text

from gcushare.cli.inspect.summary import Summary
from gcushare.cli.terminal.layout import Cell, Grid, Row, lay_out
from gcushare.cli.top.memory_use import POWER, TEMPERATURE, UNATTRIBUTED, UTILIZATION, CardUseRow, PodUseRow
from gcushare.core.units import GIB
from gcushare.core.wording import some_names

_UNKNOWN = "-"
_MAX_PODS = 4


def use_lines(summary: Summary, rows: Sequence[CardUseRow], width: int | None, *, is_wide: bool) -> list[Text]:
    """The table; pods by name only where it is wide, or where somebody uses too much."""
    label, word = _words(summary)
    names = (f"GRANTED({label})", f"USED({label})", f"TOTAL({label})", "UTIL", "TEMP", "POWER", "PODS", "NOTE")
    heading = Row((Cell("NAME"), Cell(word)), (), tuple(map(Cell, names)))
    grid = Grid(heading, heading, tuple(_row(row, is_wide=is_wide) for row in rows))
    over = [row for row in rows if row.is_over]
    lines = list(lay_out(grid, width).lines)
    if over:
        lines.append(Text(f"{_count(len(over), 'card')}: more is in use than was granted and the driver needs", "red"))
    return lines


def pod_use_lines(summary: Summary, rows: Sequence[PodUseRow], width: int | None) -> list[Text]:
    """The table of pods; nothing where no plugin tells what they use."""
    if not rows:
        return []
    label, word = _words(summary)
    heading = Row(tuple(map(Cell, ("NAME", word, "POD", f"GRANTED({label})", f"USED({label})", "NOTE"))), ())
    grid = Grid(heading, heading, tuple(_pod_row(row) for row in rows))
    lines = [Text(), *lay_out(grid, width).lines]
    over = sum(row.is_over for row in rows)
    if over:
        lines.append(Text(f"{_count(over, 'pod')}: more is in use than was granted", "red"))
    return lines


def use_report(rows: Sequence[CardUseRow], pods: Sequence[PodUseRow], unread: Mapping[str, str]) -> UseReport:
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
            unattributed_bytes=_bytes(row.readings.get(UNATTRIBUTED)),
        )
        for row in rows
    ]
    reported = [
        PodUseReport(
            node=row.node,
            index=row.index,
            pod=row.pod,
            granted_bytes=row.granted_bytes,
            used_bytes=row.used_bytes,
            over=row.is_over,
        )
        for row in pods
    ]
    return UseReport(version=1, cards=cards, pods=reported, problems=dict(unread))


def use_csv(report: UseReport) -> str:
    """A line per card, whose pod is empty, and one for each pod of which it is told what it uses of the card."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["node", "card", "pod", "total_bytes", "granted_bytes", "reserved_bytes", "used_bytes", "unattributed_bytes",
         "utilization_percent", "temperature_celsius", "power_watts", "over"]
    )  # fmt: skip
    for card in report.cards:
        writer.writerow(
            [card.node, card.index, "", card.total_bytes, card.granted_bytes, card.reserved_bytes, card.used_bytes,
             card.unattributed_bytes, card.utilization_percent, card.temperature_celsius, card.power_watts,
             str(card.over).lower()]
        )  # fmt: skip
        for pod in report.pods:
            if (pod.node, pod.index) == (card.node, card.index):
                writer.writerow(
                    [pod.node, pod.index, pod.pod, "", pod.granted_bytes, "", pod.used_bytes, "", "", "", "",
                     str(pod.over).lower()]
                )  # fmt: skip
    return text.getvalue()


class CardUseReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One card; null is what nobody tells. ``unattributed_bytes`` are those of processes that belong to no pod."""

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
    unattributed_bytes: int | None


class PodUseReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod on one card."""

    node: str
    index: int
    pod: str
    granted_bytes: int
    used_bytes: int
    over: bool


class UseReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole document; ``problems`` by plugin that could not be asked, or node without one.

    ``pods`` are those of the nodes whose plugins tell what each uses.
    """

    version: int
    cards: list[CardUseReport]
    pods: list[PodUseReport]
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


def _pod_row(row: PodUseRow) -> Row:
    style = "bold red" if row.is_over else ""
    note = f"over by {_gib(row.excess_bytes)}" if row.is_over else ""
    cells = (_gib(row.granted_bytes), _gib(row.used_bytes), note)
    styled = (Cell(cells[0]), Cell(cells[1], style), Cell(cells[2], style))
    return Row((Cell(row.node), Cell(str(row.index)), Cell(row.pod), *styled), ())


def _words(summary: Summary) -> tuple[str, str]:
    """What amounts and cards are called."""
    return "GiB" if summary.scale.label.endswith("iB") else "GB", summary.snapshot.vendor.device_word


def _bytes(value: float | None) -> int | None:
    return None if value is None else int(value)


def _note(row: CardUseRow) -> str:
    if not row.is_over:
        return ""
    return f"over by {_gib(row.excess_bytes)}: {_pods(row) or 'no pod holds this card'}"


def _pods(row: CardUseRow) -> str:
    return some_names(row.pods, _MAX_PODS)


def _gib(size: int | None) -> str:
    return _UNKNOWN if size is None else f"{size / GIB:.1f}"


def _figure(value: float | None, unit: str) -> str:
    return _UNKNOWN if value is None else f"{value:.0f}{unit}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"
