"""What handles pods over their grant, and the order in which it gets every reading of the cards."""

from __future__ import annotations

import time
from collections.abc import Callable

from gcushare.core.cards import Inventory
from gcushare.core.over_use.tracking import OverUse, OverUseTracker
from gcushare.kube.client import KubeClient
from gcushare.node.api_server import Announcer
from gcushare.node.over_use.evictor import OverUseEvictor
from gcushare.node.over_use.notes import OverUseNotes
from gcushare.node.over_use.over_use_settings import Action, OverUseSettings
from gcushare.node.over_use.watch import OverUseWatch
from gcushare.node.pod_use import CardPolls, PodMemoryMonitor
from gcushare.node.pods import NodePods
from gcushare.runtime.shutdown import RootTasks


class OverUseParts:
    """Nothing runs yet. Without ``pod_use`` there is no ``watch`` either, and no pod counts as over its grant: then
    notes are only removed. ``evictor`` is None unless asked for.

    ``hands_out_alone`` as for ``OverUseWatch``.
    """

    def __init__(
        self,
        settings: OverUseSettings,
        pod_use: PodMemoryMonitor | None,
        polls: CardPolls,
        pods: NodePods,
        *,
        announcer: Announcer,
        client: KubeClient,
        inventory: Callable[[], Inventory | None],
        hands_out_alone: Callable[[], bool],
        longest_wait_s: float,
    ) -> None:
        self.settings = settings
        self._pod_use = pod_use
        self._polls = polls
        self.watch: OverUseWatch | None = None
        self.evictor: OverUseEvictor | None = None
        over: Callable[[], dict[str, dict[int, OverUse]] | None] = dict
        if pod_use is not None:
            tracker = OverUseTracker(settings.tolerance, settings.over_use_looks)
            self.watch = watch = OverUseWatch(
                tracker,
                pod_use,
                polls,
                pods,
                announcer,
                inventory=inventory,
                hands_out_alone=hands_out_alone,
                wall_clock_s=time.time,
            )
            over = lambda: watch.over if tracker.has_enough_polls else None  # noqa: E731
            if settings.over_use is Action.EVICT:
                self.evictor = OverUseEvictor(
                    settings,
                    watch,
                    pods,
                    client,
                    announcer,
                    longest_wait_s=longest_wait_s,
                    clock=time.monotonic,
                    wall_clock_s=time.time,
                )
        self._notes = OverUseNotes(pods, client, over, clock=time.monotonic)

    @property
    def problem(self) -> str:
        """Why pods over their grant cannot be evicted; "" if they can, or need not be."""
        return self.evictor.problem if self.evictor is not None else ""

    def on_poll(self) -> None:
        """Process the newest reading of the cards."""
        if self.watch is not None:
            self.watch.on_poll()
        if self.evictor is not None:
            self.evictor.on_poll()
        self._notes.on_poll()

    def start(self, tasks: RootTasks) -> None:
        """Start the tasks: each reading of the cards is processed after the use per pod was read with it."""
        if self._pod_use is not None:
            tasks.start("use per pod", self._pod_use.run(self.on_poll))
        else:
            tasks.start("over-use", self._follow_polls())
        tasks.start("over-use notes", self._notes.run())
        if self.evictor is not None:
            tasks.start("over-use evictions", self.evictor.run())

    async def _follow_polls(self) -> None:
        seen = 0
        while True:
            seen = await self._polls.wait_poll(seen)
            self.on_poll()
