"""What plugins report of a node's cards, by pod and process: the document of ``gcushare cards -o json``. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from gcushare.core.card_state import CardMode
from gcushare.core.errors import ConfigError
from gcushare.core.requests import split_over_cards
from gcushare.core.units import MemoryUnit, parse_memory_unit
from gcushare.wire.documents.plugin_status import CardStatus, PluginStatus, PodOnNode, UseStatus

Amount = TypeVar("Amount", int, float)

DOCUMENT_VERSION = 1
"""Of ``-o json``: fields are only added; anything else is a new version."""


class HolderState(enum.Enum):
    """How far a pod is: the kubelet shows it, will show it, or has not admitted it yet."""

    HOLDS = "holds"
    UNCONFIRMED = "unconfirmed"
    WAITS = "waits"


class _ViewStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the parts: camelCase, as the other documents."""


class ProcessView(_ViewStruct, frozen=True):
    """A process on a card, by its id on the node. ``utilization_percent`` is null and ``name`` "" if unknown."""

    pid: int
    bytes: int
    utilization_percent: float | None = None
    name: str = ""


class HolderView(_ViewStruct, frozen=True):
    """A pod on one card. ``units`` are those it holds, all of the card's if it is ``whole``; also by container.

    ``used_bytes`` is what its processes use of the card, null if it is unknown which pods the processes belong to. A
    pod that uses a card without holding it has 0 units. ``over_since``: since when its node reports it as over its
    grant, "" if it does not; ``idle_since``: since when it has not used its cards, likewise.
    ``highest_bytes``: the most that it used since ``seen_since``; null and "" if its plugin does not report it.
    ``used_by_driver``: whether the driver counts ``used_bytes``. ``utilization_percent``: how
    much of the chip's time it uses, null if that is not sampled.
    """

    pod: str
    uid: str
    units: int
    whole: bool
    state: HolderState
    containers: dict[str, int]
    processes: tuple[ProcessView, ...]
    used_bytes: int | None
    over_since: str
    used_by_driver: bool = False
    utilization_percent: float | None = None
    idle_since: str = ""
    highest_bytes: int | None = None
    seen_since: str = ""


class CardPods(_ViewStruct, frozen=True):
    """The pods on a card, its granted units, and the processes whose pod is unknown."""

    index: int
    mode: CardMode
    granted_units: int
    holders: tuple[HolderView, ...]
    processes: tuple[ProcessView, ...]


class NodeView(_ViewStruct, frozen=True):
    """One vendor's cards of one node: the status that the plugin at ``origin`` answered, and the pods on each card."""

    origin: str
    status: PluginStatus
    cards: tuple[CardPods, ...]


class CardsView(_ViewStruct, frozen=True):
    """The document. ``failures`` says why plugins could not be asked, by plugin."""

    nodes: tuple[NodeView, ...]
    failures: dict[str, str]
    version: int = DOCUMENT_VERSION


Owners = Mapping[int, str]
"""The uid of a process's pod, by process id; without the processes whose pod is uncertain."""


def unit_of(status: PluginStatus) -> MemoryUnit | None:
    """Return the unit that a node counts in; None if it has none yet, or if a newer plugin uses one unknown here."""
    try:
        return parse_memory_unit(status.unit) if status.unit is not None else None
    except ConfigError:
        return None


def granted_bytes(holder: HolderView, card: CardStatus, unit: MemoryUnit | None) -> int | None:
    """Return how many bytes of a card a pod may use, all of them if it holds it whole; None if the unit is unknown."""
    if holder.whole:
        return card.memory_bytes
    return unit.bytes_of(holder.units) if unit is not None else None


def process_ids(status: PluginStatus) -> list[int]:
    """Return the ids of all processes on the node's cards."""
    return sorted({pid for card in status.cards if card.use is not None for pid in card.use.processes})


def view_status(status: PluginStatus, origin: str, owners: Owners) -> NodeView:
    """Sort a plugin's status by card; ``origin`` is the address of the plugin."""
    return NodeView(origin, status, tuple(_card_pods(card, status.pods, owners) for card in status.cards))


def _card_pods(card: CardStatus, pods: Sequence[PodOnNode], owners: Owners) -> CardPods:
    use = card.use or UseStatus()
    processes = tuple(
        ProcessView(pid, size, use.process_utilization.get(pid), use.process_names.get(pid, ""))
        for pid, size in sorted(use.processes.items())
    )
    on_card = [pod for pod in pods if card.index in pod.cards or (pod.used_by_card or {}).get(card.index)]
    holders = [_holder(pod, card, [p for p in processes if owners.get(p.pid) == pod.uid]) for pod in on_card]
    known = {process.pid for holder in holders for process in holder.processes}
    granted = sum(holder.units for holder in holders if holder.state is not HolderState.WAITS)
    # A newer plugin may know more modes: then the pods tell.
    found = next((mode for mode in CardMode if mode.value == card.mode), None)
    return CardPods(
        index=card.index,
        mode=found or (CardMode.SHARED if holders else CardMode.FREE),
        granted_units=granted + card.unrecorded_units,
        # Waiting pods come last, in the bar too.
        holders=tuple(sorted(holders, key=lambda each: (each.state is HolderState.WAITS, each.pod, each.uid))),
        processes=tuple(process for process in processes if process.pid not in known),
    )


def _holder(pod: PodOnNode, card: CardStatus, processes: Sequence[ProcessView]) -> HolderView:
    cards = pod.cards
    # Init containers reuse ids of others: all containers together may have more than the pod holds.
    kept = split_over_cards(pod.units, cards).get(card.index, 0) if cards else 0
    has_whole = pod.whole and card.index in cards
    over = (pod.over_use or {}).get(card.index)
    sampled = [each.utilization_percent for each in processes if each.utilization_percent is not None]
    return HolderView(
        pod=pod.pod,
        uid=pod.uid,
        units=card.units if has_whole else pod.held_by_card.get(card.index, kept),
        whole=has_whole,
        state=_state(pod),
        containers={
            name: card.units if has_whole else counts[card.index]
            for name, counts in sorted(pod.containers.items())
            if card.index in counts
        },
        processes=tuple(processes),
        used_bytes=_reported(pod.used_by_card, card, [each.bytes for each in processes]),
        over_since=over.since if over is not None else "",
        used_by_driver=card.index in pod.used_by_driver,
        utilization_percent=_reported(pod.utilization_by_card, card, sampled),
        idle_since=pod.idle_since,
        highest_bytes=pod.highest_by_card.get(card.index, 0) if pod.highest_by_card is not None else None,
        seen_since=pod.seen_since,
    )


def _reported(by_card: Mapping[int, Amount] | None, card: CardStatus, amounts: Sequence[Amount]) -> Amount | None:
    """Return what the plugin reports, else the sum over the known processes; None without any: they may be hidden."""
    if by_card is not None:
        return by_card.get(card.index)
    return sum(amounts) if amounts else None


def _state(pod: PodOnNode) -> HolderState:
    if not pod.held_by_card:
        return HolderState.WAITS
    return HolderState.UNCONFIRMED if pod.unconfirmed else HolderState.HOLDS
