"""Amounts and states as text for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gcushare.cluster.card_drawing.bars_and_boxes import letter_of
from gcushare.cluster.card_drawing.node_view import CardPods, HolderState, HolderView, ProcessView
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Health
from gcushare.core.units import GIB, MemoryUnit
from gcushare.core.wording import counted, utc_text
from gcushare.wire.documents.plugin_status import CardStatus, UseStatus

UNKNOWN = "-"
NOT_AVAILABLE = "n/a"
"""What the vendors' own tools print for what a card does not have."""
_MIB = 1 << 20
_UUID_CHARS = 16
"""Longer ones are cut, except in the wide form: their first group tells the cards of one node apart."""


def show_units(units: int, unit: MemoryUnit | None) -> str:
    """Write an amount as the node counts it: ``12 GB``, or ``15 x 0.1GB`` if one unit is a part of a GB."""
    if unit is None:
        return counted(units, "unit")
    return f"{units} x {unit.label}" if unit.label[0].isdigit() else f"{units} {unit.label}"


def show_share(part: int, whole: int, unit: MemoryUnit | None) -> str:
    """Write a part of a card: ``12 of 16 GB``."""
    return f"{part} of {show_units(whole, unit)}"


def show_bytes(size: int, unit: MemoryUnit | None) -> str:
    """Write bytes as GB or GiB, whichever the node's unit uses; both are 2**30 bytes."""
    tail = "iB" if unit is None or unit.label.endswith("iB") else "B"
    if size >= GIB // 10:
        return f"{size / GIB:.1f} G{tail}"
    return f"{size / _MIB:.0f} M{tail}"


def show_percent(part: int, whole: int) -> str:
    """Write whole percents, rounded down; "" if the whole is 0."""
    return f"{part * 100 // whole}%" if whole else ""


def show_figure(value: float | None, unit: str) -> str:
    """Write a reading, or ``-`` without one."""
    return UNKNOWN if value is None else f"{value:.0f}{unit}"


def short_uuid(uuid: str) -> str:
    """Shorten a card's uuid so that it still identifies the card on its node."""
    if len(uuid) <= _UUID_CHARS:
        return uuid
    head = "-".join(uuid.split("-")[:2])
    return f"{head if len(head) < _UUID_CHARS else uuid[: _UUID_CHARS - 1]}…"


_USES = {SERVES_MEMORY: "that share", SERVES_WHOLE: "that want it whole"}


def describe_state(card: CardStatus) -> tuple[tuple[str, str], ...]:
    """Return a card's states, each with its style."""
    health = ("healthy", "green") if card.health is Health.HEALTHY else ("sick", "bold red")
    others = {"cordoned": card.cordoned, "closed": bool(card.closures)}
    return (health, *((word, "yellow") for word, is_so in others.items() if is_so))


def describe_notes(card: CardStatus, pods: CardPods, unit: MemoryUnit | None) -> list[str]:
    """Describe closures, and units that are held without a record: the figures do not show them."""
    notes = []
    for closure in card.closures:
        end = f" until {utc_text(closure.until)} at the latest" if closure.until else ""
        use = _USES.get(closure.use, closure.use)
        notes.append(f"closed to pods {use}{end}: containers of {closure.pod}, deleted by force, may still run")
    if card.unrecorded_units:
        letter, amount = letter_of(len(pods.holders)), show_units(card.unrecorded_units, unit)
        notes.append(f"{letter} {amount} held by pods that no record names")
    return notes


def describe_driver(use: UseStatus) -> tuple[tuple[str, str], ...]:
    """Return the driver's settings of a card, each with its label."""
    switches = {None: NOT_AVAILABLE, True: "on", False: "off"}
    state, fan = use.performance_state, use.fan_percent
    return (
        ("fan", NOT_AVAILABLE if fan is None else show_figure(fan, "%")),
        ("state", NOT_AVAILABLE if state is None else f"P{state}"),
        ("ecc", switches[use.ecc]),
        ("mig", switches[use.mig]),
        ("compute", use.compute_mode or NOT_AVAILABLE),
        ("persistence", UNKNOWN if use.persistence is None else switches[use.persistence]),
        ("power limit", show_figure(use.power_limit_watts, " W")),
        ("cuda", use.cuda_version or UNKNOWN),
    )


def describe_holder(holder: HolderView) -> str:
    """Describe a pod's units by container, and its state."""
    notes = []
    if holder.whole:
        notes.append("the whole card" + (f" for {', '.join(holder.containers)}" if holder.containers else ""))
    elif holder.containers:
        notes.append(", ".join(f"{name} {units}" for name, units in holder.containers.items()))
    if holder.state is HolderState.WAITS:
        notes.append("not admitted yet")
    elif holder.state is HolderState.UNCONFIRMED:
        notes.append("not confirmed by the kubelet yet")
    if holder.over_since:
        notes.append(f"over its grant since {holder.over_since}")
    if holder.idle_since:
        notes.append(f"idle since {holder.idle_since}")
    return "; ".join(notes)


def describe_use(holder: HolderView, granted_bytes: int | None, unit: MemoryUnit | None) -> tuple[str, bool]:
    """Describe what a pod uses, and say whether it is over its grant; "" and False if the use is unknown."""
    if holder.used_bytes is None:
        return "", False
    source = " (driver)" if holder.used_by_driver else ""
    used = f"used {show_bytes(holder.used_bytes, unit)}{source}"
    if granted_bytes is None or holder.used_bytes <= granted_bytes:
        return used, False
    return f"{used}, over by {show_bytes(holder.used_bytes - granted_bytes, unit)}", True


def describe_processes(processes: Sequence[ProcessView], unit: MemoryUnit | None, *, is_wide: bool) -> list[str]:
    """Write each process with its memory and its share of the chip's time; with its name if ``is_wide``."""
    return [
        f"pid {process.pid}{f' {process.name or UNKNOWN}' if is_wide else ''} ({', '.join(_figures(process, unit))})"
        for process in processes
    ]


def _figures(process: ProcessView, unit: MemoryUnit | None) -> list[str]:
    percent = process.utilization_percent
    return [show_bytes(process.bytes, unit), *([] if percent is None else [f"{percent:.0f}% busy"])]
