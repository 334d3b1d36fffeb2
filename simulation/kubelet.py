"""A node's kubelet: admits pods in any order, enforces ids, ends containers, restarts, and may lose its checkpoint."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from gcushare.device_plugin.kubelet.sockets import Identity
from gcushare.node.grant_form import read_given
from gcushare.wire.kubelet.device_ids import cards_of_ids, decode_whole_card_id
from gcushare.wire.pods import MIRROR
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.patches import merge
from gcushare_playground.apiserver.storage import Revision
from gcushare_playground.kubelet.allocation import AllocationRefused, DeviceAllocator, NodePods
from gcushare_playground.kubelet.books import DeviceBooks
from gcushare_playground.kubelet.checkpoint import Checkpoint
from gcushare_playground.kubelet.faults import KubeletFaults
from gcushare_playground.kubelet.podspec import parse_pod
from gcushare_playground.kubelet.statuses import rejected_status
from gcushare_playground.kubelet.tracking import NodeFull
from simulation.node_status import NodeStatus
from simulation.plugin_calls import SimulatedPlugin
from simulation.process import Process
from simulation.sockets import PluginSocket, SocketDirectory
from simulation.store import FINISHED, Doc
from simulation.views import View
from simulation.world import ClusterWorld

_NOW = "2026-01-01T00:00:00Z"


class Kubelet:
    """One node's kubelet. ``containers`` are the pods that really run on the machine."""

    def __init__(self, world: ClusterWorld, node: str, rng: random.Random) -> None:
        self.world = world
        self.node = node
        self.rng = rng
        vendor = world.vendor
        self.resources = (vendor.memory_resource, vendor.whole_card_resource)
        self.directory = SocketDirectory()
        self.devices = DeviceBooks()
        self.checkpoint: Checkpoint | None = Checkpoint(None, {})
        self.containers: dict[str, float] = {}
        self.endpoints: dict[str, SimulatedPlugin] = {}
        self.generation = 0
        self.is_up = False
        self.faults = KubeletFaults()
        self.is_silent = False
        """Whether podresources does not answer."""
        self.process = Process(f"kubelet/{node}")
        self.shown_at_s: dict[tuple[str, str], float] = {}
        """The time from which podresources shows a container's allocation, by pod uid and container."""
        self.on_start: Callable[[], None] = lambda: None
        self.on_admitted: Callable[[str], None] = lambda _uid: None
        """For what runs containers, where the driver limits memory."""
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
        self.devices = DeviceBooks()
        if self.checkpoint is not None:
            self.devices.restore(self.checkpoint)
        self._allocator = DeviceAllocator(
            self.devices, self.endpoints, pods=NodePods(self._active_uids), faults=self.faults, rng=self.rng,
            on_granted=self._note_grant, save=self._save,
        )  # fmt: skip
        world.bugs.plant_in_devices(self.devices)
        self._queue: list[str] = []
        self._handled: set[str] = set(self.containers)
        self._ending: set[str] = set()
        self._wake = asyncio.Event()
        self._status = NodeStatus(
            world.store, self.node, self.process.name, count=self.devices.counts, write=self.write, rng=self.rng
        )
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
        self.on_start()

    def still_runs(self, uid: str) -> bool:
        """Whether new containers of a pod are created."""
        return uid in self.containers and uid not in self._ending and uid in self.devices.holders()

    def units_held(self, uid: str) -> dict[int, int]:
        """What a pod holds: memory units by card. Ids of init containers count once."""
        return cards_of_ids(self.devices.pod_ids(uid, self.resources[0]))

    def whole_cards_held(self, uid: str) -> set[int]:
        """The whole cards that a pod holds, including those of its init containers."""
        return {decode_whole_card_id(device_id) for device_id in self.devices.pod_ids(uid, self.resources[1])}

    def given(self, uid: str) -> dict[int, str]:
        """The uuids of a pod's cards by number, by the answers that it stored; empty where they name none."""
        found: dict[int, str] = {}
        for entry in self.devices.entries():
            if entry.pod_uid == uid:
                whole = entry.resource == self.resources[1]
                numbers = {decode_whole_card_id(each) for each in entry.ids} if whole else cards_of_ids(entry.ids)
                answer = pb.ContainerAllocateResponse.FromString(entry.answer)
                found |= read_given(self.world.vendor, sorted(numbers), answer.envs, ())
        return found

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
        self.endpoints[resource] = SimulatedPlugin(self.world, socket)
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
        if self._is_current(resource, socket, generation):
            self.devices.apply_list(resource, pb.ListAndWatchResponse.FromString(message).devices)
            self._save(self.devices.checkpoint())
            self._status.is_due.set()

    def _lose(self, resource: str, socket: PluginSocket, generation: int) -> None:
        if self._is_current(resource, socket, generation):
            del self.endpoints[resource]
            self.devices.mark_unhealthy(resource)
            self._status.is_due.set()

    def _is_current(self, resource: str, socket: PluginSocket, generation: int) -> bool:
        plugin = self.endpoints.get(resource)
        return self.is_up and generation == self.generation and plugin is not None and plugin.socket is socket

    # Pods

    def _pod_changed(self, before: Revision | None, now: Revision | None) -> None:
        if now is None:
            if before is not None:
                self._gone(before)
            return
        if before is not None and before.uid != now.uid:
            self._gone(before)
        uid = now.uid
        if MIRROR in now.obj["metadata"].get("annotations", {}):
            # None of its static pods has it: it is deleted at once, and stays as long as a finalizer keeps it.
            if not now.obj["metadata"].get("deletionTimestamp"):
                self.world.loop.create_task(self._delete_mirror(now), context=self.process.context)
        elif now.obj["metadata"].get("deletionTimestamp"):
            if uid not in self._ending:
                self._ending.add(uid)
                self.world.loop.create_task(self._end(now), context=self.process.context)
        elif uid not in self._handled and now.obj["status"].get("phase") not in FINISHED:
            self._handled.add(uid)
            self._queue.append(uid)
            self._wake.set()

    def _gone(self, stored: Revision) -> None:
        """Handle a deleted object: its ids are free at once, and its containers end later."""
        self.devices.remove_pods([stored.uid])
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
        uid, pod = stored.uid, parse_pod(stored.obj)
        try:
            for container in pod.containers:
                for resource, amount in container.limits.items():
                    if not self.devices.is_plugin_resource(resource):  # so the Node says 0 of it
                        raise NodeFull(resource, int(amount), 0, 0)
                await self._allocator.allocate(pod, container)
        except (AllocationRefused, NodeFull) as refused:
            self.devices.remove_pods([uid])
            self.world.note(f"{self.node} refuses {'/'.join(stored.key)}: {refused}")
            self.world.counts["pods refused by a kubelet"] += 1
            await self._write_status(stored, rejected_status(refused.reason, refused.message, now=_NOW))
            return
        self.containers[uid] = self.world.loop.now_s
        self.on_admitted(uid)
        self.world.counts["pods admitted"] += 1
        self.world.note(f"{self.node} runs {'/'.join(stored.key)} on {self._words(uid)}")
        if all(each.uid != uid for each in self.view.objects.values()):
            self._gone(stored)  # It was deleted while the plugin was asked: the kubelet ends what it started.
        await asyncio.sleep(0.05 + self.rng.random())
        await self._write_status(stored, {"phase": "Running", "startTime": _NOW})

    def _active_uids(self) -> set[str]:
        return {each.uid for each in self.view.objects.values() if each.obj["status"].get("phase") not in FINISHED}

    def _save(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    def _note_grant(self, uid: str, container: str) -> None:
        if problem := self.devices.find_conflict(uid, container):
            self.world.fail("an id is given once", f"{self.node}: {problem}")
        self.world.counts["preference ignored"] += self.faults.ignore_preferred
        self.shown_at_s[uid, container] = self.world.loop.now_s + self.rng.uniform(*self.faults.podresources_delay_s)

    async def _end(self, stored: Revision) -> None:
        """End a pod that is being deleted: its containers, then its ids, then its object."""
        uid = stored.uid
        grace_s = float(stored.obj["metadata"].get("deletionGracePeriodSeconds", 30))
        if uid in self.containers:
            await asyncio.sleep(0.1 + grace_s * self.rng.random() ** 2)
        self.containers.pop(uid, None)
        self.devices.remove_pods([uid])
        await self._write_status(stored, {"phase": "Succeeded"})
        await asyncio.sleep(0.05)
        await self.write(lambda: self.world.store.delete("pods", stored.key, self.process.name, stored.uid))

    async def _delete_mirror(self, stored: Revision) -> None:
        await asyncio.sleep(2.0 * self.rng.random())
        meta = {"deletionTimestamp": _NOW, "deletionGracePeriodSeconds": 0}
        store, name = self.world.store, self.process.name
        await self.write(lambda: store.update("pods", stored.key, lambda doc: merge(doc, {"metadata": meta}), name))

    async def finish(self, stored: Revision, phase: str) -> None:
        """Let a pod's containers end by themselves."""
        if self.containers.pop(stored.uid, None) is not None:
            self.devices.remove_pods([stored.uid])
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
        units, whole = self.units_held(uid), self.whole_cards_held(uid)
        words = [f"{count} of card {card}" for card, count in sorted(units.items())]
        return ", ".join([*words, *(f"card {card}" for card in sorted(whole))]) or "no card"
