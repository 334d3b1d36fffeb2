"""Carries out a schedule's actions: people's wishes and faults, each with its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gcushare_playground.kubelet.faults import KubeletFaults
from simulation.cards import Machine, SimulatedCard
from simulation.cast import Cast
from simulation.drawing import FAULTS, LIMIT_FAULTS, LONG_FAULTS, NUMBER_FAULTS
from simulation.forgeries import FORGERIES
from simulation.invariants import Invariants
from simulation.kubelet import Kubelet
from simulation.program import Program
from simulation.schedule import Action
from simulation.weather import Odds
from simulation.world import ClusterWorld


class Happenings:
    """What begins and what ends."""

    def __init__(self, world: ClusterWorld, cast: Cast, invariants: Invariants) -> None:
        self._world = world
        self._cast = cast
        self._invariants = invariants
        self._numbers = 0
        self._ends: dict[int, Callable[[], None]] = {}
        """What ends the faults that hold."""
        self._by_kind: dict[str, Callable[..., None]] = {
            "create": cast.users.create,
            "delete": cast.users.delete_one,
            "force": cast.users.force,
            "recreate": cast.users.recreate,
            "finish": cast.users.finish,
            "edit": cast.users.edit,
            "cordon card": lambda node, card: cast.admins.annotate(node, str(card)),
            "uncordon cards": lambda node: cast.admins.annotate(node, None),
            "cordon node": lambda node: cast.admins.patch(node, {"spec": {"unschedulable": True}}),
            "uncordon node": lambda node: cast.admins.patch(node, {"spec": {"unschedulable": None}}),
            "relabel": lambda node, zone: cast.admins.patch(node, {"metadata": {"labels": {"zone": zone}}}),
            "change unit": self._change_unit,
            "roll out extender": self._roll_out,
            "roll out plugin": self._roll_out,
            "weather": self._weather,
            "half open": self._half_open,
            "cut": self._cut,
            "expire": self._expire,
            "compact": lambda keep: world.store.compact(world.store.version - keep),
            "restart api": self._restart_api,
            "slow view": self._slow_view,
            "pause": self._pause,
            "kill": self._kill,
            "jump": self._jump,
            "restart kubelet": self._restart_kubelet,
            "restart scheduler": self._restart_scheduler,
            "sick card": partial(self._flag, self._card, "is_sick"),
            "heal card": lambda node, card: setattr(self._card(node, card), "is_sick", False),
            "lose card": partial(self._flag, self._card, "is_gone"),
            "renumber": self._renumber,
            "silent library": partial(self._flag, self._machine, "is_silent"),
            "silent podresources": partial(self._flag, self._kubelet, "is_silent"),
            "ignore preference": partial(self._flag, self._kubelet_faults, "ignore_preferred"),
            "refuse writes": self._refuse_writes,
            "secret": self._spoil_secret,
            "reload driver": partial(self._end_processes, with_pods=False),
            "reboot node": partial(self._end_processes, with_pods=True),
            "forge record": cast.forgers.forge_record,
            "forge inventory": cast.forgers.forge_inventory,
            "forge mirror": self._forge_mirror,
        }

    def begin(self, action: Action) -> None:
        """Do what an action says."""
        if action.kind in {*FAULTS, *LONG_FAULTS, *FORGERIES, *LIMIT_FAULTS, *NUMBER_FAULTS}:
            self._world.faults[action.kind] += 1
        self._by_kind[action.kind](**action.args)

    def end_all(self) -> None:
        """Calm: every fault ends, and everything runs."""
        world = self._world
        world.note("calm")
        for number in list(self._ends):
            self._end(number)
        for weather in world.weathers.values():
            weather.clear()
        for view in world.views:
            view.extra_lag_s = 0.0
        for program in self._cast.programs():
            program.process.steps_to_live = None
            program.start()

    def _until(self, for_s: float, end: Callable[[], None]) -> None:
        """Have a fault end after a while, or when calm comes."""
        self._numbers += 1
        number = self._numbers
        self._ends[number] = end
        self._world.loop.call_world(for_s, self._end, number)

    def _end(self, number: int) -> None:
        end = self._ends.pop(number, None)
        if end is not None:
            end()

    def _change_unit(self, node: int, unit: str | None) -> None:
        plugin = self._cast.plugins[f"node-{node}"]
        plugin.unit = unit
        self._stop_and_start(plugin, 1.0)

    def _roll_out(self, process: str, for_s: float) -> None:
        self._stop_and_start(self._cast.program(process), for_s)

    def _stop_and_start(self, program: Program, for_s: float) -> None:
        program.stop()

        def start() -> None:
            if program.is_ending:
                # What has not ended by then is killed, as by the kubelet; one that was paused may end right after this.
                self._world.loop.call_world(30.0, self._start_again, program, program.process)
            program.start()

        self._until(for_s, start)

    def _start_again(self, program: Program, process: object) -> None:
        if program.process is process:
            program.kill()
            program.start()

    def _weather(self, process: str, odds: dict[str, float], for_s: float) -> None:
        self._numbers += 1
        number = self._numbers
        for name in (process, f"verbs/{process}"):
            if (weather := self._world.weathers.get(name)) is not None:
                weather.begin(number, Odds(**odds))
                self._until(for_s, partial(weather.end, number))

    def _half_open(self, process: str) -> None:
        for watch, owner in self._world.gateway.watches.items():
            if owner.name == process:
                watch.is_half_open = True

    def _cut(self, process: str) -> None:
        for watch, owner in list(self._world.gateway.watches.items()):
            if owner.name == process and not watch.is_half_open:
                watch.end(ConnectionResetError("the stream was cut"))

    def _expire(self, process: str) -> None:
        """Its streams are cut, and what it missed is gone: it has to list again."""
        self._cut(process)
        self._world.store.compact(self._world.store.version)

    def _restart_api(self, for_s: float) -> None:
        self._world.gateway.stop()
        self._until(for_s, self._world.gateway.start)

    def _slow_view(self, of: str, lag_s: float, for_s: float) -> None:
        some = [self._cast.scheduler.pods, self._cast.scheduler.nodes]
        views = [kubelet.view for kubelet in self._cast.kubelets.values() if kubelet.is_up] if of == "kubelet" else some
        for view in views:
            view.extra_lag_s = lag_s

        def end() -> None:
            for view in views:
                view.extra_lag_s = 0.0

        self._until(for_s, end)

    def _pause(self, process: str, for_s: float) -> None:
        paused = self._cast.program(process).process
        self._world.loop.pause(paused)
        self._until(for_s, lambda: self._world.loop.resume(paused))

    def _kill(self, process: str, steps: int, for_s: float) -> None:
        program = self._cast.program(process)
        if not program.is_up:
            return
        killed = program.process
        killed.steps_to_live = steps or None

        def kill() -> None:
            if program.process is killed:
                program.kill()

        if not steps:
            kill()

        def start() -> None:
            kill()
            program.start()

        # At the latest then: a quiet process may not come to its step.
        self._until(for_s, start)

    def _jump(self, process: str, by_s: float) -> None:
        self._cast.program(process).process.wall_offset_s += by_s

    def _restart_kubelet(self, node: int, for_s: float, *, loses: bool) -> None:
        kubelet = self._kubelet(node)
        if not kubelet.is_up:
            return
        kubelet.stop()
        if loses:
            self._invariants.note_lost_checkpoint(kubelet)
        self._until(for_s, lambda: kubelet.start(loses_checkpoint=loses))

    def _end_processes(self, node: int, for_s: float, *, with_pods: bool) -> None:
        """Load the driver again, or boot the whole node; the kubelet starts the containers again."""
        kubelet, containers = self._kubelet(node), self._cast.containers.get(f"node-{node}")
        if not kubelet.is_up or containers is None:
            return
        kubelet.stop()
        if with_pods:
            self._cast.plugins[kubelet.node].kill()
        containers.end_all(with_pods=with_pods)
        self._until(for_s, partial(self._start_node, kubelet))

    def _start_node(self, kubelet: Kubelet) -> None:
        kubelet.start()
        self._cast.plugins[kubelet.node].start()

    def _renumber(self, node: int, order: list[int], for_s: float, *, boots: bool) -> None:
        """Have the driver list its cards in another order, some of them not for a while, after a boot or without."""
        kubelet, machine = self._kubelet(node), self._machine(node)
        if boots and not kubelet.is_up:
            return
        machine.order = order

        def find_others() -> None:
            machine.order += [slot for slot in machine.cards if slot not in machine.order]

        if boots:
            kubelet.stop()
            self._cast.plugins[kubelet.node].kill()
            if (containers := self._cast.containers.get(kubelet.node)) is not None:
                containers.end_all(with_pods=True)
            self._until(min(for_s, 5.0), partial(self._start_node, kubelet))
        self._until(for_s, find_others)

    def _restart_scheduler(self, for_s: float) -> None:
        scheduler = self._cast.scheduler
        if scheduler.is_up:
            scheduler.stop()
            self._until(for_s, scheduler.start)

    def _flag(self, find: Callable[..., object], name: str, for_s: float, **where: int) -> None:
        """Set a flag of what is found there for a while."""
        found = find(**where)
        setattr(found, name, True)
        self._until(for_s, partial(setattr, found, name, False))

    def _card(self, node: int, card: int) -> SimulatedCard:
        return self._machine(node).cards[card]

    def _machine(self, node: int) -> Machine:
        return self._cast.machines[f"node-{node}"]

    def _kubelet(self, node: int) -> Kubelet:
        return self._cast.kubelets[f"node-{node}"]

    def _kubelet_faults(self, node: int) -> KubeletFaults:
        return self._kubelet(node).faults

    def _refuse_writes(self, last: str, for_s: float) -> None:
        """Of pods whose names end so; calm does not end it, as nothing else depends on such pods."""
        policies = self._world.policies
        policies.begin(last)
        self._world.loop.call_world(for_s, policies.end, last)

    def _forge_mirror(self, name: str, for_s: float, **what: Any) -> None:
        """Its author's finalizer keeps it, also in calm: it must keep nothing from anyone."""
        if self._cast.forgers.forge_mirror(name, **what):
            self._world.loop.call_world(for_s, self._cast.forgers.give_up, name)

    def _spoil_secret(self, how: str, for_s: float) -> None:
        self._cast.secrets.spoil(how)
        self._until(for_s, self._cast.secrets.create)
