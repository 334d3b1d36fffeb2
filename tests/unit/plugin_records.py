"""The kubelet's allocations, the API server and the clock that tests of the plugin's records set."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from gcushare.core.errors import DeviceError, GcushareError, RetryableError
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.reconciler import AllocationReconciler
from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ENFLAME
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import device_ids
from gcushare.wire.objects import Pod
from tests.builders import inventory
from tests.played_api import Asked, PlayedApi
from tests.unit.plugin_pods import pod

CARDS = inventory(16, 16)


def checkpoint(cards: Mapping[str, int]) -> KubeletAllocations:
    """Four units of a card for each of these uids."""
    record = KubeletAllocations("checkpoint")
    for uid, card in cards.items():
        record.add(uid, "c0", device_ids(device_ids_of_card(card, 4)))
    return record


@dataclass
class World(PlayedApi):
    """The kubelet's allocations, the API server and the clock, as a test sets them; ``failures`` are by pod name."""

    now_s: float = 100.0
    record: KubeletAllocations | None = field(default_factory=lambda: KubeletAllocations("podresources"))
    checkpoint: KubeletAllocations | None = None
    read: KubeletAllocations = field(default_factory=KubeletAllocations)
    """The answer that was given last, as the reconciler has completed it."""
    failures: dict[str, GcushareError] = field(default_factory=dict)
    stuck: dict[str, asyncio.Event] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    patched: list[tuple[str, str | None]] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)

    async def fetch(self) -> KubeletAllocations:
        if self.record is None:
            raise RetryableError("neither podresources nor a checkpoint")
        self.read = copy.deepcopy(self.record)
        return self.read

    async def fetch_checkpoint(self) -> KubeletAllocations:
        if self.checkpoint is None:
            raise DeviceError("no checkpoint")
        return copy.deepcopy(self.checkpoint)

    async def answer(self, asked: Asked) -> Pod:
        self.asked.append(asked.name)
        if asked.name in self.stuck:
            await self.stuck[asked.name].wait()
        if asked.name in self.failures:
            raise self.failures[asked.name]
        self.patched.append((asked.name, asked.annotations["enflame.com/gcu-device-id"]))
        return Pod()

    def hold(self, name: str, card: int, units: int = 4) -> None:
        """Have the kubelet's allocations show that a pod holds units of a card."""
        assert self.record is not None
        self.record.memory[f"d/{name}"] = {"c0": {card: units}}


def reconciler_of(world: World, store: PodStore) -> AllocationReconciler:
    reconciler = AllocationReconciler(
        store,
        world,
        world.client,
        clock=lambda: world.now_s,
        wall_clock_ns=lambda: 7,
        rng=random.Random(1),
        on_read=lambda allocations: world.reported.append(allocations.source),
        on_record_written=lambda write: world.reported.append(write.pod.name),
    )
    reconciler.writer.set_inventory(CARDS)
    return reconciler


def store_of(*names: str) -> PodStore:
    store = PodStore(ENFLAME)
    for name in names:
        store.pod_applied(pod(name, 4))
    return store


async def write_due(reconciler: AllocationReconciler) -> float:
    """Write what is due and wait for all of it; returns in how many seconds the next write would be due."""
    async with asyncio.TaskGroup() as writers:
        reconciler.writer.start_due(writers)
    async with asyncio.TaskGroup() as nothing_due:
        return reconciler.writer.start_due(nothing_due)
