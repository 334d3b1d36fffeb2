"""Build what handles pods over their grant, and pass every reading of the cards to it in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gcushare.core.cards import Inventory
from gcushare.core.over_use.tracking import OverUse, OverUseTracker
from gcushare.kube.client import KubeClient
from gcushare.node.api_server import Announcer
from gcushare.node.node_settings import DEFAULT_LONGEST_WAIT_S
from gcushare.node.over_use.evictor import OverUseEvictor
from gcushare.node.over_use.notes import OverUseNotes
from gcushare.node.over_use.over_use_settings import Action, OverUseSettings
from gcushare.node.over_use.watch import OverUseWatch
from gcushare.node.pod_use import CardPolls, PodMemoryMonitor
from gcushare.node.pods import NodePods
from gcushare.runtime.shutdown import RootTasks


@dataclass(frozen=True, slots=True)
class OverUseParts:
    """``pod_use`` and ``watch`` are None without ``--pod-use``: notes are only removed then.

    ``evictor`` is None unless asked for.
    """

    settings: OverUseSettings
    pod_use: PodMemoryMonitor | None
    polls: CardPolls
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

    def start(self, tasks: RootTasks) -> None:
        """Start the tasks: each reading of the cards is processed after the use per pod was read with it."""
        if self.pod_use is not None:
            tasks.start("use per pod", self.pod_use.run(self.on_poll))
        else:
            tasks.start("over-use", self._follow_polls())
        tasks.start("over-use notes", self.notes.run())
        if self.evictor is not None:
            tasks.start("over-use evictions", self.evictor.run())

    async def _follow_polls(self) -> None:
        seen = 0
        while True:
            seen = await self.polls.wait_poll(seen)
            self.on_poll()


def make_over_use(
    settings: OverUseSettings,
    pod_use: PodMemoryMonitor | None,
    polls: CardPolls,
    pods: NodePods,
    *,
    announcer: Announcer,
    client: KubeClient,
    inventory: Callable[[], Inventory | None],
    hands_out_alone: Callable[[], bool],
    longest_wait_s: float = DEFAULT_LONGEST_WAIT_S,
) -> OverUseParts:
    """Build the parts; nothing runs yet. Without ``pod_use`` no pod counts as over its grant.

    ``hands_out_alone`` as for ``OverUseWatch``.
    """
    if pod_use is None:
        notes = OverUseNotes(pods, client, dict[str, dict[int, OverUse]], clock=time.monotonic)
        return OverUseParts(settings, None, polls, None, notes, None)
    tracker = OverUseTracker(settings.tolerance, settings.over_use_looks)
    watch = OverUseWatch(
        tracker,
        pod_use,
        polls,
        pods,
        announcer,
        inventory=inventory,
        hands_out_alone=hands_out_alone,
        wall_clock_s=time.time,
    )
    evictor = None
    if settings.over_use is Action.EVICT:
        evictor = OverUseEvictor(
            settings,
            watch,
            pods,
            client,
            announcer,
            longest_wait_s=longest_wait_s,
            clock=time.monotonic,
            wall_clock_s=time.time,
        )

    def over() -> dict[str, dict[int, OverUse]] | None:
        return watch.over if tracker.has_enough_polls else None

    notes = OverUseNotes(pods, client, over, clock=time.monotonic)
    return OverUseParts(settings, pod_use, polls, watch, notes, evictor)
