"""A node agent, or its reconciler alone, between a kubelet and an API server that a test sets by hand."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gcushare.cards.health import CardsSnapshot
from gcushare.core.assignments import PodRef
from gcushare.core.cards import Card, InventoryCard
from gcushare.core.errors import DeviceError, GcushareError, RetryableError
from gcushare.device_plugin.node.agent import NodeAgent
from gcushare.device_plugin.node.parts import Dependencies, Parts
from gcushare.device_plugin.plugin_settings import CardSettings, GrantMode, KubeletSettings, PluginSettings
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.reconciler import AllocationReconciler
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.memory_limiter import MemoryLimiter
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.kubelet.device_ids import device_ids_of_card, is_whole_card_id
from gcushare.wire.kubelet.plugin_messages import device_ids
from gcushare.wire.objects import Node, NodeInfo, NodeStatus, ObjectMeta, Pod
from gcushare.wire.protos import deviceplugin_pb2 as pb
from tests.builders import card, inventory
from tests.manual_clock import ManualClock
from tests.played_api import Asked, PlayedApi


@dataclass
class Heard:
    """Events as people would read them."""

    node: list[tuple[str, str]] = field(default_factory=list)
    pods: list[tuple[str, str, str]] = field(default_factory=list)

    def about_node(self, reason: str, message: str, *, warning: bool) -> None:
        self.node.append((reason, message))

    def about_pod(self, pod: PodRef, reason: str, message: str, *, warning: bool) -> None:
        self.pods.append((pod.name, reason, message))

    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.node]


@dataclass
class World(PlayedApi):
    """The kubelet's allocations, the API server and a clock, as a test sets them; ``failures`` are by pod name."""

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

    async def answer(self, asked: Asked) -> object:
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


@dataclass
class Away(World):
    """Neither the API server nor the kubelet answers; ``records`` were to be written."""

    record: KubeletAllocations | None = None
    records: list[Mapping[str, str | None]] = field(default_factory=list, kw_only=True)

    async def answer(self, asked: Asked) -> object:
        if asked.plural == "pods":
            self.records.append(asked.annotations)
        raise RetryableError("away")


def allocations(
    held: Mapping[str, Sequence[str]],
    source: str = "podresources",
    *,
    container: str = "c0",
    answers: Mapping[str, bytes] | None = None,
) -> KubeletAllocations:
    """What the kubelet shows of pods of one container each, by key: ids of units or of whole cards."""
    found = KubeletAllocations(source)
    for pod, ids in held.items():
        answer = (answers or {}).get(pod, b"")
        if ids and is_whole_card_id(ids[0]):
            found.add_whole(pod, container, ids, answer)
        else:
            found.add(pod, container, device_ids(ids), answer)
    return found


@dataclass
class Rig:
    agent: NodeAgent
    parts: Parts
    heard: Heard
    away: Away

    def see(self, *gib: int, sick: Mapping[int, str] | None = None, uuids: Mapping[int, str] | None = None) -> None:
        """Have the source of cards list these, by index."""
        ill, named = sick or {}, uuids or {}
        self.cards(
            *(
                card(index, size, uuid=named.get(index, f"u{index}"), sick=index in ill, reason=ill.get(index, ""))
                for index, size in enumerate(gib)
            )
        )

    def cards(self, *cards: InventoryCard) -> None:
        """Have the source of cards list these."""
        self.agent.on_cards_change(CardsSnapshot(cards))

    def listed(self) -> tuple[int, int]:
        """How many units the kubelet is sent, and how many of them healthy."""
        return self.parts.memory_devices.size, len(self.healthy())

    def healthy(self, *, whole: bool = False) -> list[str]:
        """The units of memory, or the whole cards, that the kubelet may hand out, in the order of its list."""
        table = self.parts.whole_devices if whole else self.parts.memory_devices
        devices = pb.ListAndWatchResponse.FromString(table.message).devices
        return [device.ID for device in devices if device.health == "Healthy"]

    def hold(self, **pods: Sequence[str]) -> None:
        """Have the kubelet's allocations say that these pods hold these ids, of units or of whole cards."""
        self.read(allocations({f"d/{name}": ids for name, ids in pods.items()}))

    def read(self, shown: KubeletAllocations) -> None:
        """Have the plugin read the kubelet's allocations."""
        self.parts.store.on_kubelet_read(shown)
        self.parts.store.find_unrecorded(0.0)
        self.agent.on_kubelet_read(shown)

    def node(self, kubelet: str = "", **annotations: str) -> None:
        """Have the Node carry these annotations: ``cordon``, ``inventory``; ``kubelet`` is its version."""
        keys = {"cordon": ENFLAME.cordon_annotation, "inventory": ENFLAME.inventory_annotation}
        self.agent.node_applied(
            Node(
                metadata=ObjectMeta(annotations={keys[name]: text for name, text in annotations.items()}),
                status=NodeStatus(node_info=NodeInfo(kubelet_version=kubelet)),
            )
        )


def make_rig(
    unit: str = "1",
    mode: GrantMode = GrantMode.MEMORY,
    api: PlayedApi | None = None,
    vendor: Vendor = ENFLAME,
    hold_numbers: Callable[[Mapping[str, Card]], None] = lambda _held: None,
    wait_s: float = 0.0,
    limiter: MemoryLimiter | None = None,
    lists_pods: bool = True,
) -> Rig:
    """Without ``api`` the Node is never written: the API server is away. A call waits ``wait_s`` for its pod.

    ``lists_pods``: whether the watch has listed the node's pods; there are none.
    """
    away, heard = Away(), Heard()
    settings = PluginSettings(
        cards=CardSettings(vendor=vendor, memory_unit=unit, mode=mode),
        kubelet=KubeletSettings(node_name="node-1", cdi_dir=Path("/nonexistent"), wait_for_pod=wait_s),
    )
    dependencies = Dependencies(
        source=away,
        client=(api or away).client,
        announcer=heard,
        clock=ManualClock(0.0),
        rng=random.Random(1),
        hold_numbers=hold_numbers,
        limiter=limiter,
    )
    agent = NodeAgent(settings, dependencies)
    if lists_pods:
        agent.pods_retained(frozenset())
    return Rig(agent, agent.parts, heard, away)


def checkpoint(cards: Mapping[str, int]) -> KubeletAllocations:
    """Four units of a card for each of these uids."""
    return allocations({uid: device_ids_of_card(card, 4) for uid, card in cards.items()}, "checkpoint")


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
    reconciler.writer.set_inventory(inventory(16, 16))
    return reconciler


async def write_due(reconciler: AllocationReconciler) -> float:
    """Write what is due and wait for all of it; returns in how many seconds the next write would be due."""
    async with asyncio.TaskGroup() as writers:
        reconciler.writer.start_due(writers)
    async with asyncio.TaskGroup() as nothing_due:
        return reconciler.writer.start_due(nothing_due)
