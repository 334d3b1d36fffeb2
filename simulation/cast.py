"""Everyone in a cluster's world, for those who check or disturb them."""

from __future__ import annotations

from dataclasses import dataclass, field

from gcushare.core.units import MemoryUnit
from simulation.cards import Machine
from simulation.containers import Containers
from simulation.kubelet import Kubelet
from simulation.people import Admins, Forgers, Secrets, Users
from simulation.program import Program
from simulation.programs import ExtenderReplica, PluginReplica
from simulation.scheduler import Scheduler
from simulation.service import Service


@dataclass
class Cast:
    """By nodes: machines, kubelets, plugins and, where the driver limits memory, what runs containers."""

    machines: dict[str, Machine] = field(default_factory=dict)
    kubelets: dict[str, Kubelet] = field(default_factory=dict)
    containers: dict[str, Containers] = field(default_factory=dict)
    plugins: dict[str, PluginReplica] = field(default_factory=dict)
    extenders: list[ExtenderReplica] = field(default_factory=list)
    service: Service = field(init=False)
    scheduler: Scheduler = field(init=False)
    users: Users = field(init=False)
    admins: Admins = field(init=False)
    forgers: Forgers = field(init=False)
    secrets: Secrets = field(init=False)

    def programs(self) -> list[Program]:
        """The real ones."""
        return [*self.extenders, *self.plugins.values()]

    def program(self, name: str) -> Program:
        """One of them."""
        return next(each for each in self.programs() if each.name == name)

    def unit_of(self, node: str) -> MemoryUnit | None:
        """The unit that the plugin of a node counts in; None while it is away."""
        inventory = self.plugins[node].inventory
        return inventory.unit if inventory is not None else None
