"""The parts that follow pods over their grant, built once from the settings; each look goes through them in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gcushare.core.cards import Inventory
from gcushare.core.over_use.tracking import OverUse, OverUseTracker
from gcushare.device_plugin.over_use.evictor import EvictionRules, OverUseEvictor
from gcushare.device_plugin.over_use.notes import OverUseNotes
from gcushare.device_plugin.over_use.over_use_settings import Action, OverUseSettings
from gcushare.device_plugin.over_use.watch import OverUseWatch
from gcushare.device_plugin.pods.memory_use import Looks, PodMemoryMonitor
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.ports import Announcer, EvictionClient, PodPatcher


@dataclass(frozen=True, slots=True)
class OverUseParts:
    """Without ``--pod-use`` there is no ``watch``, and notes are only taken away. ``evictor`` where it is wanted."""

    settings: OverUseSettings
    watch: OverUseWatch | None
    notes: OverUseNotes
    evictor: OverUseEvictor | None

    def look(self) -> None:
        """Take the last look at the cards in."""
        if self.watch is not None:
            self.watch.look()
        if self.evictor is not None:
            self.evictor.look()
        self.notes.look()

    async def follow(self, looks: Looks) -> None:
        """Take every look in, until cancelled: where nothing else calls ``look``."""
        seen = 0
        while True:
            seen = await looks.wait_look(seen)
            self.look()


def make_over_use(
    settings: OverUseSettings,
    pod_use: PodMemoryMonitor | None,
    looks: Looks,
    store: PodStore,
    *,
    patcher: PodPatcher,
    announcer: Announcer,
    client: EvictionClient,
    inventory: Callable[[], Inventory | None],
    longest_wait_s: float,
) -> OverUseParts:
    """Build them; nothing runs yet. ``pod_use`` None: no pod is known to be over."""
    if pod_use is None:
        notes = OverUseNotes(store, patcher, dict[str, dict[int, OverUse]], clock=time.monotonic)
        return OverUseParts(settings, None, notes, None)
    tracker = OverUseTracker(settings.tolerance, settings.over_use_looks)
    watch = OverUseWatch(tracker, pod_use, looks, store, announcer, inventory=inventory, wall_clock_s=time.time)
    evictor = None
    if settings.over_use is Action.EVICT:
        rules = EvictionRules(
            settings.over_use_when,
            settings.exemptions,
            settings.over_use_pause,
            settings.dry_run,
            longest_wait_s,
        )
        evictor = OverUseEvictor(
            rules,
            watch,
            pod_use,
            looks,
            store,
            client,
            announcer,
            inventory=inventory,
            clock=time.monotonic,
            wall_clock_s=time.time,
        )

    def over() -> dict[str, dict[int, OverUse]] | None:
        return watch.over if tracker.has_looked_enough else None

    parts = OverUseParts(settings, watch, OverUseNotes(store, patcher, over, clock=time.monotonic), evictor)
    pod_use.on_refreshed = parts.look
    return parts
