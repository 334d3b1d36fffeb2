"""What serves one node's cards, built once from the settings; the agent keeps it up to date."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from gcushare.cards.process_owners import ProcOwners
from gcushare.core.nodes import PodRef
from gcushare.device_plugin.allocation.allocator import PodChanges
from gcushare.device_plugin.allocation.cdi import CdiSpecFile, CdiSpecPublisher
from gcushare.device_plugin.allocation.memory import MemoryAllocator
from gcushare.device_plugin.allocation.response import AllocateResponses, Strategy
from gcushare.device_plugin.allocation.whole_card import WholeCardAllocator
from gcushare.device_plugin.kubelet.device_list import MemoryDeviceList, WholeCardDeviceList
from gcushare.device_plugin.node.inventory import Mode
from gcushare.device_plugin.node.publisher import NodePatcher, Publisher
from gcushare.device_plugin.pods.annotation_writer import RecordPatcher
from gcushare.device_plugin.pods.reconciler import AllocationReconciler, KubeletRecordSource
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.settings import PluginSettings


class Patcher(RecordPatcher, NodePatcher, Protocol):
    """Who writes to the API server: on this node's pods and on its Node."""


class Announcer(Protocol):
    """Posts Kubernetes events on this node and on its pods. Never waited for."""

    def about_node(self, reason: str, message: str, *, warning: bool) -> None: ...

    def about_pod(self, pod: PodRef, reason: str, message: str, *, warning: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What the agent keeps up to date."""

    store: PodStore
    pods: PodChanges
    memory_devices: MemoryDeviceList
    allocator: MemoryAllocator
    whole_devices: WholeCardDeviceList
    whole_allocator: WholeCardAllocator
    reconciler: AllocationReconciler
    publisher: Publisher
    announcer: Announcer
    cdi: CdiSpecPublisher


def make_parts(settings: PluginSettings, source: KubeletRecordSource, patcher: Patcher, announcer: Announcer) -> Parts:
    """Build them; nothing runs yet. ``source`` is the kubelet's record, ``patcher`` the API server."""
    cards, kubelet = settings.cards, settings.kubelet
    pods, store = PodChanges(), PodStore(cards.vendor, longest_wait_s=kubelet.longest_wait_for_containers)
    responses = AllocateResponses(cards.vendor, kubelet.device_list_strategy)
    # Without a scheduler that chooses cards none is kept for any pod, so no call waits for its pod.
    wait_for_whole_s = 0.0 if cards.mode is Mode.WHOLE else kubelet.wait_for_pod
    return Parts(
        store=store,
        pods=pods,
        memory_devices=MemoryDeviceList(),
        allocator=MemoryAllocator(store, responses, pods, wait_for_pod_s=kubelet.wait_for_pod, clock=time.monotonic),
        whole_devices=WholeCardDeviceList(),
        whole_allocator=WholeCardAllocator(
            store, responses, pods, wait_for_pod_s=wait_for_whole_s, clock=time.monotonic
        ),
        reconciler=AllocationReconciler(
            store,
            source,
            patcher,
            clock=time.monotonic,
            wall_clock_ns=time.time_ns,
            running=ProcOwners(cards.proc_root) if cards.pod_use else None,
        ),
        publisher=Publisher(cards.vendor, patcher),
        announcer=announcer,
        cdi=CdiSpecPublisher(
            CdiSpecFile(kubelet.cdi_dir, cards.vendor), is_wanted=Strategy.CDI in kubelet.device_list_strategy
        ),
    )
