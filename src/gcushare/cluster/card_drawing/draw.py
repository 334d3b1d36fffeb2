"""Draws a node's cards for a terminal or a pipe: one box per card, with its bars and the pods on it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from gcushare.cluster.card_drawing.bars_and_boxes import (
    BarSegment,
    color_of,
    flow,
    fold,
    frame,
    granted_bar,
    letter_of,
    used_bar,
)
from gcushare.cluster.card_drawing.figures import (
    UNKNOWN,
    describe_driver,
    describe_holder,
    describe_notes,
    describe_processes,
    describe_state,
    describe_use,
    short_uuid,
    show_bytes,
    show_figure,
    show_percent,
    show_share,
    show_units,
)
from gcushare.cluster.card_drawing.node_view import (
    CardPods,
    CardsView,
    HolderState,
    HolderView,
    NodeView,
    granted_bytes,
    unit_of,
)
from gcushare.core.card_state import CardMode
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Health
from gcushare.core.units import MemoryUnit
from gcushare.core.wording import counted, one_line
from gcushare.wire.documents.plugin_status import CardStatus, UseStatus

LEAST_WIDTH, MOST_WIDTH, PIPE_WIDTH = 60, 120, 100
"""Columns of a box: a narrower one has no room for a bar, a wider one shows no more. A pipe has no width of its own."""

_LABEL = 9
"""Columns of the labels ``granted`` and ``used`` with their gap."""
_LEAST_BAR = 10
_MODES = {CardMode.FREE: "dim", CardMode.SHARED: "cyan", CardMode.WHOLE: "bold magenta"}


@dataclass(frozen=True, slots=True)
class Paper:
    """The width and form of a drawing, and the widths of the columns that all boxes of a node share."""

    width: int
    unit: MemoryUnit | None
    is_wide: bool
    figures: int = 0
    names: int = 0
    amounts: int = 0

    @property
    def inner(self) -> int:
        return self.width - 4


def view_lines(found: CardsView, width: int | None, *, is_wide: bool) -> list[Text]:
    """Draw everything for a terminal of ``width`` columns; None is a pipe."""
    columns = PIPE_WIDTH if width is None else max(LEAST_WIDTH, min(width, MOST_WIDTH))
    lines: list[Text] = []
    for view in found.nodes:
        if lines:
            lines.append(Text())
        lines.extend(_node_lines(view, columns, is_wide=is_wide))
    return lines


def _node_lines(view: NodeView, width: int, *, is_wide: bool) -> Iterator[Text]:
    status = view.status
    unit = unit_of(status)
    yield from flow(_header(view, unit), width)
    yield from flow([Text(part, style) for part, style in _summary_parts(view, unit)], width, "  ")
    for part, problem in sorted(status.problems.items()):
        yield from _notes(f"problem of {part}: {problem}", "red", width)
    paper = _measure(view, Paper(width, unit, is_wide))
    for card, pods in zip(status.cards, view.cards, strict=True):
        uuid = one_line(card.uuid if paper.is_wide else short_uuid(card.uuid)) or UNKNOWN
        minor = "" if card.minor is None else f" (minor number {card.minor})"
        title = Text.assemble(
            (str(card.index), "bold"), minor, "  ", (one_line(card.model) or "unknown model", "bold"), "  ", uuid
        )
        badge = Text("  ").join(Text(word, style) for word, style in describe_state(card))
        badge.append("  ").append(pods.mode.value, _MODES[pods.mode])
        yield from frame(title, badge, list(_card_lines(card, pods, paper)), paper.width)
    for left in status.left_out:
        yield from _notes(f"card {left.index} {short_uuid(left.uuid)} is not shared: {left.reason}", "yellow", width)
    for waiting in (pod for pod in status.pods if not pod.cards):
        asked = f"asks for {show_units(waiting.units, unit)} and" if waiting.units else "asks for whole cards and"
        yield from _notes(f"pod {waiting.pod} {asked} has no card yet", "yellow", width)
    for pod in status.unreadable_pods:
        yield from _notes(f"pod {pod.pod} cannot be read: {pod.reason}", "yellow", width)


def _header(view: NodeView, unit: MemoryUnit | None) -> list[Text]:
    status = view.status
    parts = [Text(one_line(status.node) or "?", "bold"), Text(one_line(status.vendor))]
    if status.node_group:
        parts.append(Text(f"group {one_line(status.node_group)}"))
    parts.append(Text(f"driver {one_line(status.driver) or 'unknown'}"))
    if unit is not None:
        parts.append(Text(f"unit {unit.label}"))
    elif status.unit:
        parts.append(Text(f"unit {one_line(status.unit)}"))
    if SERVES_WHOLE in status.modes:
        parts.append(Text("memory and whole cards" if SERVES_MEMORY in status.modes else "whole cards only"))
    parts.append(Text(f"plugin {one_line(status.version)}, {one_line(view.origin)}", "dim"))
    return parts


def _notes(text: str, style: str, width: int) -> list[Text]:
    first, *rest = fold(text, width - 2)
    return [Text(first, style), *(Text(f"  {line}", style) for line in rest)]


def _measure(view: NodeView, paper: Paper) -> Paper:
    """Compute the columns that all boxes of a node share, so that bars and names line up."""
    cards = zip(view.status.cards, view.cards, strict=True)
    figures = max((len(text) for card, pods in cards for text in _figures(card, pods, paper.unit)), default=0)
    holders = [holder for card in view.cards for holder in card.holders]
    names = max((len(holder.pod) for holder in holders), default=0)
    amounts = max((len(show_units(holder.units, paper.unit)) for holder in holders), default=0)
    return replace(paper, figures=figures, names=min(names, paper.inner // 2), amounts=amounts)


def _figures(card: CardStatus, pods: CardPods, unit: MemoryUnit | None) -> tuple[str, str]:
    """Return the figures to the right of the two bars."""
    share = show_share(pods.granted_units, card.units, unit)
    granted = f"{share}  {show_percent(pods.granted_units, card.units):>4}"
    total = show_bytes(card.memory_bytes, unit)
    used_bytes = _use(card).memory_used_bytes
    if used_bytes is None:
        return granted, f"{UNKNOWN} of {total}  {'':>4}"
    number, _, word = show_bytes(used_bytes, unit).partition(" ")
    used = number if total.endswith(f" {word}") else f"{number} {word}"
    return granted, f"{used} of {total}  {show_percent(used_bytes, card.memory_bytes):>4}"


def _use(card: CardStatus) -> UseStatus:
    """Return the card's use, which is unknown until the card was read."""
    return card.use or UseStatus()


def _card_lines(card: CardStatus, pods: CardPods, paper: Paper) -> Iterator[Text]:
    if card.health is not Health.HEALTHY:
        yield from (Text(line, "red") for line in fold(f"sick: {card.reason or 'no reason is reported'}", paper.inner))
    for note in describe_notes(card, pods, paper.unit):
        yield from (Text(line, "yellow") for line in fold(note, paper.inner))
    granted, used = _figures(card, pods, paper.unit)
    width = max(_LEAST_BAR, paper.inner - _LABEL - paper.figures - 4)
    parts = [BarSegment(holder.units, holder.state is HolderState.WAITS) for holder in pods.holders]
    parts += [BarSegment(card.unrecorded_units, False)] if card.unrecorded_units else []
    bar = granted_bar(parts, card.units, width)
    yield Text.assemble("granted".ljust(_LABEL), "▕", bar, "▏", "  ", granted.rjust(paper.figures))
    bar = used_bar(_use(card).memory_used_bytes, card.memory_bytes, width)
    yield Text.assemble("used".ljust(_LABEL), "▕", bar, "▏", "  ", used.rjust(paper.figures))
    yield from flow(_readings(card, paper), paper.inner)
    if paper.is_wide:
        driver = (Text.assemble((f"{label} ", "dim"), one_line(text)) for label, text in describe_driver(_use(card)))
        yield from flow(driver, paper.inner)
    for position, holder in enumerate(pods.holders):
        yield from _holder_lines(position, holder, card, paper)
    if pods.processes:
        whose = "processes, their pod unknown: " if pods.holders else "processes: "
        lines = fold(
            whose + ", ".join(describe_processes(pods.processes, paper.unit, is_wide=paper.is_wide)), paper.inner
        )
        yield from (Text(line, "dim") for line in lines)


def _readings(card: CardStatus, paper: Paper) -> Iterator[Text]:
    use = _use(card)
    for label, text in (
        ("temperature", show_figure(use.temperature_celsius, "°C")),
        ("power", show_figure(use.power_watts, " W")),
        ("busy", show_figure(use.utilization_percent, "%")),
    ):
        yield Text.assemble((f"{label} ", "dim"), text)
    if not paper.is_wide:
        return
    numa = UNKNOWN if card.numa_node is None else str(card.numa_node)
    reserved = show_units(card.reserved_units, paper.unit)
    driver = show_bytes(card.driver_bytes, paper.unit)
    wide = (
        ("serial", card.serial),
        ("pci", card.pci_address),
        ("numa", numa),
        ("driver keeps", driver),
        ("reserved", reserved),
    )
    for label, text in wide:
        yield Text.assemble((f"{label} ", "dim"), one_line(text) or UNKNOWN)


def _holder_lines(position: int, holder: HolderView, card: CardStatus, paper: Paper) -> Iterator[Text]:
    """Draw a pod: letter, name, amount and use. Notes that do not fit, and its processes, go below."""
    amount = show_units(holder.units, paper.unit)
    row = Text.assemble(
        (letter_of(position), f"bold {color_of(position)}"), " ", one_line(holder.pod).ljust(paper.names)
    )
    row.append("  ").append(amount.rjust(paper.amounts), "bold")
    used, is_over = describe_use(holder, granted_bytes(holder, card, paper.unit), paper.unit)
    if used:
        row.append("   ").append(used, "bold red" if is_over else "")
    if holder.utilization_percent is not None:
        row.append(f"   busy {holder.utilization_percent:.0f}%")
    notes = [one_line(describe_holder(holder))]
    if paper.is_wide and holder.uid:
        notes.append(f"uid {one_line(holder.uid)}")
    text = "   ".join(note for note in notes if note)
    if text and row.cell_len + 3 + len(text) <= paper.inner:
        row.append(f"   {text}", "dim")
        text = ""
    # A row whose pod has a very long name goes on in the next line.
    yield from [row] if row.cell_len <= paper.inner else _notes(row.plain, "", paper.inner)
    below: Sequence[str] = [text] if text else []
    if holder.processes:
        below = [*below, ", ".join(describe_processes(holder.processes, paper.unit, is_wide=paper.is_wide))]
    for line in below:
        yield from (Text(f"    {part}", "dim") for part in fold(line, paper.inner - 4))


def _summary_parts(view: NodeView, unit: MemoryUnit | None) -> Iterator[tuple[str, str]]:
    """Sum up a node's cards in one line: counts by state, memory granted and in use; each part with its style."""
    cards = view.status.cards
    yield counted(len(cards), "card"), ""
    for word, style, count in (
        ("sick", "bold red", sum(card.health is not Health.HEALTHY for card in cards)),
        ("cordoned", "yellow", sum(card.cordoned for card in cards)),
    ):
        if count:
            yield f"{count} {word}", style
    modes = ((mode.value, sum(pods.mode is mode for pods in view.cards)) for mode in CardMode)
    reported = ", ".join(f"{count} {word}" for word, count in modes if count)
    if reported:
        yield reported, ""
    if cards:
        granted, units = sum(pods.granted_units for pods in view.cards), sum(card.units for card in cards)
        yield f"granted {show_share(granted, units, unit)}", ""
    used = [size for card in cards if (size := _use(card).memory_used_bytes) is not None]
    if used:
        yield f"used {show_bytes(sum(used), unit)}", ""
    yield counted(len({(holder.pod, holder.uid) for pods in view.cards for holder in pods.holders}), "pod"), ""
