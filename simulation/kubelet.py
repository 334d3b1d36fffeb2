"""A node's kubelet: admits pods in any order, enforces ids, ends containers, restarts, and may lose its checkpoint."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from gcushare.node.kubelet_sockets import Identity
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.storage import Revision
from simulation.device_manager import AdmissionRefused, DeviceManager, Held
from simulation.node_status import NodeStatus
from simulation.plugin_calls import call_plugin
from simulation.process import Process
from simulation.sockets import CallFailed, PluginSocket, SocketDirectory
from simulation.store import FINISHED, Doc
from simulation.views import View

if TYPE_CHECKING:
    from simulation.containers import Containers
    from simulation.world import World

SHOWN_AFTER_S = (0.006, 0.025)
"""podresources shows an allocation this long after Allocate's answer."""


class Kubelet:
    """One node's kubelet. ``containers`` are the pods that really run on the machine."""

    def __init__(self, world: World, node: str, rng: random.Random) -> None:
        self.world = world
        self.node = node
        self.rng = rng
        vendor = world.vendor
        self.resources = (vendor.memory_resource, vendor.whole_card_resource)
        self.directory = SocketDirectory()
        self.devices = DeviceManager(rng)
        self.checkpoint: Held | None = {}
        self.containers: dict[str, float] = {}
        self.endpoints: dict[str, PluginSocket] = {}
        self.generation = 0
        self.is_up = False
        self.ignores_preference = False
        self.is_silent = False
        """Whether podresources does not answer."""
        self.process = Process(f"kubelet/{node}")
        self.shown_at_s: dict[tuple[str, str, str], float] = {}
        """The time from which podresources shows a container's allocation of a resource."""
        self.limited: Containers | None = None
        """What really runs, where the driver limits memory."""
        self._streams: list[asyncio.Task[None]] = []

    # Life

    def start(self, *, loses_checkpoint: bool = False) -> None:
        """Start or restart. Plugins must register, and the allocations come from the checkpoint."""
        self.stop()
        world = self.world
        self.generation += 1
        self.is_up = True
        self.process = Process(f"kubelet/{self.node}")
        self.directory.clear()
        if loses_checkpoint:
            self.checkpoint = None
        self.devices = DeviceManager(self.rng, dict(self.checkpoint or {}))
        world.bugs.plant_in_devices(self.devices)
        self._queue: list[str] = []
        self._handled: set[str] = set(self.containers)
        self._ending: set[str] = set()
        self._wake = asyncio.Event()
        self._status = NodeStatus(self)
        self.view = View(
            world.loop,
            world.store,
            "pods",
            self.rng,
            matches=lambda doc: doc["spec"].get("nodeName") == self.node,
            on_change=self._pod_changed,
        )
        world.views.append(self.view)
        self._status.zero()
        context = self.process.context
        world.loop.create_task(self._admit_all(), context=context)
        world.loop.create_task(self._status.report(), context=context)
        for stored in list(self.view.objects.values()):
            self._pod_changed(None, stored)
        if self.limited is not None:
            self.limited.resume()

    def still_runs(self, uid: str) -> bool:
        """Whether new containers of a pod are created."""
        is_held = any(holder == uid for holder, _, _ in self.devices.held)
        return uid in self.containers and uid not in self._ending and is_held

    def stop(self) -> None:
        """Stop at once. Containers continue to run."""
        if not self.is_up:
            return
        self.is_up = False
        self.world.loop.kill(self.process)
        self.view.close()
        self.world.views.remove(self.view)
        for task in self._streams:
            task.cancel()
        self._streams = []
        self.endpoints = {}

    # The plugin's side

    def socket_identity(self) -> Identity:
        """The identity of the present ``kubelet.sock``."""
        return (self.generation, 1) if self.is_up else None

    async def register(self, resource: str, socket_name: str, process: Process) -> str:
        """Accept a registration, and read the plugin's list from now on."""
        await asyncio.sleep(0.002)
        socket = self.directory.files.get(socket_name)
        if not self.is_up or socket is None or not socket.answers:
            return "it does not answer"
        self.endpoints[resource] = socket
        generation = self.generation
        loop = self.world.loop
        task = loop.create_task(self._read_list(resource, socket, generation), context=process.context)
        self._streams.append(task)
        self._streams = [each for each in self._streams if not each.done()]
        number = self.world.next_number()
        process.on_end[number] = lambda: self._lose(resource, socket, generation)
        return ""

    async def _read_list(self, resource: str, socket: PluginSocket, generation: int) -> None:
        """Send the plugin's list, in the plugin's process."""
        loop = self.world.loop
        try:
            async for message in socket.stream("ListAndWatch"):
                loop.call_world(0.001, self._take_list, resource, socket, generation, message)
        finally:
            loop.call_world(0.001, self._lose, resource, socket, generation)

    def _take_list(self, resource: str, socket: PluginSocket, generation: int, message: bytes) -> None:
        if self.is_up and generation == self.generation and self.endpoints.get(resource) is socket:
            self.devices.take_list(resource, message)
            self._status.is_due.set()

    def _lose(self, resource: str, socket: PluginSocket, generation: int) -> None:
        if self.is_up and generation == self.generation and self.endpoints.get(resource) is socket:
            del self.endpoints[resource]
            self.devices.lose_plugin(resource)
            self._status.is_due.set()

    # Pods

    def _pod_changed(self, before: Revision | None, now: Revision | None) -> None:
        if now is None:
            if before is not None:
                self._gone(before)
            return
        if before is not None and before.uid != now.uid:
            self._gone(before)
        uid = now.uid
        if now.obj["metadata"].get("deletionTimestamp"):
            if uid not in self._ending:
                self._ending.add(uid)
                self.world.loop.create_task(self._end(now), context=self.process.context)
        elif uid not in self._handled and now.obj["status"].get("phase") not in FINISHED:
            self._handled.add(uid)
            self._queue.append(uid)
            self._wake.set()

    def _gone(self, stored: Revision) -> None:
        """Handle a deleted object: its ids are free at once, and its containers end later."""
        self.devices.end(stored.uid)
        self._status.is_due.set()
        if stored.uid in self.containers and stored.uid not in self._ending:
            grace_s = float(stored.obj["spec"].get("terminationGracePeriodSeconds", 30))
            self.world.loop.call_world(grace_s * self.rng.random(), self.containers.pop, stored.uid, None)

    async def _admit_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await asyncio.sleep(0.002 + 0.02 * self.rng.random())
                uid = self._queue.pop(self.rng.randrange(len(self._queue)))
                stored = next((each for each in self.view.objects.values() if each.uid == uid), None)
                if stored is not None and uid not in self._ending:
                    await self._admit(stored)

    async def _admit(self, stored: Revision) -> None:
        uid, spec = stored.uid, stored.obj["spec"]
        reusable: dict[str, frozenset[str]] = {}
        active = {each.uid for each in self.view.objects.values() if each.obj["status"].get("phase") not in FINISHED}
        self.devices.keep_only(active)
        try:
            for container in (*spec.get("initContainers", ()), *spec["containers"]):
                for resource in self.resources:
                    size = int(container["resources"]["limits"].get(resource, "0"))
                    if size:
                        key = (uid, container["name"], resource)
                        ids = await self._allocate(key, size, reusable.get(resource, frozenset()))
                        kept = reusable.get(resource, frozenset())
                        is_init = container["name"].startswith("init")
                        reusable[resource] = kept | ids if is_init else kept - ids
        except (AdmissionRefused, CallFailed) as refused:
            self.devices.end(uid)
            self.world.note(f"{self.node} refuses {'/'.join(stored.key)}: {refused}")
            self.world.counts["pods refused by a kubelet"] += 1
            await self._write_status(
                stored, {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": str(refused)}
            )
            return
        self.containers[uid] = self.world.loop.now_s
        if self.limited is not None:
            self.limited.start(uid)
        self.world.counts["pods admitted"] += 1
        self.world.note(f"{self.node} runs {'/'.join(stored.key)} on {self._words(uid)}")
        await asyncio.sleep(0.05 + self.rng.random())
        await self._write_status(stored, {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"})

    async def _allocate(self, key: tuple[str, str, str], size: int, reusable: frozenset[str]) -> frozenset[str]:
        resource = key[2]
        free = self.devices.check_can(resource, size, reusable)
        socket = self.endpoints.get(resource)
        if socket is None:
            raise AdmissionRefused(f"endpoint not found in cache for a registered resource: {resource}")
        if len(reusable) >= size:
            preferred: frozenset[str] = frozenset()
        else:
            asked = pb.ContainerPreferredAllocationRequest(
                available_deviceIDs=sorted(free | reusable), must_include_deviceIDs=sorted(reusable),
                allocation_size=size,
            )  # fmt: skip
            request = pb.PreferredAllocationRequest(container_requests=[asked]).SerializeToString()
            answer = pb.PreferredAllocationResponse.FromString(
                await call_plugin(self.world, socket, "GetPreferredAllocation", request)
            )
            preferred = frozenset(answer.container_responses[0].deviceIDs)
        if self.ignores_preference:
            self.world.counts["preference ignored"] += 1
            preferred = free - preferred
        free = self.devices.check_can(resource, size, reusable)
        ids = frozenset(self.devices.choose(free, preferred, reusable, size))
        body = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=sorted(ids))])
        await call_plugin(self.world, socket, "Allocate", body.SerializeToString())
        if problem := self.devices.grant(key, ids):
            self.world.fail("an id is given once", f"{self.node}: {problem}")
        self.checkpoint = dict(self.devices.held)
        self.shown_at_s[key] = self.world.loop.now_s + self.rng.uniform(*SHOWN_AFTER_S)
        return ids

    async def _end(self, stored: Revision) -> None:
        """End a pod that is being deleted: its containers, then its ids, then its object."""
        uid = stored.uid
        grace_s = float(stored.obj["metadata"].get("deletionGracePeriodSeconds", 30))
        if uid in self.containers:
            await asyncio.sleep(0.1 + grace_s * self.rng.random() ** 2)
        self.containers.pop(uid, None)
        self.devices.end(uid)
        await self._write_status(stored, {"phase": "Succeeded"})
        await asyncio.sleep(0.05)
        await self.write(lambda: self.world.store.delete("pods", stored.key, self.process.name, stored.uid))

    async def finish(self, stored: Revision, phase: str) -> None:
        """Let a pod's containers end by themselves."""
        if self.containers.pop(stored.uid, None) is not None:
            self.devices.end(stored.uid)
            await self._write_status(stored, {"phase": phase})

    async def _write_status(self, stored: Revision, status: Doc) -> None:
        def change(doc: Doc) -> Doc:
            # A phase that is final stays, as with the kubelet's: a write of before may come after it.
            is_over = doc["metadata"]["uid"] != stored.uid or doc["status"].get("phase") in FINISHED
            return doc if is_over else {**doc, "status": {**doc["status"], **status}}

        await self.write(lambda: self.world.store.update("pods", stored.key, change, self.process.name))

    async def write(self, write: Callable[[], object]) -> None:
        """Write to the API server, once it answers. Ignores objects that are gone or have changed."""
        await asyncio.sleep(0.002)
        while not self.world.gateway.is_up:  # noqa: ASYNC110 - as the kubelet does: it tries again
            await asyncio.sleep(1.0)
        try:
            write()
        except ApiFailure as failure:
            if failure.code not in (404, 409):
                raise

    def _words(self, uid: str) -> str:
        units, whole = self.world.units_held(self, uid), self.world.whole_cards_held(self, uid)
        words = [f"{count} of card {card}" for card, count in sorted(units.items())]
        return ", ".join([*words, *(f"card {card}" for card in sorted(whole))]) or "no card"
