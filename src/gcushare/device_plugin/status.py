"""What this node believes, as one document: cards, units, pods with what the kubelet gave them, and every problem.

Served as JSON on /status and shown by ``--status``; for people and for support, not a contract between programs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gcushare._version import __version__
from gcushare.core.cards import Inventory
from gcushare.device_plugin.metrics import Observed
from gcushare.device_plugin.pod_book import PodEntry, peak_per_card

WATCH_STALE_S = 150.0
"""Twice the silence after which a watch counts as dead: it was opened anew by then, had anybody answered."""


class _Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts: camelCase, as the other documents."""


class CardStatus(_Document, frozen=True):
    """One card: ``lost_bytes`` fit no whole unit, ``promised_units`` are kept for pods that were not admitted yet."""

    index: int
    uuid: str
    model: str
    serial: str
    pci: str
    numa_node: int | None
    memory_bytes: int
    units: int
    reserved_units: int
    lost_bytes: int
    held_units: int
    promised_units: int
    health: str
    reason: str
    cordoned: bool


class LeftOutStatus(_Document, frozen=True):
    """A card that is not shared, and why."""

    index: int
    uuid: str
    reason: str


class PodStatus(_Document, frozen=True):
    """One pod: what its record says, what the kubelet gave it, and which containers the kubelet has not shown yet."""

    pod: str
    uid: str
    units: int
    recorded_cards: tuple[int, ...]
    assigned: bool
    held_by_card: dict[int, int]
    containers: dict[str, dict[int, int]]
    unconfirmed: tuple[str, ...]


class UnreadableStatus(_Document, frozen=True):
    """A pod that cannot be read, and why."""

    pod: str
    reason: str


class NodeStatus(_Document, frozen=True):
    """The whole. ``problems`` is by the part that has one, and empty when all is well."""

    version: str
    vendor: str
    node: str
    problems: dict[str, str]
    unit: str | None
    driver: str
    cards: tuple[CardStatus, ...]
    left_out: tuple[LeftOutStatus, ...]
    pods: tuple[PodStatus, ...]
    unreadable_pods: tuple[UnreadableStatus, ...]
    foreign_containers: int
    unconfirmed_allocations: int
    watch_age_seconds: float | None
    registrations: int
    corrections: int


def describe_node(observed: Observed) -> NodeStatus:
    """Describe the plugin's state of now."""
    inventory = observed.agent.inventory
    age_s = observed.watch_age_s()
    return NodeStatus(
        version=__version__,
        vendor=observed.vendor,
        node=observed.node,
        problems=problems(observed),
        unit=inventory.unit.name if inventory is not None else None,
        driver=inventory.driver if inventory is not None else "",
        cards=_cards(inventory, observed) if inventory is not None else (),
        left_out=tuple(
            LeftOutStatus(index=card.index, uuid=card.uuid, reason=card.reason)
            for card in (inventory.left_out if inventory is not None else ())
        ),
        pods=tuple(_pod(entry) for _, entry in sorted(observed.book.entries.items())),
        unreadable_pods=tuple(
            UnreadableStatus(pod=str(pod.pod), reason=pod.reason) for pod in observed.book.unreadable
        ),
        foreign_containers=observed.agent.foreign_containers,
        unconfirmed_allocations=observed.book.open_guesses,
        watch_age_seconds=None if age_s is None else round(age_s, 1),
        registrations=observed.endpoint.registrations,
        corrections=observed.keeper.counters.corrections,
    )


def problems(observed: Observed) -> dict[str, str]:
    """Everything that is wrong now, by the part that says so; empty when all is well."""
    parts: Mapping[str, str] = {
        "cards": observed.agent.problem,
        "registration": observed.endpoint.problem,
        "kubeletRecord": observed.keeper.problem,
        "node": observed.publisher.problem,
        "pods": _watch_problem(observed.watch_age_s()),
        "cdi": observed.cdi.problem,
    }
    return {name: problem for name, problem in parts.items() if problem}


def _watch_problem(age_s: float | None) -> str:
    if age_s is None:
        return "this node's pods were not listed yet; see the log for the API server's answer"
    if age_s > WATCH_STALE_S:
        return f"nothing was heard from the API server for {age_s:.0f}s; pods already seen are served"
    return ""


def _cards(inventory: Inventory, observed: Observed) -> tuple[CardStatus, ...]:
    held, promised = observed.book.held_units(), observed.book.promised()
    return tuple(
        CardStatus(
            index=card.index,
            uuid=card.card.uuid,
            model=card.card.model,
            serial=card.card.serial,
            pci=card.card.pci_address,
            numa_node=card.card.numa_node,
            memory_bytes=card.card.memory_bytes,
            units=card.units,
            reserved_units=card.reserved_units,
            lost_bytes=inventory.unit.remainder_bytes(card.card.memory_bytes),
            held_units=held.get(card.index, 0),
            promised_units=promised.get(card.index, 0),
            health=card.health.value,
            reason=card.reason,
            cordoned=card.cordoned,
        )
        for card in inventory.cards
    )


def _pod(entry: PodEntry) -> PodStatus:
    return PodStatus(
        pod=str(entry.ref),
        uid=entry.ref.uid,
        units=entry.request.total_units,
        recorded_cards=entry.record.card_indexes if entry.record is not None else (),
        assigned=entry.record.assigned if entry.record is not None else False,
        held_by_card=dict(sorted(peak_per_card(entry).items())),
        containers={name: dict(sorted(counts.items())) for name, counts in entry.held.items()},
        unconfirmed=tuple(sorted(entry.guessed)),
    )
