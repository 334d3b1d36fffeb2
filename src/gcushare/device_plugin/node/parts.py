"""What serves one node's cards, built once from the settings; the agent keeps it up to date."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gcushare.cards.health import STALE_AFTER_S, CardsSnapshot, HealthPolicy
from gcushare.cards.monitor import CardMonitor, MonitorSettings
from gcushare.cards.ports import CardSource
from gcushare.cards.process_owners import ProcOwners
from gcushare.cards.selection import SourceOptions, open_source
from gcushare.cards.worker.client import IsolationSettings
from gcushare.device_plugin.allocation.allocator import CardAllocator, PodChanges
from gcushare.device_plugin.allocation.cdi import CdiSpecFile, CdiSpecPublisher
from gcushare.device_plugin.allocation.response import AllocateResponses
from gcushare.device_plugin.choices import Mode, Strategy
from gcushare.device_plugin.kubelet.device_list import MemoryDeviceList, WholeCardDeviceList
from gcushare.device_plugin.mps.limits import MpsLimiter
from gcushare.device_plugin.node.publisher import Publisher
from gcushare.device_plugin.pods.reconciler import AllocationReconciler, KubeletRecordSource
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.ports import Announcer, Patcher
from gcushare.device_plugin.settings import PluginSettings
from gcushare.kube.clock import Clock


@dataclass(frozen=True, slots=True)
class Parts:
    """What the agent keeps up to date."""

    store: PodStore
    pods: PodChanges
    memory_devices: MemoryDeviceList
    allocator: CardAllocator
    whole_devices: WholeCardDeviceList
    whole_allocator: CardAllocator
    reconciler: AllocationReconciler
    publisher: Publisher
    announcer: Announcer
    cdi: CdiSpecPublisher


def make_parts(
    settings: PluginSettings,
    source: KubeletRecordSource,
    patcher: Patcher,
    announcer: Announcer,
    clock: Clock,
    limiter: MpsLimiter | None = None,
) -> Parts:
    """Build them; nothing runs yet. ``source`` is the kubelet's record, ``patcher`` the API server."""
    cards, kubelet = settings.cards, settings.kubelet
    pods, store = PodChanges(), PodStore(cards.vendor, longest_wait_s=kubelet.longest_wait_for_containers)
    responses = AllocateResponses(cards.vendor, kubelet.device_list_strategy, limiter, kubelet.driver_dirs)
    # Without a scheduler that chooses cards none is kept for any pod, so no call waits for its pod.
    wait_for_whole_s = 0.0 if cards.mode is Mode.WHOLE else kubelet.wait_for_pod
    return Parts(
        store=store,
        pods=pods,
        memory_devices=MemoryDeviceList(),
        allocator=CardAllocator(
            store, responses, pods, whole=False, wait_for_pod_s=kubelet.wait_for_pod, clock=clock.monotonic
        ),
        whole_devices=WholeCardDeviceList(),
        whole_allocator=CardAllocator(
            store, responses, pods, whole=True, wait_for_pod_s=wait_for_whole_s, clock=clock.monotonic
        ),
        reconciler=AllocationReconciler(
            store,
            source,
            patcher,
            clock=clock.monotonic,
            wall_clock_ns=lambda: round(clock.now().timestamp() * 1_000_000) * 1000,
            running=ProcOwners(cards.proc_root) if cards.pod_use else None,
        ),
        publisher=Publisher(cards.vendor, patcher, pods_per_count=cards.card_count.pods_per_count(cards.vendor)),
        announcer=announcer,
        cdi=CdiSpecPublisher(
            CdiSpecFile(kubelet.cdi_dir, cards.vendor), is_wanted=Strategy.CDI in kubelet.device_list_strategy
        ),
    )


def open_monitor(
    settings: PluginSettings,
    on_change: Callable[[CardsSnapshot], None],
    clock: Callable[[], float],
    source: CardSource | None = None,
) -> CardMonitor:
    """Create the monitor of a source, by default of the one that the settings name; nothing is loaded before its look.

    Raises:
        ConfigError: ``--cards`` names no source, or the simulated file is wrong.
    """
    return CardMonitor(source or open_source(source_options(settings)), on_change, monitor_settings(settings), clock)


def source_options(settings: PluginSettings) -> SourceOptions:
    """Where the cards come from, for the package that reads them."""
    cards = settings.cards
    return SourceOptions(
        cards=cards.cards,
        libraries=cards.card_library,
        prefer=cards.vendor.library.name,
        extra_application_xids=settings.health.application_xids,
        isolation=IsolationSettings(call_timeout_s=settings.health.card_call_timeout),
    )


def monitor_settings(settings: PluginSettings) -> MonitorSettings:
    """How the cards are watched."""
    health, poll_interval_s = settings.health, settings.cards.poll_interval
    policy = HealthPolicy(
        bad_readings=health.unhealthy_after,
        recover_after_s=health.recover_after,
        event_holds_s=health.event_holds,
        # Looks may be an hour apart: one that is missed must not turn every card sick.
        stale_after_s=max(STALE_AFTER_S, health.unhealthy_after * poll_interval_s),
    )
    return MonitorSettings(poll_interval_s=poll_interval_s, policy=policy)
