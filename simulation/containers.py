"""What runs of a node's pods with shared memory, each container in a control group whose memory the driver limits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from gcushare_playground.kubelet.allocation import PluginCallError
from simulation.control_groups import ControlGroups

if TYPE_CHECKING:
    from simulation.kubelet import Kubelet

LOOK_S = 1.0
AGAIN_S = (1.0, 10.0)
"""A container that the plugin refuses to prepare is tried again after so long."""


class Containers:
    """Those of one node. Groups of pods go when their containers do, within ``LOOK_S``."""

    def __init__(self, kubelet: Kubelet, groups: ControlGroups) -> None:
        self._kubelet = kubelet
        self.groups = groups
        self.running: dict[str, dict[str, dict[int, int]]] = {}
        """The units of each card, by its slot, by pod and container."""
        groups.make("kubepods")
        self._look()

    def group_of(self, uid: str) -> Path:
        """The control group of a pod."""
        return self.groups.root / "kubepods" / f"pod{uid}"

    def limits(self) -> list[str]:
        """The groups that have a limit."""
        tops = (self.groups.root / "kubepods").rglob("*")
        cards = range(len(self._kubelet.world.machines[self._kubelet.node].cards))
        return sorted(
            str(each) for each in tops if each.is_dir() and any(self.groups.limit_of(each, card) for card in cards)
        )

    def resume(self) -> None:
        """Create what does not run yet, and end what is left of pods that are gone: the kubelet has just started."""
        kubelet = self._kubelet
        known = {each.uid for each in kubelet.view.objects.values()}
        for uid in kubelet.containers:
            if uid in known:
                self.start(uid)
            else:
                kubelet.world.loop.call_world(LOOK_S, kubelet.containers.pop, uid, None)

    def start(self, uid: str) -> None:
        """Create a pod's group, and then its containers."""
        self.groups.make(f"kubepods/pod{uid}")
        kubelet = self._kubelet
        kubelet.world.loop.create_task(self._start(uid), context=kubelet.process.context)

    async def _start(self, uid: str) -> None:
        kubelet, memory = self._kubelet, self._kubelet.resources[0]
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
            self.running.setdefault(uid, {})[name] = kubelet.world.slots_held(kubelet, uid, ids)
            kubelet.world.counts["containers started with limits"] += 1
            kubelet.world.invariants.check_limits(kubelet, uid)

    async def _may_start(self, ids: frozenset[str]) -> bool:
        plugin = self._kubelet.endpoints.get(self._kubelet.resources[0])
        if plugin is None:
            return False
        try:
            await plugin.pre_start(ids)
        except PluginCallError:
            self._kubelet.world.counts["containers that had to wait for a limit"] += 1
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
        kubelet = self._kubelet
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
            kubelet.world.invariants.check_limits(kubelet, uid)
        kubelet.world.loop.call_world(LOOK_S, self._look)
