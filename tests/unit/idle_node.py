"""One card of a node, and the watch for idle pods on it, in a time that only polls move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gcushare.node.over_use.idle_settings import IdleSettings
from gcushare.node.over_use.idle_watch import IdleWatch
from tests.unit.over_use_node import POLL_S, OverUseNode

AFTER_S = 60.0


class IdleNode(OverUseNode):
    """Pods p0 and p1 on one card; both are idle once ``AFTER_S`` of readings found nothing."""

    exempt: tuple[str, ...] = ("default/p1",)

    def __init__(self, folder: Path, pods: int = 2, **settings: Any) -> None:
        super().__init__(folder, pods=pods)
        given = {"idle_after": AFTER_S, "idle_least_age": 0.0} | settings
        self.settings = IdleSettings(**given)
        self.idle = self.make_watch()

    def make_watch(self) -> IdleWatch:
        """The watch of a program that has just been started."""
        return IdleWatch(
            self.settings,
            self.pod_use,
            self.monitor,
            self.store,
            self.events,
            exempt=self.exempt,
            is_rehearsing=False,
            longest_gap_s=3 * POLL_S,
            clock=lambda: self.now_s,
            wall_clock_s=lambda: self.now_s,
        )

    async def poll(self) -> None:
        await super().poll()
        self.idle.on_poll()

    async def poll_for(self, seconds: float) -> None:
        for _ in range(int(seconds // POLL_S)):
            await self.poll()

    @property
    def notes(self) -> dict[str, str]:
        """The annotations that are due, by pod."""
        names = {uid: name for name, uid in self.uids.items()}
        return {names[uid]: text for uid, text in self.idle.notes.items()}
