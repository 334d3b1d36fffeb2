"""What plugins report of a node's cards, pod by pod and process by process: the document of ``-o json``. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import msgspec

from gcushare.core.cards import Health
from gcushare.core.errors import ConfigError
from gcushare.core.nodes import CardMode
from gcushare.core.requests import split_over_cards
from gcushare.core.units import MemoryUnit, parse_memory_unit
from gcushare.wire.documents.plugin_status import (
    CardStatus,
    ClosureStatus,
    LeftOutStatus,
    PluginStatus,
    PodOnNode,
    UnreadableStatus,
)

DOCUMENT_VERSION = 1
"""Of ``-o json``: fields are only added; anything else is a new version."""


class HolderState(enum.Enum):
    """How far a pod is: the kubelet's record shows it, will show it, or has not admitted it yet."""

    HOLDS = "holds"
    UNCONFIRMED = "unconfirmed"
    WAITS = "waits"


class _ViewStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts: camelCase, as the other documents."""


class ProcessView(_ViewStruct, frozen=True):
    """A process on a card, by its id on the node."""

    pid: int
    bytes: int


class HolderView(_ViewStruct, frozen=True):
    """A pod on one card: units of it by container; ``units`` are all of the card's where it is ``whole``.

    ``used_bytes`` is what its processes use of the card, null where it is unknown whose the card's processes are. A pod
    that uses a card without holding it has 0 units. ``over_since``: since when its node reports it as over its grant,
    "" where it does not.
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


class CardView(_ViewStruct, frozen=True):
    """One card. What its library does not report is null; ``processes`` are those of which no pod is known."""

    index: int
    uuid: str
    model: str
    serial: str
    pci: str
    numa_node: int | None
    healthy: bool
    reason: str
    cordoned: bool
    closed: tuple[ClosureStatus, ...]
    mode: CardMode
    memory_bytes: int
    units: int
    reserved_units: int
    granted_units: int
    unrecorded_units: int
    used_bytes: int | None
    temperature_celsius: float | None
    power_watts: float | None
    utilization_percent: float | None
    fan_percent: float | None
    performance_state: int | None
    compute_mode: str | None
    ecc: bool | None
    mig: bool | None
    holders: tuple[HolderView, ...]
    processes: tuple[ProcessView, ...]


class WaitingView(_ViewStruct, frozen=True):
    """A pod that is here and has no card yet."""

    pod: str
    units: int


class NodeView(_ViewStruct, frozen=True):
    """One vendor's cards of one node, as its plugin at ``origin`` answered."""

    node: str
    vendor: str
    origin: str
    version: str
    driver: str
    unit: str | None
    modes: tuple[str, ...]
    problems: dict[str, str]
    cards: tuple[CardView, ...]
    left_out: tuple[LeftOutStatus, ...]
    waiting: tuple[WaitingView, ...]
    unreadable_pods: tuple[UnreadableStatus, ...]


class CardsView(_ViewStruct, frozen=True):
    """Everything: ``failures`` are the plugins that could not be asked, and why."""

    nodes: tuple[NodeView, ...]
    failures: dict[str, str]
    version: int = DOCUMENT_VERSION


Owners = Mapping[int, str]
"""The uid of the pod of a process, by process id, as far as that is certain."""


def unit_of(view: NodeView) -> MemoryUnit | None:
    """The unit that a node counts in; None where it has none yet, or a newer plugin has one that is not known here."""
    try:
        return parse_memory_unit(view.unit) if view.unit is not None else None
    except ConfigError:
        return None


def granted_bytes(holder: HolderView, card: CardView, unit: MemoryUnit | None) -> int | None:
    """What a pod may use of a card: of a whole one all of it; None where the unit is not known."""
    if holder.whole:
        return card.memory_bytes
    return unit.bytes_of(holder.units) if unit is not None else None


def process_ids(status: PluginStatus) -> list[int]:
    """Every process on the node's cards."""
    return sorted({pid for card in status.cards if card.use is not None for pid in card.use.processes})


def view_status(status: PluginStatus, origin: str, owners: Owners) -> NodeView:
    """Turn a plugin's status into the view of its cards; ``origin`` is where it was asked."""
    return NodeView(
        node=status.node,
        vendor=status.vendor,
        origin=origin,
        version=status.version,
        driver=status.driver,
        unit=status.unit,
        modes=status.modes,
        problems=status.problems,
        cards=tuple(_card(card, status.pods, owners) for card in status.cards),
        left_out=status.left_out,
        waiting=tuple(WaitingView(pod=pod.pod, units=pod.units) for pod in status.pods if not _cards_of(pod)),
        unreadable_pods=status.unreadable_pods,
    )


def _card(card: CardStatus, pods: Sequence[PodOnNode], owners: Owners) -> CardView:
    use = card.use
    processes = tuple(
        ProcessView(pid=pid, bytes=size) for pid, size in sorted(use.processes.items() if use is not None else ())
    )
    on_card = [pod for pod in pods if card.index in _cards_of(pod) or (pod.used_by_card or {}).get(card.index)]
    holders = [_holder(pod, card, [p for p in processes if owners.get(p.pid) == pod.uid]) for pod in on_card]
    known = {process.pid for holder in holders for process in holder.processes}
    return CardView(
        index=card.index,
        uuid=card.uuid,
        model=card.model,
        serial=card.serial,
        pci=card.pci,
        numa_node=card.numa_node,
        healthy=card.health == Health.HEALTHY.value,
        reason=card.reason,
        cordoned=card.cordoned,
        closed=card.closed,
        mode=_mode(card.mode, holders),
        memory_bytes=card.memory_bytes,
        units=card.units,
        reserved_units=card.reserved_units,
        granted_units=sum(holder.units for holder in holders if holder.state is not HolderState.WAITS)
        + card.unrecorded_units,
        unrecorded_units=card.unrecorded_units,
        used_bytes=use.memory_used_bytes if use is not None else None,
        temperature_celsius=use.temperature_celsius if use is not None else None,
        power_watts=use.power_watts if use is not None else None,
        utilization_percent=use.utilization_percent if use is not None else None,
        fan_percent=use.fan_percent if use is not None else None,
        performance_state=use.performance_state if use is not None else None,
        compute_mode=use.compute_mode if use is not None else None,
        ecc=use.ecc if use is not None else None,
        mig=use.mig if use is not None else None,
        # Those that are waited for come last, as their part of the bar does.
        holders=tuple(sorted(holders, key=lambda each: (each.state is HolderState.WAITS, each.pod, each.uid))),
        processes=tuple(process for process in processes if process.pid not in known),
    )


def _mode(reported: str, holders: Sequence[HolderView]) -> CardMode:
    """The mode that the plugin reports, else what its pods make of the card; an older plugin grants no whole cards."""
    found = next((mode for mode in CardMode if mode.value == reported), None)
    return found or (CardMode.SHARED if holders else CardMode.FREE)


def _holder(pod: PodOnNode, card: CardStatus, processes: Sequence[ProcessView]) -> HolderView:
    cards = _cards_of(pod)
    # Containers of a pod that use each other's ids after one another add up to more than the pod holds.
    kept = split_over_cards(pod.units, cards).get(card.index, 0) if cards else 0
    has_whole = pod.whole and card.index in cards
    over = (pod.over_use or {}).get(card.index)
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
        used_bytes=_used(pod, card, processes),
        over_since=over.since if over is not None else "",
    )


def _used(pod: PodOnNode, card: CardStatus, processes: Sequence[ProcessView]) -> int | None:
    """What the plugin reports, else the sum of the pod's processes that were found: none found may be unseen."""
    if pod.used_by_card is not None:
        return pod.used_by_card.get(card.index)
    return sum(process.bytes for process in processes) if processes else None


def _state(pod: PodOnNode) -> HolderState:
    if not pod.held_by_card:
        return HolderState.WAITS
    return HolderState.UNCONFIRMED if pod.unconfirmed else HolderState.HOLDS


def _cards_of(pod: PodOnNode) -> tuple[int, ...]:
    """The pod's cards; an older plugin reports them in two other places."""
    return pod.cards or tuple(sorted(pod.held_by_card)) or pod.recorded_cards or ()
