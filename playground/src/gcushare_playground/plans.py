"""What a playground cluster consists of, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gcushare.core.units import GIB, MemoryUnit, parse_memory_unit
from gcushare.vendors import DEFAULT_VENDOR, Vendor
from gcushare_playground.scheduler import UNSCHEDULABLE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node and its cards' sizes in bytes; the first card is card 0."""

    name: str
    card_bytes: tuple[int, ...] = (16 * GIB,) * 8
    model: str = ""
    is_unified: bool = False
    """Whether the cards have no memory of their own: ``card_bytes`` are then what the plugin is set to offer."""
    driver_bytes: int = 0
    """What the driver keeps of each card for itself."""
    link_groups: tuple[str, ...] = ()
    """Of each card: those of one group are linked. None for cards that say nothing of links."""

    def cards_document(
        self, unhealthy: Mapping[int, str] | None = None, used: Mapping[int, int] | None = None
    ) -> bytes:
        """Write the simulated cards' file.

        Args:
            unhealthy: sick cards with their reasons.
            used: bytes really in use by card, 0 for cards that it leaves out; None where cards tell nothing of it.
        """
        sick = unhealthy or {}
        cards = [
            {"memory": 0 if self.is_unified else size, "model": self.model, "uuid": f"{self.name}-card-{index}"}
            | ({"health": "unhealthy", "reason": sick[index]} if index in sick else {})
            | ({"used": used.get(index, 0)} if used is not None else {})
            | ({"link_group": self.link_groups[index]} if self.link_groups else {})
            | ({"driver": self.driver_bytes} if self.driver_bytes else {})
            for index, size in enumerate(self.card_bytes)
        ]
        return msgspec.json.format(msgspec.json.encode({"cards": cards}), indent=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """A whole cluster: one API server, one scheduler, one extender, and a kubelet and a plugin per node."""

    nodes: tuple[NodePlan, ...]
    vendor: Vendor = DEFAULT_VENDOR
    memory_unit: str = ""
    """Empty: the vendor's own."""
    whole_cards: bool = False
    """Whether nodes serve whole cards and memory, and the extender is called for pods that request whole cards."""
    labels_nodes: bool = True
    """Whether nodes register with the vendor's label; otherwise somebody has to set it."""
    wait_factor: float = 1.0
    """Multiplies the scheduler's backoff between attempts."""
    unschedulable_s: float = UNSCHEDULABLE_S
    """After how long the scheduler tries a pod that fitted nowhere without an event. The scheduler may hear of freed
    room before the extender does; then nothing else brings the pod back."""
    extender_flags: tuple[str, ...] = ("--no-leader-elect",)
    """One replica needs no election, and a killed one need not wait for its own lease to end."""
    dashboard: str = "open"
    """Who may see the extender's page. It listens on loopback, so every user of this machine can reach it."""
    plugin_flags: tuple[str, ...] = ()
    pod_use: bool = False
    """Whether plugins find the pods of processes, in a folder that stands for the host's /proc."""
    status_interval_s: float = 0.5
    """How often a kubelet looks at its Node."""
    machine: Mapping[str, str] = field(
        default_factory=lambda: {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "512Gi", "pods": "500"}
    )

    @property
    def unit(self) -> MemoryUnit:
        return parse_memory_unit(self.memory_unit or self.vendor.default_unit)

    def offers(self, node: NodePlan) -> dict[str, int]:
        """What a node without pods has allocatable, by resource."""
        cards = len(node.card_bytes)
        count = cards * self.vendor.pods_per_count
        offered = {self.vendor.memory_resource: sum(self.units_per_card(node)), self.vendor.count_resource: count}
        return offered | ({self.vendor.whole_card_resource: cards} if self.whole_cards else {})

    def units_per_card(self, node: NodePlan) -> tuple[int, ...]:
        """What each card of a node offers."""
        return tuple(self.unit.units_in(size) for size in node.card_bytes)

    def label(self) -> dict[str, str]:
        """The label that nodes with shared cards carry."""
        key, _, value = self.vendor.node_label.partition("=")
        return {key: value}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cluster keeps its files: short, because unix sockets' paths are."""

    root: Path

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def scheduler_config(self) -> Path:
        return self.root / "scheduler.yaml"

    @property
    def proc(self) -> Path:
        """Stands for the host's /proc."""
        return self.root / "proc"

    def kubelet_dir(self, node: NodePlan) -> Path:
        """Stands for the node's /var/lib/kubelet."""
        return self.root / node.name

    def cards_file(self, node: NodePlan) -> Path:
        """The node's simulated cards."""
        return self.root / f"{node.name}.cards.json"
