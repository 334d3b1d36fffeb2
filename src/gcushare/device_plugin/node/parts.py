"""The parts that serve one node's cards, built from the settings; the agent keeps them up to date."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from gcushare.cards.process_owners import ProcessOwners
from gcushare.core.cards import Card
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What the parts reach: ``source`` reads the kubelet.

    ``hold_numbers`` keeps the numbers of these cards, by uuid, and of no others.
    """

    source: AllocationsSource
    client: KubeClient
    announcer: Announcer
    clock: Clock
    rng: random.Random
    hold_numbers: Callable[[Mapping[str, Card]], None] = lambda _held: None
    limiter: MemoryLimiter | None = None


class Parts:
    """Nothing runs yet.

    ``on_allocate`` is called when the kubelet was just given cards, ``on_kubelet_read`` with what the kubelet shows
    after each read that succeeded, ``on_record_written`` when a record was written on a pod.
    """

    def __init__(
        self,
        settings: PluginSettings,
        dependencies: Dependencies,
        *,
        on_allocate: Callable[[], None],
        on_kubelet_read: Callable[[KubeletAllocations], None],
        on_record_written: Callable[[RecordWrite], None],
    ) -> None:
        cards, kubelet, clock = settings.cards, settings.kubelet, dependencies.clock
        vendor, strategies = cards.vendor, kubelet.device_list_strategy
        longest_wait_s = kubelet.longest_wait_for_containers

        def wall_clock_ns() -> int:
            return round(clock.now().timestamp() * 1_000_000) * 1000

        self.announcer = dependencies.announcer
        self.pods = PodChanges()
        self.store = PodStore(vendor, longest_wait_s=longest_wait_s, allows_bursts=settings.allows_bursts)
        make_allocator = partial(
            CardAllocator,
            self.store,
            AllocateResponses(vendor, strategies, dependencies.limiter, kubelet.driver_dirs),
            self.pods,
            clock=clock.monotonic,
            wall_clock_ns=wall_clock_ns,
            on_allocate=on_allocate,
        )
        self.memory_devices = MemoryDeviceList(kubelet.kubelet_message_limit)
        self.allocator = make_allocator(whole=False, wait_for_pod_s=kubelet.wait_for_pod)
        self.whole_devices = WholeCardDeviceList()
        # Without a scheduler that chooses cards none is kept for any pod, so no call waits for its pod.
        wait_for_whole_s = 0.0 if cards.mode is GrantMode.WHOLE else kubelet.wait_for_pod
        self.whole_allocator = make_allocator(whole=True, wait_for_pod_s=wait_for_whole_s)
        self.reconciler = AllocationReconciler(
            self.store,
            dependencies.source,
            dependencies.client,
            clock=clock.monotonic,
            wall_clock_ns=wall_clock_ns,
            rng=dependencies.rng,
            on_read=on_kubelet_read,
            on_record_written=on_record_written,
            running_pods=ProcessOwners(cards.proc_root).running_pods if cards.pod_use else None,
        )
        pods_per_count = cards.card_count.pods_per_count(vendor)
        self.publisher = CardsPublisher(
            vendor, kubelet.node_name, dependencies.client, rng=dependencies.rng, pods_per_count=pods_per_count
        )
        self.cdi = CdiSpecPublisher(CdiSpecFile(kubelet.cdi_dir, vendor), is_wanted=Strategy.CDI in strategies)
