"""Pictures of clusters for the tests of tables: nodes with their cards, and what pods hold of them."""

from __future__ import annotations

from collections.abc import Sequence

from gcushare.cluster.snapshot import ClusterSnapshot, NodeFacts, PodFacts
from gcushare.core.assignments import Assignment
from gcushare.core.cards import SERVES_MEMORY, InventoryCard
from gcushare.core.units import parse_memory_unit
from gcushare.vendors import ENFLAME, Vendor


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
