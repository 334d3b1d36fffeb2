"""Statuses of device plugins and pictures of clusters for the tests of tables; the tables without colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len

from gcushare.cluster.card_tables import LEAST_WIDTH, view_lines
from gcushare.cluster.node_view import CardsView, Owners, view_status
from gcushare.cluster.snapshot import ClusterSnapshot, NodeFacts, PodFacts
from gcushare.core.assignments import Assignment
from gcushare.core.cards import SERVES_MEMORY, Health, InventoryCard
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.documents.plugin_status import CardStatus, PluginStatus, PodOnNode, UseStatus

NO_OWNERS: Owners = {}


def use(used_gib: float, **more: Any) -> UseStatus:
    """What a library tells of a card that uses so much."""
    return UseStatus(memory_used_bytes=int(used_gib * GIB), **more)


def card(index: int, **changes: Any) -> CardStatus:
    """A healthy card of 16 GB that no one is on."""
    facts: dict[str, Any] = {
        "index": index, "uuid": f"GCU-{index}f4e3c2a-77f0-11ef-9a5b-0242ac12000{index % 10}", "model": "S60",
        "serial": f"S{index:04}", "pci_address": f"0000:{index:02x}:00.0", "numa_node": index // 4,
        "memory_bytes": 16 * GIB, "units": 16, "reserved_units": 0, "lost_bytes": 0, "held_units": 0,
        "promised_units": 0, "mode": "free",
    }  # fmt: skip
    return CardStatus(**(facts | changes))


def pod(name: str, held: dict[int, int] | None = None, **changes: Any) -> PodOnNode:
    """A pod that holds units by card in one container."""
    units = held or {}
    facts: dict[str, Any] = {
        "pod": name, "uid": f"uid-of-{name.rpartition('/')[2]}", "units": sum(units.values()),
        "recorded_cards": tuple(units), "assigned": True, "held_by_card": units,
        "containers": {"main": units} if units else {}, "unconfirmed": (), "cards": tuple(units),
    }  # fmt: skip
    return PodOnNode(**(facts | changes))


def status(*cards: CardStatus, pods: tuple[PodOnNode, ...] = (), **changes: Any) -> PluginStatus:
    """A node's status where all is well."""
    facts: dict[str, Any] = {
        "version": "1.2.3", "vendor": "enflame", "node": "node-1", "problems": {}, "unit": "1", "driver": "1.4.2",
        "cards": cards, "left_out": (), "pods": pods, "unreadable_pods": (), "foreign_containers": 0,
        "unconfirmed_allocations": 0, "watch_age_seconds": 3.5, "registrations": 1, "corrections": 2,
    }  # fmt: skip
    return PluginStatus(**(facts | changes))


def cards(*statuses: PluginStatus, owners: Owners = NO_OWNERS) -> CardsView:
    """The cards of some plugins' statuses."""
    return CardsView(nodes=tuple(view_status(each, "plugin.example", owners) for each in statuses), failures={})


def table(found: CardsView, width: int | None, *, is_wide: bool = False) -> str:
    """The lines as a screen without colours shows them; none is longer than the terminal."""
    lines = [line.plain for line in view_lines(found, width, is_wide=is_wide)]
    if width is not None:
        assert [line for line in lines if cell_len(line) > max(width, LEAST_WIDTH)] == []
    return "".join(f"{line}\n" for line in lines)


def busy() -> PluginStatus:
    """Cards of every kind: shared, whole, sick, cordoned, free."""
    return status(
        card(0, mode="shared", use=use(9.1, temperature_celsius=61.4, power_watts=142.0, utilization_percent=87.0,
             processes={4242: 5 * GIB + GIB // 2, 4243: 210 << 20, 99: 64 << 20}), reserved_units=1),
        card(1, mode="whole", use=use(14.9, temperature_celsius=74.0, processes={5000: 14 * GIB})),
        card(2, health=Health.UNHEALTHY, reason="xid 79: the card has fallen off the bus", mode="shared", use=None),
        card(3, cordoned=True, use=use(0.0, temperature_celsius=33.0)),
        pods=(
            pod("default/train-7", {0: 6}, containers={"main": {0: 4}, "side": {0: 2}}),
            pod("team-a/infer-0", {0: 3}),
            pod("team-a/infer-1", units=4, recorded_cards=(0,), cards=(0,), assigned=False),
            pod("team-b/whole-1", {1: 1}, units=0, whole=True),
            pod("default/old", {2: 8}),
        ),
    )  # fmt: skip


def picture_of(*nodes: tuple[str, Sequence[InventoryCard], str], vendor: Vendor = ENFLAME) -> ClusterSnapshot:
    """Nodes by name, cards and unit; each with its own address, and all with a plugin that serves memory."""
    snapshot = ClusterSnapshot(vendor)
    for number, (name, offered, unit) in enumerate(nodes, start=1):
        snapshot.ledger.set_node(name, offered, parse_memory_unit(unit) if unit else None, (SERVES_MEMORY,))
        snapshot.node_facts[name] = NodeFacts(name=name, address=f"10.0.0.{number}")
    return snapshot


def give(
    snapshot: ClusterSnapshot, *assignments: Assignment, corrected: str = "", state: str = "Running"
) -> ClusterSnapshot:
    for each in assignments:
        snapshot.ledger.apply(each)
        snapshot.pods[each.pod.uid] = PodFacts(
            ref=each.pod, state=state, node=each.node, units=each.units, corrected=corrected
        )
    return snapshot
