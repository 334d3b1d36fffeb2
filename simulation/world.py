"""One run of the simulation: API server, scheduler, kubelets, cards, users and the real programs, on one loop."""

from __future__ import annotations

import hashlib
import logging
import random
import tempfile
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from gcushare.core.units import MemoryUnit
from gcushare.vendors import VENDORS_BY_NAME
from gcushare.wire.kubelet.device_ids import cards_of_ids, decode_whole_card_id
from gcushare_playground.apiserver.storage import Change
from simulation.admission import AdmissionPolicies
from simulation.apiserver import ApiServer
from simulation.bugs import Bug, find_bug
from simulation.cards import Machine, make_machine
from simulation.certificates import Secrets
from simulation.containers import Containers
from simulation.control_groups import ControlGroups
from simulation.faults import Happenings
from simulation.invariants import Invariants, Picture
from simulation.kubelet import Kubelet
from simulation.loop import START_S, SimulatedLoop
from simulation.people import Admins, Forgers, Users
from simulation.program import Program
from simulation.programs import ExtenderReplica, PluginReplica
from simulation.schedule import Action, Schedule
from simulation.scheduler import Scheduler
from simulation.service import Service
from simulation.settled import SettledInvariants
from simulation.store import Store
from simulation.transport import Gateway
from simulation.views import View
from simulation.violation import Violation
from simulation.weather import Weather

END_S = 100.0
"""Time after the deletion of everything, until nothing may be left."""
MOST_LINES = 20_000
COMPACTED_S = 300.0
"""The API server forgets versions that are older than this."""


class World:
    """One run. Call ``run``; ``violations`` are its failures, ``digest`` identifies its history."""

    def __init__(self, schedule: Schedule, *, keeps_history: bool = False, takes_pictures: bool = False) -> None:
        self._takes_pictures = takes_pictures
        self._folder = tempfile.TemporaryDirectory(prefix="gcushare-simulation-")
        self.schedule = schedule
        self.settings = schedule.settings
        self.vendor = VENDORS_BY_NAME[self.settings.vendor]
        self.faults: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.history: deque[str] = deque(maxlen=MOST_LINES)
        self.pictures: list[Picture] = []
        """The cluster's state before each action and at the end of the storm."""
        self._keeps_history = keeps_history
        self._digest = hashlib.blake2b(digest_size=16)
        self._numbers = 0
        self.loop = SimulatedLoop(lambda words: self.fail("no process ends by any input", words))
        self.views: list[View] = []
        self.weathers: dict[str, Weather] = {}
        self.bugs: Bug = find_bug(schedule.planted)
        rng = self.rng("api")
        self.store = Store(self._changed)
        self.policies = AdmissionPolicies(self.loop)
        self.gateway = Gateway(self.loop, ApiServer(self.store, rng.randrange, self.policies))
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

    def note(self, words: str, *, is_shown: bool = True) -> None:
        """Append to the history."""
        line = f"{self.loop.now_s - START_S:9.3f}  {words}"
        self._digest.update(line.encode())
        if self._keeps_history and is_shown:
            self.history.append(line)

    def fail(self, invariant: str, words: str) -> None:
        """Record a violation and end the run."""
        self.note(f"VIOLATION of {invariant!r}: {words}")
        self.violations.append(Violation(invariant, words, self.loop.now_s - START_S))
        self.loop.is_stopped = True

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

    @staticmethod
    def _ids_held(kubelet: Kubelet, uid: str, resource: str) -> frozenset[str]:
        return kubelet.devices.pod_ids(uid, resource)

    @property
    def digest(self) -> str:
        """A hash of the history."""
        return self._digest.hexdigest()

    @property
    def hours(self) -> float:
        """The virtual time since the start."""
        return (self.loop.now_s - START_S) / 3600

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
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        self._within(self._build)
        self.counts["runs with limits of the driver"] += self.settings.has_limits
        actions = list(self.schedule.actions)
        for storm_end_s, calm_end_s in self.schedule.rounds:
            while actions and actions[0].at_s < storm_end_s:
                action = actions.pop(0)
                self._live_until(action.at_s)
                if self._takes_pictures:
                    self.pictures.append(self.invariants.picture())
                self._act(action)
            self._live_until(storm_end_s)
            if self._takes_pictures:
                self.pictures.append(self.invariants.picture())
            self._within(self.happenings.end_all)
            self._live_until(calm_end_s)
            self._within(self._settled.check_calm)
        self._within(self.users.delete_all)
        self._live_until(self.loop.now_s - START_S + END_S)
        self._within(self._settled.check_end)

    def _within(self, do: Callable[[], None]) -> None:
        if not self.loop.is_stopped:
            with self.loop.entered():
                do()

    def _live_until(self, at_s: float) -> None:
        if not self.loop.is_stopped:
            self.loop.run(START_S + at_s)

    def _act(self, action: Action) -> None:
        if not self.loop.is_stopped:
            self.note(f"> {action.words()[11:]}")
            self._within(lambda: self.happenings.begin(action))

    def _build(self) -> None:
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
            self.extenders.append(ExtenderReplica(self, f"extender-{number}", self.rng(f"extender-{number}")))
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
