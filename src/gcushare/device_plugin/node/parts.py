"""Builds the parts that serve one node's cards from the settings; the agent keeps them up to date."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from gcushare.cards.process_owners import ProcessOwners
from gcushare.device_plugin.allocation.allocator import CardAllocator, PodChanges
from gcushare.device_plugin.allocation.response import AllocateResponses
from gcushare.device_plugin.kubelet.device_list import MemoryDeviceList, WholeCardDeviceList
from gcushare.device_plugin.node.publisher import CardsPublisher
from gcushare.device_plugin.plugin_settings import GrantMode, PluginSettings
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.reconciler import AllocationReconciler, AllocationsSource
from gcushare.device_plugin.pods.store import PodStore
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.node.api_server import Announcer
from gcushare.node.cdi import CdiSpecFile, CdiSpecPublisher
from gcushare.node.memory_limiter import MemoryLimiter
from gcushare.node.node_settings import Strategy


class PartsListener(Protocol):
    """What the parts report; the agent is one."""

    def on_allocate(self) -> None:
        """Handle that the kubelet was just given cards."""

    def on_kubelet_read(self, allocations: KubeletAllocations) -> None:
        """Handle what the kubelet shows, after each read that succeeded."""

    def on_record_written(self, write: RecordWrite) -> None:
        """Handle that a record was written on a pod."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that the agent keeps up to date."""

    store: PodStore
    pods: PodChanges
    memory_devices: MemoryDeviceList
    allocator: CardAllocator
    whole_devices: WholeCardDeviceList
    whole_allocator: CardAllocator
    reconciler: AllocationReconciler
    publisher: CardsPublisher
    announcer: Announcer
    cdi: CdiSpecPublisher


def make_parts(
    settings: PluginSettings,
    source: AllocationsSource,
    client: KubeClient,
    announcer: Announcer,
    clock: Clock,
    rng: random.Random,
    limiter: MemoryLimiter | None,
    listener: PartsListener,
) -> Parts:
    """Build them; nothing runs yet. ``source`` reads the kubelet, ``client`` writes to the API server."""
    cards, kubelet = settings.cards, settings.kubelet
    vendor, strategies = cards.vendor, kubelet.device_list_strategy
    pods_per_count = cards.card_count.pods_per_count(vendor)
    longest_wait_s = kubelet.longest_wait_for_containers
    pods, store = PodChanges(), PodStore(vendor, longest_wait_s=longest_wait_s, allows_bursts=settings.allows_bursts)

    def wall_clock_ns() -> int:
        return round(clock.now().timestamp() * 1_000_000) * 1000

    responses = AllocateResponses(vendor, strategies, limiter, kubelet.driver_dirs)
    # Without a scheduler that chooses cards none is kept for any pod, so no call waits for its pod.
    wait_for_whole_s = 0.0 if cards.mode is GrantMode.WHOLE else kubelet.wait_for_pod
    make_allocator = partial(
        CardAllocator,
        store,
        responses,
        pods,
        clock=clock.monotonic,
        wall_clock_ns=wall_clock_ns,
        on_allocate=listener.on_allocate,
    )
    return Parts(
        store=store,
        pods=pods,
        memory_devices=MemoryDeviceList(kubelet.kubelet_message_limit),
        allocator=make_allocator(whole=False, wait_for_pod_s=kubelet.wait_for_pod),
        whole_devices=WholeCardDeviceList(),
        whole_allocator=make_allocator(whole=True, wait_for_pod_s=wait_for_whole_s),
        reconciler=AllocationReconciler(
            store,
            source,
            client,
            clock=clock.monotonic,
            wall_clock_ns=wall_clock_ns,
            rng=rng,
            on_read=listener.on_kubelet_read,
            on_record_written=listener.on_record_written,
            running_pods=ProcessOwners(cards.proc_root).running_pods if cards.pod_use else None,
        ),
        publisher=CardsPublisher(vendor, kubelet.node_name, client, rng=rng, pods_per_count=pods_per_count),
        announcer=announcer,
        cdi=CdiSpecPublisher(CdiSpecFile(kubelet.cdi_dir, vendor), is_wanted=Strategy.CDI in strategies),
    )
