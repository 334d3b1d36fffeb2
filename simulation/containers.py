"""What runs of a node's pods with shared memory, each container in a control group whose memory the driver limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from gcushare.wire.kubelet.device_ids import cards_of_ids
from gcushare_playground.kubelet.allocation import PluginCallError
from simulation.cards import Machine
from simulation.control_groups import ControlGroups
from simulation.kubelet import Kubelet

LOOK_S = 1.0
AGAIN_S = (1.0, 10.0)
"""A container that the plugin refuses to prepare is tried again after so long."""


class Containers:
    """Those of one node. Groups of pods go when their containers do, within ``LOOK_S``.

    ``check`` is called with the uid of a pod whose containers or memory have changed.
    """

    def __init__(
        self, kubelet: Kubelet, machine: Machine, groups: ControlGroups, check: Callable[[Containers, str], None]
    ) -> None:
        self.kubelet = kubelet
        self.groups = groups
        self._machine = machine
        self._check = check
        kubelet.on_start, kubelet.on_admitted = self.resume, self.start
        self.running: dict[str, dict[str, dict[int, int]]] = {}
        """The units of each card, by its slot, by pod and container."""
        groups.make("kubepods")
        self._look()

    def slots_held(self, uid: str, ids: Iterable[str] | None = None) -> dict[int, int]:
        """Units of memory by the slot of the card: of all of a pod's ids, or of these."""
        given, counts = self.kubelet.given(uid), self.kubelet.units_held(uid) if ids is None else cards_of_ids(ids)
        return {
            self._machine.slot_of(given[number]) if number in given else number: units
            for number, units in counts.items()
        }

    def group_of(self, uid: str) -> Path:
        """The control group of a pod."""
        return self.groups.root / "kubepods" / f"pod{uid}"

    def limits(self) -> list[str]:
        """The groups that have a limit."""
        tops = (self.groups.root / "kubepods").rglob("*")
        return sorted(
            str(each)
            for each in tops
            if each.is_dir() and any(self.groups.limit_of(each, card) for card in self._machine.cards)
        )

    def resume(self) -> None:
        """Create what does not run yet, and end what is left of pods that are gone: the kubelet has just started."""
        kubelet = self.kubelet
        known = {each.uid for each in kubelet.view.objects.values()}
        for uid in kubelet.containers:
            if uid in known:
                self.start(uid)
            else:
                kubelet.world.loop.call_world(LOOK_S, kubelet.containers.pop, uid, None)

    def start(self, uid: str) -> None:
        """Create a pod's group, and then its containers."""
        self.groups.make(f"kubepods/pod{uid}")
        kubelet = self.kubelet
        kubelet.world.loop.create_task(self._start(uid), context=kubelet.process.context)

    async def _start(self, uid: str) -> None:
        kubelet, memory = self.kubelet, self.kubelet.resources[0]
        held = [each for each in kubelet.devices.entries() if each.pod_uid == uid and each.resource == memory]
        of_pod = {each.container: each.ids for each in held}
        for name, ids in of_pod.items():
            if name in self.running.get(uid, {}):
                continue
            while kubelet.still_runs(uid) and not await self._may_start(ids):  # noqa: ASYNC110 - as the kubelet does
                await asyncio.sleep(kubelet.rng.uniform(*AGAIN_S))
            if not kubelet.still_runs(uid):
                return
            self.groups.make(f"kubepods/pod{uid}/{name}")
            self.running.setdefault(uid, {})[name] = self.slots_held(uid, ids)
            kubelet.world.counts["containers started with limits"] += 1
            self._check(self, uid)

    async def _may_start(self, ids: frozenset[str]) -> bool:
        plugin = self.kubelet.endpoints.get(self.kubelet.resources[0])
        if plugin is None:
            return False
        try:
            await plugin.pre_start(ids)
        except PluginCallError:
            self.kubelet.world.counts["containers that had to wait for a limit"] += 1
            return False
        return True

    def end_all(self, *, with_pods: bool) -> None:
        """End every process: the machine boots, which leaves no group either, or the driver is loaded again."""
        for uid, containers in self.running.items():
            for name in containers:
                self.groups.remove(self.group_of(uid) / name)
        self.running.clear()
        if with_pods:
            self.groups.remove(self.groups.root / "kubepods")
            self.groups.make("kubepods")
        else:
            self.groups.reload_driver()

    def _look(self) -> None:
        """Remove the groups of pods that have ended; processes of the others allocate and free memory."""
        kubelet = self.kubelet
        for group in sorted((self.groups.root / "kubepods").glob("pod*")):
            uid = group.name.removeprefix("pod")
            if uid not in kubelet.containers:
                self.groups.remove(group)
                self.running.pop(uid, None)
        for uid, containers in self.running.items():
            for name, units in containers.items():
                for card in units:
                    if kubelet.rng.random() < 0.2:
                        self.groups.free(self.group_of(uid) / name, card)
                        self.groups.allocate(self.group_of(uid) / name, card, kubelet.rng.choice((1, 3, 9)) << 30)
            self._check(self, uid)
        kubelet.world.loop.call_world(LOOK_S, self._look)
