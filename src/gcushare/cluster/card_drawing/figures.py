"""Amounts and states in the words that a person reads. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gcushare.cluster.card_drawing.bars import letter_of
from gcushare.cluster.card_drawing.node_view import CardPods, HolderState, HolderView, ProcessView
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Health
from gcushare.core.units import GIB, MemoryUnit
from gcushare.core.wording import utc_text
from gcushare.wire.documents.plugin_status import CardStatus, UseStatus

UNKNOWN = "-"
NOT_AVAILABLE = "n/a"
"""As the vendors' own tools say it of what a card does not have."""
_MIB = 1 << 20
_UUID_CHARS = 16
"""Longer ones are cut where they are not asked for in full: the first group tells cards of one node apart."""


def name_unit(unit: MemoryUnit | None) -> str:
    """What stands behind an amount: ``GB``, or ``x 0.1GB`` where one unit is a part of that."""
    if unit is None:
        return "units"
    return f"x {unit.label}" if unit.label[0].isdigit() else unit.label


def show_units(units: int, unit: MemoryUnit | None) -> str:
    """An amount as the node counts it: ``12 GB``, ``15 x 0.1GB``."""
    return f"{units} {name_unit(unit)}"


def show_share(part: int, whole: int, unit: MemoryUnit | None) -> str:
    """A part of a card: ``12 of 16 GB``."""
    return f"{part} of {show_units(whole, unit)}"


def show_bytes(size: int, unit: MemoryUnit | None) -> str:
    """Bytes in the words of the node's unit, whose GB is 2**30 bytes as its GiB is."""
    tail = "iB" if unit is None or unit.label.endswith("iB") else "B"
    if size >= GIB // 10:
        return f"{size / GIB:.1f} G{tail}"
    return f"{size / _MIB:.0f} M{tail}"


def show_percent(part: int, whole: int) -> str:
    """Whole percents, cut; nothing of nothing."""
    return f"{part * 100 // whole}%" if whole else ""


def show_figure(value: float | None, unit: str) -> str:
    """A reading, or that there is none."""
    return UNKNOWN if value is None else f"{value:.0f}{unit}"


def short_uuid(uuid: str) -> str:
    """Enough of a card's uuid to know it among the cards of one node."""
    if len(uuid) <= _UUID_CHARS:
        return uuid
    head = "-".join(uuid.split("-")[:2])
    return f"{head if len(head) < _UUID_CHARS else uuid[: _UUID_CHARS - 1]}…"


_USES = {SERVES_MEMORY: "that share", SERVES_WHOLE: "that want it whole"}


def describe_state(card: CardStatus) -> tuple[tuple[str, str], ...]:
    """A card's states, each with its style."""
    health = ("healthy", "green") if card.health is Health.HEALTHY else ("sick", "bold red")
    others = {"cordoned": card.cordoned, "closed": bool(card.closures)}
    return (health, *((word, "yellow") for word, is_so in others.items() if is_so))


def describe_notes(card: CardStatus, pods: CardPods, unit: MemoryUnit | None) -> list[str]:
    """What a card's figures cannot say: to whom it is closed and until when, and what is held without a record."""
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
    """How the driver runs a card, each with its label."""
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


def describe_holder(holder: HolderView, unit: MemoryUnit | None) -> str:
    """How a pod has what it has: by container, and how far it is."""
    words = []
    if holder.whole:
        words.append("the whole card" + (f" for {', '.join(holder.containers)}" if holder.containers else ""))
    elif holder.containers:
        words.append(", ".join(f"{name} {units}" for name, units in holder.containers.items()))
    if holder.state is HolderState.WAITS:
        words.append("not admitted yet")
    elif holder.state is HolderState.UNCONFIRMED:
        words.append("not confirmed by the kubelet yet")
    if holder.over_since:
        words.append(f"over its grant since {holder.over_since}")
    return "; ".join(words)


def describe_use(holder: HolderView, granted_bytes: int | None, unit: MemoryUnit | None) -> tuple[str, bool]:
    """What a pod uses, and whether that is more than it was granted; empty where that is unknown."""
    if holder.used_bytes is None:
        return "", False
    used = f"used {show_bytes(holder.used_bytes, unit)}"
    if granted_bytes is None or holder.used_bytes <= granted_bytes:
        return used, False
    return f"{used}, over by {show_bytes(holder.used_bytes - granted_bytes, unit)}", True


def describe_processes(processes: Sequence[ProcessView], unit: MemoryUnit | None, *, is_wide: bool) -> list[str]:
    """Processes with their memory, and how busy they keep the chip; with their names if ``is_wide``."""
    return [
        f"pid {process.pid}{f' {process.name or UNKNOWN}' if is_wide else ''} ({', '.join(_figures(process, unit))})"
        for process in processes
    ]


def _figures(process: ProcessView, unit: MemoryUnit | None) -> list[str]:
    percent = process.utilization_percent
    return [show_bytes(process.bytes, unit), *([] if percent is None else [f"{percent:.0f}% busy"])]
