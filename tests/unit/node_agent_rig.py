"""A node agent without a kubelet and an API server: its facts are set by hand, and what people hear is kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gcushare.cards.health import CardsSnapshot
from gcushare.core.assignments import PodRef
from gcushare.core.cards import Card, Health, InventoryCard
from gcushare.core.errors import DeviceError, RetryableError
from gcushare.core.units import GIB
from gcushare.device_plugin.node.agent import NodeAgent
from gcushare.device_plugin.node.parts import Dependencies, Parts
from gcushare.device_plugin.plugin_settings import CardSettings, GrantMode, KubeletSettings, PluginSettings
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.kubelet.plugin_messages import device_ids
from gcushare.wire.objects import Node, NodeInfo, NodeStatus, ObjectMeta
from gcushare.wire.protos import deviceplugin_pb2 as pb
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
class Away(PlayedApi):
    """The API server and the kubelet's allocations, which do not answer; ``asked``: records that were to be written."""

    asked: list[Mapping[str, str | None]] = field(default_factory=list, kw_only=True)

    async def fetch(self) -> KubeletAllocations:
        raise RetryableError("away")

    async def fetch_checkpoint(self) -> KubeletAllocations:
        raise DeviceError("there is none")

    async def answer(self, asked: Asked) -> object:
        if asked.plural == "pods":
            self.asked.append(asked.annotations)
        raise RetryableError("away")


@dataclass
class Rig:
    agent: NodeAgent
    parts: Parts
    heard: Heard
    away: Away

    def see(self, *gib: int, sick: Mapping[int, str] | None = None, uuids: Mapping[int, str] | None = None) -> None:
        """Have the source of cards list these, by index."""
        self.agent.on_cards_change(
            CardsSnapshot(
                tuple(
                    InventoryCard(
                        index=index,
                        uuid=(uuids or {}).get(index, f"u{index}"),
                        memory_bytes=size * GIB,
                        health=Health.UNHEALTHY if index in (sick or {}) else Health.HEALTHY,
                        reason=(sick or {}).get(index, ""),
                    )
                    for index, size in enumerate(gib)
                )
            )
        )

    def cards(self, *cards: InventoryCard) -> None:
        """Have the source of cards list these."""
        self.agent.on_cards_change(CardsSnapshot(cards))

    def listed(self) -> tuple[int, int]:
        """How many units the kubelet is sent, and how many of them healthy."""
        devices = pb.ListAndWatchResponse.FromString(self.parts.memory_devices.message).devices
        return len(devices), sum(device.health == "Healthy" for device in devices)

    def hold(self, **pods: list[str]) -> None:
        """Have the kubelet's allocations say that these pods hold these ids."""
        record = KubeletAllocations("podresources")
        for name, ids in pods.items():
            record.add(f"d/{name}", "c0", device_ids(ids))
        self.parts.store.on_kubelet_read(record)
        self.parts.store.find_unrecorded(0.0)
        self.agent.on_kubelet_read(record)

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
    tmp_path: Path,
    unit: str = "1",
    mode: GrantMode = GrantMode.MEMORY,
    api: PlayedApi | None = None,
    vendor: Vendor = ENFLAME,
    hold_numbers: Callable[[Mapping[str, Card]], None] = lambda _held: None,
) -> Rig:
    """Without ``api`` the Node is never written: the API server is away."""
    away, heard = Away(), Heard()
    settings = PluginSettings(
        cards=CardSettings(vendor=vendor, memory_unit=unit, mode=mode),
        kubelet=KubeletSettings(node_name="node-1", cdi_dir=tmp_path, wait_for_pod=0.0),
    )
    clock, rng = ManualClock(0.0), random.Random(1)
    dependencies = Dependencies(
        source=away, client=(api or away).client, announcer=heard, clock=clock, rng=rng, hold_numbers=hold_numbers
    )
    agent = NodeAgent(settings, dependencies)
    return Rig(agent, agent.parts, heard, away)
