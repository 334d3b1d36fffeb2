"""One run of a cluster: API server, scheduler, kubelets, cards, users and the real programs, on one loop."""

from __future__ import annotations

import tempfile
from pathlib import Path

from simulation.cards import make_machine
from simulation.cast import Cast
from simulation.containers import Containers
from simulation.control_groups import ControlGroups
from simulation.happenings import Happenings
from simulation.invariants import Invariants, Picture
from simulation.kubelet import Kubelet
from simulation.loop import START_S
from simulation.people import Admins, Forgers, Secrets, Users
from simulation.program import CONFIG
from simulation.programs import ExtenderReplica, PluginReplica
from simulation.schedule import Action, Schedule
from simulation.scheduler import Scheduler
from simulation.service import Service
from simulation.settled import SettledInvariants
from simulation.weather import Weather
from simulation.world import ClusterWorld, play

END_S = 100.0
"""Time after the deletion of everything, until nothing may be left."""
COMPACTED_S = 300.0
"""The API server forgets versions that are older than this."""


class Cluster:
    """A world and everyone in it. Call ``run``; the world's ``violations`` are its failures."""

    def __init__(self, schedule: Schedule, *, keeps_history: bool = False, takes_pictures: bool = False) -> None:
        self.schedule = schedule
        self.world = world = ClusterWorld(schedule, keeps_history=keeps_history)
        self._takes_pictures = takes_pictures
        self.pictures: list[Picture] = []
        """The cluster's state before each action and at the end of the storm."""
        self._folder = tempfile.TemporaryDirectory(prefix="gcushare-simulation-")
        self.cast = cast = Cast()
        self._invariants = Invariants(world, cast)
        self._settled = SettledInvariants(world, cast, self._invariants)
        world.listeners.append(self._invariants.take)
        cast.users, cast.admins, cast.forgers = Users(world, cast.kubelets), Admins(world), Forgers(world)
        cast.secrets = Secrets(world, lambda: cast.extenders[0].clock.now())  # noqa: PLW0108 - there are none yet
        world.weathers["scheduler"] = Weather(world.rng("service"), world.faults)
        cast.service = Service(world, cast.extenders, world.weathers["scheduler"], world.rng("service"))
        cast.scheduler = Scheduler(
            world, world.rng("scheduler"), cast.service, cast.users, self._invariants.check_reasons
        )
        self._happenings = Happenings(world, cast, self._invariants)

    def run(self) -> None:
        """Execute the schedule, then end everything."""
        world = self.world
        try:
            world.counts["runs with limits of the driver"] += world.settings.has_limits
            play(world, self, self.schedule.actions, self.schedule.rounds)
            world.within(self.cast.users.delete_all)
            world.live_until(world.loop.now_s - START_S + END_S)
            world.within(self._settled.check_end)
        finally:
            self._close()
            self._folder.cleanup()

    def _close(self) -> None:
        """Cancel what still runs, so that nothing is left to the garbage collector."""
        cast = self.cast
        ours = [each.process for each in cast.programs()]
        with self.world.loop.entered():
            for process in [*ours, cast.scheduler.process, *(each.process for each in cast.kubelets.values())]:
                self.world.loop.kill(process)

    def act(self, action: Action) -> None:
        """Do what an action says."""
        self._take_picture()
        self._happenings.begin(action)

    def calm(self) -> None:
        """End every fault."""
        self._take_picture()
        self._happenings.end_all()

    def check_settled(self) -> None:
        """Check what must hold after calm."""
        self._settled.check_calm()

    def _take_picture(self) -> None:
        if self._takes_pictures:
            self.pictures.append(self._invariants.picture())

    def start(self) -> None:
        """Start everyone."""
        world, cast = self.world, self.cast
        for number, sizes in enumerate(world.settings.nodes):
            self._add_node(number, sizes)
        for number in range(world.settings.replicas):
            name = f"extender-{number}"
            replica = ExtenderReplica(world, name, world.rng(name), self._invariants.check_one_leader)
            cast.extenders.append(replica)
            pod = {
                "metadata": {"namespace": CONFIG.namespace, "name": name},
                "spec": {"nodeName": "control-plane"},
                "status": {"phase": "Running"},
            }
            world.store.create("pods", pod, "the world")
        cast.secrets.create()
        for kubelet in cast.kubelets.values():
            kubelet.start()
        for program in cast.programs():
            program.start()
        cast.scheduler.start()
        cast.service.probe_replicas()
        self._compact(world.store.version)

    def _add_node(self, number: int, sizes: tuple[int, ...]) -> None:
        world, cast, name = self.world, self.cast, f"node-{number}"
        labels = {"zone": "a" if number % 2 == 0 else "b", world.vendor.label_key: "true"}
        node = {
            "metadata": {"name": name, "labels": labels, "annotations": {}},
            "spec": {},
            "status": {"capacity": {"pods": "110"}, "allocatable": {"pods": "110"}},
        }
        world.store.create("nodes", node, "the world")
        machine = cast.machines[name] = make_machine(name, sizes)
        kubelet = cast.kubelets[name] = Kubelet(world, name, world.rng(f"kubelet/{name}"))
        if world.settings.has_limits:
            machine.groups = ControlGroups(Path(self._folder.name, name), "misc" if number % 2 else "dmem")
            check = self._invariants.check_limits
            cast.containers[name] = Containers(kubelet, machine, machine.groups, check)
        cast.plugins[name] = PluginReplica(world, name, machine, kubelet, world.rng(f"plugin/{name}"))

    def _compact(self, version: int) -> None:
        self.world.store.compact(version)
        self.world.loop.call_world(COMPACTED_S, self._compact, self.world.store.version)
