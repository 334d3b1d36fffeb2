"""Follow the MPS daemon: close cards while it is away, and post Events on pods that lost their CUDA contexts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from gcushare.core.log_fields import fields
from gcushare.node.api_server import Announcer
from gcushare.node.mps.limits import MpsLimiter
from gcushare.node.mps.state import MpsDaemon
from gcushare.node.pods import NodePods
from gcushare.wire.contracts import COMPONENT_LABEL, MPS_COMPONENT

logger = logging.getLogger(__name__)

POLL_S = 3.0
AWAITED_POLLS = 5
"""How often a daemon that never answered is asked before it counts as away: both pods of a node start at once."""


@dataclass(eq=False)
class MpsWatch:
    """Asks the daemon again and again; ``on_change`` is called when cards open or close by its answer.

    Each container brings its own limits to the daemon, so that a new one needs nothing set again.
    """

    daemon: MpsDaemon
    limiter: MpsLimiter
    pods: NodePods
    announcer: Announcer
    on_change: Callable[[], None]

    def __post_init__(self) -> None:
        self._reported_cards: dict[int, str] = {}
        self._polls = 0
        self._started_ns: int | None = None
        self.restarts = 0

    @property
    def problem(self) -> str:
        """Why no memory is limited on this node; "" if it is."""
        cards = "; ".join(f"card {index}: {why}" for index, why in sorted(self.limiter.card_problems.items()))
        return self.limiter.daemon_problem or cards

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        while True:
            await self.poll()
            await asyncio.sleep(POLL_S)

    async def poll(self) -> None:
        """Ask the daemon once and act on what is new."""
        problem = await self.daemon.find_problem()
        if not problem:
            self._look_for_restart()
        self._report_problem(problem)
        self._report_cards()

    def _look_for_restart(self) -> None:
        before, now = self._started_ns, self.daemon.started_ns
        if now is not None and now != before:
            self._started_ns = now
            if before is not None:
                self._report_restart(now / 1e9)

    def _report_restart(self, started_s: float) -> None:
        """Report a restart on every pod whose processes used the old daemon: they have lost their contexts."""
        self.restarts += 1
        holders = (entry for entry in self.pods.entries.values() if entry.taken_cards and not entry.is_whole)
        noted = [entry for entry in holders if entry.placed_s < started_s]
        for entry in noted:
            self.announcer.about_pod(
                entry.ref,
                "MpsDaemonRestarted",
                "the MPS daemon of the node was started again: processes that used the old one get errors from CUDA; "
                "where the program does not end by itself, delete the pod",
                warning=True,
            )
        logger.warning("MPS daemon was started again %s", fields(pods=len(noted)))

    def _report_cards(self) -> None:
        """Report the cards without a limit; cards that are closed for it are already reported as unhealthy."""
        if self.limiter.is_awaited:
            return
        if self.limiter.card_problems != self._reported_cards and not self.limiter.refuses:
            for index, why in sorted(self.limiter.card_problems.items()):
                words = f"card {index} has no limit of memory: {why}; pods start without"
                self.announcer.about_node("MpsUnavailable", words, warning=True)
                logger.warning("no memory is limited on a card %s", fields(card=index, reason=why))
        self._reported_cards = dict(self.limiter.card_problems)

    def _report_problem(self, problem: str) -> None:
        limiter = self.limiter
        self._polls += 1
        before = (limiter.daemon_problem, limiter.is_awaited)
        limiter.daemon_problem = problem
        limiter.is_awaited = limiter.is_awaited and bool(problem) and self._polls < AWAITED_POLLS
        if before == (problem, limiter.is_awaited):
            return
        if limiter.is_awaited:
            words = f"{problem}; it may still be starting, and cards that need it take no new pods until it answers"
            self.announcer.about_node("MpsAwaited", words, warning=False)
            logger.info("waiting for the MPS daemon %s", fields(reason=problem))
        elif problem:
            see = f"its pod on this node ({COMPONENT_LABEL}={MPS_COMPONENT}) says why"
            self.announcer.about_node("MpsUnavailable", f"{problem}; {limiter.effect}; {see}", warning=True)
            logger.warning("no memory is limited %s", fields(reason=problem))
        else:
            self.announcer.about_node("MpsAvailable", "memory is limited by MPS", warning=False)
        self.on_change()
