"""One run of the simulation: API server, scheduler, kubelets, cards, users and the real programs, on one loop."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gcushare.core.units import MemoryUnit
from gcushare.node.grant_form import read_given
from gcushare.vendors import VENDORS_BY_NAME
from gcushare.wire.kubelet.device_ids import cards_of_ids, decode_whole_card_id
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare_playground.apiserver.storage import Change
from simulation.bugs import Bug, find_bug
from simulation.cards import Machine, make_machine
from simulation.certificates import Secrets
from simulation.containers import Containers
from simulation.control_groups import ControlGroups
from simulation.faults import Happenings
from simulation.invariants import Invariants, Picture
from simulation.kubelet import Kubelet
from simulation.loop import START_S
from simulation.people import Admins, Forgers, Users
from simulation.program import CONFIG, Program
from simulation.programs import ExtenderReplica, PluginReplica
from simulation.rounds import RoundsWorld
from simulation.schedule import Action, Schedule
from simulation.scheduler import Scheduler
from simulation.service import Service
from simulation.settled import SettledInvariants
from simulation.views import View
from simulation.weather import Weather

END_S = 100.0
"""Time after the deletion of everything, until nothing may be left."""
COMPACTED_S = 300.0
"""The API server forgets versions that are older than this."""


class World(RoundsWorld):
    """One run. Call ``run``; ``violations`` are its failures."""

    def __init__(self, schedule: Schedule, *, keeps_history: bool = False, takes_pictures: bool = False) -> None:
        self.settings = schedule.settings
        super().__init__(self.rng("api"), keeps_history=keeps_history)
        self._takes_pictures = takes_pictures
        self._folder = tempfile.TemporaryDirectory(prefix="gcushare-simulation-")
        self.schedule = schedule
        self.vendor = VENDORS_BY_NAME[self.settings.vendor]
        self.pictures: list[Picture] = []
        """The cluster's state before each action and at the end of the storm."""
        self._numbers = 0
        self.views: list[View] = []
        self.weathers: dict[str, Weather] = {}
        self.bugs: Bug = find_bug(schedule.planted)
        self.invariants = Invariants(self)
        self._settled = SettledInvariants(self, self.invariants)
        self.secrets = Secrets(self)
        self.users, self.admins, self.forgers = Users(self), Admins(self), Forgers(self)
        self.happenings = Happenings(self)
        self.machines: dict[str, Machine] = {}
        self.kubelets: dict[str, Kubelet] = {}
        self.plugins: dict[str, PluginReplica] = {}
        self.extenders: list[ExtenderReplica] = []
        self.weathers["scheduler"] = Weather(self.rng("service"), self.faults)
        self.service = Service(self, self.weathers["scheduler"], self.rng("service"))
        self.scheduler = Scheduler(self, self.rng("scheduler"))

    # What its parts use

    def rng(self, name: str) -> random.Random:
        """The random generator of one part, so that omitting an action does not change other parts."""
        return random.Random(f"{self.settings.seed}/{name}")

    def next_number(self) -> int:
        """A new unique number."""
        self._numbers += 1
        return self._numbers

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

    def units_held(self, kubelet: Kubelet, uid: str) -> dict[int, int]:
        """What a pod holds at its kubelet: memory units by card. Ids of init containers count once."""
        return cards_of_ids(self._ids_held(kubelet, uid, self.vendor.memory_resource))

    def whole_cards_held(self, kubelet: Kubelet, uid: str) -> set[int]:
        """The whole cards that a pod holds at its kubelet, including those of its init containers."""
        ids = self._ids_held(kubelet, uid, self.vendor.whole_card_resource)
        return {decode_whole_card_id(device_id) for device_id in ids}

    def given(self, kubelet: Kubelet, uid: str) -> dict[int, str]:
        """The uuids of a pod's cards by number, by the answers that its kubelet stored; empty where they name none."""
        found: dict[int, str] = {}
        for entry in kubelet.devices.entries():
            if entry.pod_uid == uid:
                whole = entry.resource == self.vendor.whole_card_resource
                numbers = {decode_whole_card_id(each) for each in entry.ids} if whole else cards_of_ids(entry.ids)
                answer = pb.ContainerAllocateResponse.FromString(entry.answer)
                found |= read_given(self.vendor, sorted(numbers), answer.envs, ())
        return found

    def slots_held(self, kubelet: Kubelet, uid: str, ids: Iterable[str] | None = None) -> dict[int, int]:
        """Units of memory by the slot of the card: of all of a pod's ids, or of these."""
        given, machine = self.given(kubelet, uid), self.machines[kubelet.node]
        counts = self.units_held(kubelet, uid) if ids is None else cards_of_ids(ids)
        return {machine.slot_of(given[number]): units for number, units in counts.items()}

    @staticmethod
    def _ids_held(kubelet: Kubelet, uid: str, resource: str) -> frozenset[str]:
        return kubelet.devices.pod_ids(uid, resource)

    # Its life

    def run(self) -> None:
        """Execute the schedule, then end everything."""
        try:
            self._live()
        finally:
            self._close()
            self._folder.cleanup()

    def _close(self) -> None:
        """Cancel what still runs, so that nothing is left to the garbage collector."""
        with self.loop.entered():
            for process in [each.process for each in self.programs()]:
                self.loop.kill(process)
            for process in [self.scheduler.process, *(each.process for each in self.kubelets.values())]:
                self.loop.kill(process)

    def _live(self) -> None:
        self.counts["runs with limits of the driver"] += self.settings.has_limits
        self.play(self.schedule.actions, self.schedule.rounds)
        self.within(self.users.delete_all)
        self.live_until(self.loop.now_s - START_S + END_S)
        self.within(self._settled.check_end)

    def _begin(self, action: Action) -> None:
        self._take_picture()
        super()._begin(action)

    def _act(self, action: Action) -> None:
        self.happenings.begin(action)

    def _calm(self) -> None:
        self._take_picture()
        self.happenings.end_all()

    def _check_settled(self) -> None:
        self._settled.check_calm()

    def _take_picture(self) -> None:
        if self._takes_pictures:
            self.pictures.append(self.invariants.picture())

    def _start(self) -> None:
        for number, sizes in enumerate(self.settings.nodes):
            name = f"node-{number}"
            labels = {"zone": "a" if number % 2 == 0 else "b", self.vendor.label_key: "true"}
            node = {
                "metadata": {"name": name, "labels": labels, "annotations": {}},
                "spec": {},
                "status": {"capacity": {"pods": "110"}, "allocatable": {"pods": "110"}},
            }
            self.store.create("nodes", node, "the world")
            machine = self.machines[name] = make_machine(name, sizes)
            kubelet = self.kubelets[name] = Kubelet(self, name, self.rng(f"kubelet/{name}"))
            if self.settings.has_limits:
                machine.groups = ControlGroups(Path(self._folder.name, name), "misc" if number % 2 else "dmem")
                kubelet.limited = Containers(kubelet, machine.groups)
            rng = self.rng(f"plugin/{name}")
            self.plugins[name] = PluginReplica(self, name, self.machines[name], self.kubelets[name], rng)
        for number in range(self.settings.replicas):
            name = f"extender-{number}"
            self.extenders.append(ExtenderReplica(self, name, self.rng(name)))
            pod = {
                "metadata": {"namespace": CONFIG.namespace, "name": name},
                "spec": {"nodeName": "control-plane"},
                "status": {"phase": "Running"},
            }
            self.store.create("pods", pod, "the world")
        self.secrets.create()
        for kubelet in self.kubelets.values():
            kubelet.start()
        for program in self.programs():
            program.start()
        self.scheduler.start()
        self.service.probe_replicas()
        self._compact(self.store.version)

    def _compact(self, version: int) -> None:
        self.store.compact(version)
        self.loop.call_world(COMPACTED_S, self._compact, self.store.version)

    def _changed(self, change: Change) -> None:
        plural = change.collection
        is_shown = plural in ("pods", "nodes")
        where = "/".join(change.revision.key).strip("/")
        self.note(
            f"api: {change.type.lower()} {plural} {where} at {change.version} by {change.by}",
            is_shown=is_shown,
        )
        self.gateway.publish(change)
        for view in list(self.views):
            if view.plural == plural:
                view.take(change)
        self.invariants.take(change)
