"""Build what handles pods over their grant, and pass every reading of the cards to it in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gcushare.core.cards import Inventory
from gcushare.core.over_use.tracking import OverUse, OverUseTracker
from gcushare.node.api_server import Announcer, EvictionClient, PodPatcher
from gcushare.node.choices import DEFAULT_LONGEST_WAIT_S
from gcushare.node.over_use.evictor import EvictionRules, OverUseEvictor
from gcushare.node.over_use.notes import OverUseNotes
from gcushare.node.over_use.over_use_settings import Action, OverUseSettings
from gcushare.node.over_use.watch import OverUseWatch
from gcushare.node.pod_use import CardPolls, PodMemoryMonitor
from gcushare.node.pods import NodePods


@dataclass(frozen=True, slots=True)
class OverUseParts:
    """``watch`` is None without ``--pod-use``: notes are only removed then. ``evictor`` is None unless asked for."""

    settings: OverUseSettings
    watch: OverUseWatch | None
    notes: OverUseNotes
    evictor: OverUseEvictor | None

    def on_poll(self) -> None:
        """Process the newest reading of the cards."""
        if self.watch is not None:
            self.watch.on_poll()
        if self.evictor is not None:
            self.evictor.on_poll()
        self.notes.on_poll()

    async def follow(self, polls: CardPolls) -> None:
        """Process every reading, until cancelled; run it if nothing else calls ``on_poll``."""
        seen = 0
        while True:
            seen = await polls.wait_poll(seen)
            self.on_poll()


def make_over_use(
    settings: OverUseSettings,
    pod_use: PodMemoryMonitor | None,
    polls: CardPolls,
    pods: NodePods,
    *,
    patcher: PodPatcher,
    announcer: Announcer,
    client: EvictionClient,
    inventory: Callable[[], Inventory | None],
    longest_wait_s: float = DEFAULT_LONGEST_WAIT_S,
) -> OverUseParts:
    """Build the parts; nothing runs yet. Without ``pod_use`` no pod counts as over its grant."""
    if pod_use is None:
        notes = OverUseNotes(pods, patcher, dict[str, dict[int, OverUse]], clock=time.monotonic)
        return OverUseParts(settings, None, notes, None)
    tracker = OverUseTracker(settings.tolerance, settings.over_use_looks)
    watch = OverUseWatch(tracker, pod_use, polls, pods, announcer, inventory=inventory, wall_clock_s=time.time)
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
            pods,
            client,
            announcer,
            clock=time.monotonic,
            wall_clock_s=time.time,
        )

    def over() -> dict[str, dict[int, OverUse]] | None:
        return watch.over if tracker.has_enough_polls else None

    return OverUseParts(settings, watch, OverUseNotes(pods, patcher, over, clock=time.monotonic), evictor)
