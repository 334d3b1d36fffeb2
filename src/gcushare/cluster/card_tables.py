"""A node's cards and their pods as tables. ``gcushare cards`` and the plugin's ``--status`` print them. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from gcushare.cluster.node_view import CardPods, CardsView, HolderState, HolderView, NodeView, granted_bytes, unit_of
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Health, describe_closure
from gcushare.core.units import GIB
from gcushare.core.wording import one_line
from gcushare.wire.documents.plugin_status import CardStatus, PluginStatus, UseStatus

LEAST_WIDTH = 80
"""On a narrower terminal it is the terminal that breaks the lines."""
_ANY_WIDTH = 100_000
"""Of a pipe, whose lines are searched."""

_CARDS = ("CARD", "UUID", "MODEL", "STATE", "GRANTED({units})", "USED({size})", "TEMP", "POWER", "BUSY")
_HARDWARE = ("CARD", "FULL UUID", "SERIAL", "PCI", "NUMA", "DRIVER({size})", "RESERVED({units})")
_DRIVER = ("CARD", "FAN", "STATE", "ECC", "MIG", "COMPUTE", "PERSISTENCE", "POWER LIMIT", "CUDA")
_PODS = ("CARD", "POD", "GRANTED({units})", "USED({size})", "BUSY", "NOTES")
_FOLDED = ("FULL UUID", "MODEL", "STATE", "POD", "NOTES")
"""Columns that give way on a narrow terminal. The others hold figures."""
_UNKNOWN = "-"
_UUID_CHARS = 16
_SWITCH = {None: _UNKNOWN, True: "on", False: "off"}

_Row = Iterable[str | Text]


def view_lines(found: CardsView, width: int | None, *, is_wide: bool) -> list[Text]:
    """Lay out everything for a terminal of ``width`` columns; None is a pipe."""
    columns = _ANY_WIDTH if width is None else max(width, LEAST_WIDTH)
    lines: list[Text] = []
    for view in found.nodes:
        lines += [Text()] if lines else []
        lines += _NodeTables(view, columns).lines(is_wide)
    return lines


def show_gib(size: int | None) -> str:
    """Write bytes in GB or GiB, which are both 2**30 bytes here."""
    return _UNKNOWN if size is None else f"{size / GIB:.1f}"


def show_figure(value: float | None, unit: str) -> str:
    """Write a reading, or ``-`` without one."""
    return _UNKNOWN if value is None else f"{value:.0f}{unit}"


class _NodeTables:
    """One node: what it is, its cards, how their driver runs them, and the pods on them."""

    def __init__(self, view: NodeView, width: int) -> None:
        self._view, self._width = view, width
        self._unit = unit_of(view.status)
        self._label = self._unit.label if self._unit is not None else "units"
        self._size = "GiB" if self._unit is None or self._label.endswith("iB") else "GB"

    def lines(self, is_wide: bool) -> list[Text]:
        status = self._view.status
        texts = [(f"{_describe_node(status)}; plugin {status.version}, {self._view.origin}", "bold")]
        texts += [(f"problem of {part}: {problem}", "red") for part, problem in sorted(status.problems.items())]
        lines = []
        for text, style in texts:
            folded = textwrap.wrap(one_line(text), self._width, subsequent_indent="  ")
            lines += [Text(line, style) for line in folded]
        lines += self._table(_CARDS, self._card_rows())
        if is_wide:
            lines += self._table(_HARDWARE, map(_hardware_row, status.cards))
            lines += self._table(_DRIVER, map(_driver_row, status.cards))
        return [*lines, *self._table(_PODS, self._pod_rows(is_wide))]

    def _table(self, headings: Iterable[str], rows: Iterable[_Row]) -> Iterator[Text]:
        """Lay out rows below their headings, after an empty line; nothing without rows.

        Foreign text keeps no line break and no escape sequence.
        """
        columns = (
            Column(name.format(units=self._label, size=self._size), overflow="fold", no_wrap=name not in _FOLDED)
            for name in headings
        )
        table = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
        for row in rows:
            cells = (cell if isinstance(cell, Text) else Text(cell) for cell in row)
            table.add_row(*(Text(one_line(cell.plain), cell.style) for cell in cells))
        if table.row_count:
            yield Text()
            for segments in Console(width=self._width, _environ={}).render_lines(table, pad=False):
                line = Text.assemble(*((part.text, part.style or "") for part in segments))
                line.rstrip()
                yield line

    def _card_rows(self) -> Iterator[_Row]:
        for card, pods in zip(self._view.status.cards, self._view.cards, strict=True):
            use = card.use or UseStatus()
            yield (
                str(card.index) if card.minor is None else f"{card.index} (minor number {card.minor})",
                _short_uuid(card.uuid),
                card.model or "unknown model",
                _state(card, pods),
                f"{pods.granted_units}/{card.units}",
                f"{show_gib(use.memory_used_bytes)}/{show_gib(card.memory_bytes)}",
                show_figure(use.temperature_celsius, "°C"),
                show_figure(use.power_watts, "W"),
                show_figure(use.utilization_percent, "%"),
            )
        for left in self._view.status.left_out:
            state = Text(f"not shared: {left.reason}", "yellow")
            yield str(left.index), _short_uuid(left.uuid), _UNKNOWN, state

    def _pod_rows(self, is_wide: bool) -> Iterator[_Row]:
        for card, pods in zip(self._view.status.cards, self._view.cards, strict=True):
            yield from (self._holder_row(card, holder, is_wide) for holder in pods.holders)
            if card.unrecorded_units:
                note = Text("held by pods that no record names", "yellow")
                yield str(card.index), _UNKNOWN, str(card.unrecorded_units), _UNKNOWN, _UNKNOWN, note
            if pods.processes:
                note = Text(f"processes, their pod unknown: {self._processes(pods)}")
                yield str(card.index), _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, note
        without = [
            (pod.pod, f"asks for {pod.units or 'whole cards'}, has no card yet")
            for pod in self._view.status.pods
            if not pod.cards
        ]
        without += [(pod.pod, f"cannot be read: {pod.reason}") for pod in self._view.status.unreadable_pods]
        for name, why in without:
            yield _UNKNOWN, name, _UNKNOWN, _UNKNOWN, _UNKNOWN, Text(why, "yellow")

    def _holder_row(self, card: CardStatus, holder: HolderView, is_wide: bool) -> _Row:
        granted, used = granted_bytes(holder, card, self._unit), holder.used_bytes
        over = max(0, used - granted) if used is not None and granted is not None else 0
        notes = [f"over by {show_gib(over)}"] if over else []
        notes += _describe_holder(holder)
        notes += [f"uid {holder.uid}"] if is_wide and holder.uid else []
        notes += [self._processes(holder)] if holder.processes else []
        return (
            str(card.index),
            holder.pod,
            str(holder.units),
            Text(show_gib(used), "bold red" if over else ""),
            show_figure(holder.utilization_percent, "%"),
            "; ".join(notes),
        )

    def _processes(self, of: HolderView | CardPods) -> str:
        """Write each process with its name, memory and share of the chip's time, as far as they are known."""
        found = []
        for each in of.processes:
            name = f"{each.pid} {each.name}".rstrip()
            busy = "" if each.utilization_percent is None else f", {each.utilization_percent:.0f}% busy"
            found.append(f"pid {name} ({show_gib(each.bytes)} {self._size}{busy})")
        return ", ".join(found)


def _describe_node(status: PluginStatus) -> str:
    parts = [status.node or "?", status.vendor]
    parts += [f"group {status.node_group}"] if status.node_group else []
    parts.append(f"driver {status.driver or 'unknown'}")
    if SERVES_WHOLE in status.modes:
        parts.append("memory and whole cards" if SERVES_MEMORY in status.modes else "whole cards only")
    return "; ".join(parts)


def _state(card: CardStatus, pods: CardPods) -> Text:
    is_sick = card.health is not Health.HEALTHY
    words = [pods.mode.value, f"sick: {card.reason or 'no reason is reported'}" if is_sick else "healthy"]
    words += ["cordoned"] if card.cordoned else []
    words += map(describe_closure, card.closures)
    return Text(", ".join(words), "bold red" if is_sick else "yellow" if len(words) > 2 else "")


def _describe_holder(holder: HolderView) -> Iterator[str]:
    """Describe a pod's units by container, and its state."""
    if holder.whole:
        yield "the whole card" + (f" for {', '.join(holder.containers)}" if holder.containers else "")
    elif holder.containers:
        yield ", ".join(f"{name} {units}" for name, units in holder.containers.items())
    if holder.state is HolderState.WAITS:
        yield "not admitted yet"
    elif holder.state is HolderState.UNCONFIRMED:
        yield "not confirmed by the kubelet yet"
    if holder.used_by_driver:
        yield "use counted by the driver"
    if holder.over_since:
        yield f"over its grant since {holder.over_since}"
    if holder.idle_since:
        yield f"idle since {holder.idle_since}"


def _hardware_row(card: CardStatus) -> _Row:
    place = (card.uuid, card.serial or _UNKNOWN, card.pci_address or _UNKNOWN, show_figure(card.numa_node, ""))
    return str(card.index), *place, show_gib(card.driver_bytes), str(card.reserved_units)


def _driver_row(card: CardStatus) -> _Row:
    """How the driver runs a card."""
    use = card.use or UseStatus()
    return (
        str(card.index),
        show_figure(use.fan_percent, "%"),
        _UNKNOWN if use.performance_state is None else f"P{use.performance_state}",
        _SWITCH[use.ecc],
        _SWITCH[use.mig],
        use.compute_mode or _UNKNOWN,
        _SWITCH[use.persistence],
        show_figure(use.power_limit_watts, "W"),
        use.cuda_version or _UNKNOWN,
    )


def _short_uuid(uuid: str) -> str:
    """A long uuid up to its first group, which tells the cards of one node apart."""
    return f"{'-'.join(uuid.split('-')[:2])}…" if len(uuid) > _UUID_CHARS else uuid or _UNKNOWN
