"""What handles pods over their grant and idle ones, and the order in which it gets every reading of the cards."""

from __future__ import annotations

from collections.abc import Callable

from gcushare.core.cards import Inventory
from gcushare.core.over_use.tracking import OverUse, OverUseTracker
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.node.api_server import Announcer
from gcushare.node.highest_use import HighestUses
from gcushare.node.over_use.evictor import Evictor
from gcushare.node.over_use.idle_settings import IdleAction, IdleSettings
from gcushare.node.over_use.idle_watch import IdleWatch
from gcushare.node.over_use.notes import OverUseTexts, PodNotes
from gcushare.node.over_use.over_use_settings import Action, OverUseSettings
from gcushare.node.over_use.watch import OverUseWatch
from gcushare.node.pod_use import CardPolls, PodMemoryMonitor
from gcushare.node.pods import NodePods
from gcushare.runtime.shutdown import RootTasks
from gcushare.wire.annotations import IDLE_SINCE, OVER_USE


class OverUseParts:
    """Nothing runs yet. Without ``pod_use`` there is no ``watch`` either, and no pod counts as over its grant or idle:
    then notes are only removed. ``idle`` is None if it is off, too. ``evictor`` is None unless asked for.

    ``hands_out_alone`` as for ``OverUseWatch``, ``longest_gap_s`` as for ``IdleTracker``.
    """

    def __init__(
        self,
        settings: OverUseSettings,
        idle: IdleSettings,
        pod_use: PodMemoryMonitor | None,
        polls: CardPolls,
        pods: NodePods,
        *,
        announcer: Announcer,
        client: KubeClient,
        inventory: Callable[[], Inventory | None],
        hands_out_alone: Callable[[], bool],
        longest_wait_s: float,
        longest_gap_s: float,
        clock: Clock,
    ) -> None:
        self.settings = settings
        self.idle_settings = idle
        self._pod_use = pod_use
        self._polls = polls
        self._pods = pods
        self._announcer = announcer
        self._clock = clock
        self.watch: OverUseWatch | None = None
        self.idle: IdleWatch | None = None
        self.highest = HighestUses()
        self.evictor: Evictor | None = None
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
                wall_clock_s=self._wall_clock_s,
            )
            over = lambda: watch.over if tracker.has_enough_polls else None  # noqa: E731
            if idle.idle is not IdleAction.OFF:
                self.idle = self._make_idle(pod_use, longest_gap_s)
            if settings.over_use is Action.EVICT or (self.idle is not None and self.idle.is_evicting):
                self.evictor = self._make_evictor(watch, client, longest_wait_s)
        texts = OverUseTexts(over, clock=clock.monotonic)
        self._notes = (
            PodNotes(OVER_USE, pods, client, texts, clock=clock.monotonic),
            PodNotes(IDLE_SINCE, pods, client, lambda: self.idle.notes if self.idle else {}, clock=clock.monotonic),
        )

    def _make_idle(self, pod_use: PodMemoryMonitor, longest_gap_s: float) -> IdleWatch:
        return IdleWatch(
            self.idle_settings,
            pod_use,
            self._polls,
            self._pods,
            self._announcer,
            exempt=self.settings.over_use_exempt,
            is_rehearsing=self.settings.dry_run,
            longest_gap_s=longest_gap_s,
            clock=self._clock.monotonic,
            wall_clock_s=self._wall_clock_s,
        )

    def _make_evictor(self, watch: OverUseWatch, client: KubeClient, longest_wait_s: float) -> Evictor:
        return Evictor(
            self.settings,
            watch,
            self.idle,
            self._pods,
            client,
            self._announcer,
            longest_wait_s=longest_wait_s,
            clock=self._clock.monotonic,
            wall_clock_s=self._wall_clock_s,
        )

    def _wall_clock_s(self) -> float:
        return self._clock.now().timestamp()

    @property
    def problem(self) -> str:
        """Why pods cannot be evicted; "" if they can, or need not be."""
        return self.evictor.problem if self.evictor is not None else ""

    def on_poll(self) -> None:
        """Process the newest reading of the cards."""
        if self._pod_use is not None:
            self.highest.take(self._pod_use.latest, self._pods.everyone.keys(), self._wall_clock_s())
        if self.watch is not None:
            self.watch.on_poll()
        if self.idle is not None:
            self.idle.on_poll()
        if self.evictor is not None:
            self.evictor.on_poll()
        for notes in self._notes:
            notes.on_poll()

    def start(self, tasks: RootTasks) -> None:
        """Start the tasks: each reading of the cards is processed after the use per pod was read with it."""
        if self._pod_use is not None:
            tasks.start("use per pod", self._pod_use.run(self.on_poll))
        else:
            tasks.start("over-use", self._follow_polls())
        for name, notes in zip(("over-use notes", "idle notes"), self._notes, strict=True):
            tasks.start(name, notes.run())
        if self.evictor is not None:
            tasks.start("evictions", self.evictor.run())

    async def _follow_polls(self) -> None:
        seen = 0
        while True:
            seen = await self._polls.wait_poll(seen)
            self.on_poll()
