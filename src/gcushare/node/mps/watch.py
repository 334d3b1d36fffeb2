"""Follow the MPS daemon: close cards while it is away, and post Events on pods that lost their CUDA contexts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from gcushare.core.log_fields import fields
from gcushare.node.api_server import Announcer
from gcushare.node.memory_limiter import MemoryLimiter
from gcushare.node.mps.limits import MpsLimiter
from gcushare.node.mps.state import MpsState, MpsStateReader
from gcushare.node.pods import NodePods

logger = logging.getLogger(__name__)

POLL_S = 2.0
TOGETHER_S = 60.0
"""A pod's containers are started within this time of each other."""


class MpsWatch:
    """Reads the daemon's state again and again; ``on_change`` is called when cards open or close by it.

    The state's file stays fresh for some seconds without its writer, so that a container that is restarted at once
    closes no card. ``is_known``: whether the pods of this node, and what they hold, are.
    """

    def __init__(
        self,
        reader: MpsStateReader,
        limiter: MpsLimiter,
        pods: NodePods,
        announcer: Announcer,
        on_change: Callable[[], None],
        *,
        is_known: Callable[[], bool],
        wall_clock_s: Callable[[], float],
    ) -> None:
        self._reader = reader
        self._limiter = limiter
        self._pods = pods
        self._announcer = announcer
        self._on_change = on_change
        self._is_known = is_known
        self._started_s = wall_clock_s()
        self._instance = ""
        self._reported_cards: dict[int, str] = {}
        self.restarts = 0

    @property
    def problem(self) -> str:
        """Why no memory is limited on this node; "" if it is."""
        cards = "; ".join(f"card {index}: {why}" for index, why in sorted(self._limiter.card_problems.items()))
        return self._limiter.daemon_problem or cards

    async def run(self) -> None:
        """Read the state again and again, until cancelled."""
        while True:
            self.poll()
            await asyncio.sleep(POLL_S)

    def poll(self) -> None:
        """Read the state once and act on what is new in it."""
        state = self._reader.read()
        if state.instance and state.instance != self._instance and self._is_known():
            # The first daemon seen here was reported by the process before this one, unless it was started together
            # with this program's own pod.
            if state.is_restart and (self._instance or state.started_s > self._started_s - TOGETHER_S):
                self._report_restart(state.started_s)
            self._instance = state.instance
        self._report_problem(state)
        self._report_cards()

    def _report_restart(self, started_s: float) -> None:
        """Report a restart on every pod whose processes used the old daemon: they have lost their contexts."""
        self.restarts += 1
        holders = (entry for entry in self._pods.entries.values() if entry.taken_cards and not entry.is_whole)
        noted = [entry for entry in holders if entry.placed_s < started_s]
        for entry in noted:
            self._announcer.about_pod(
                entry.ref,
                "MpsDaemonRestarted",
                "the MPS daemon of the node was started again: processes that used the old one get errors from CUDA; "
                "where the program does not end by itself, delete the pod",
                warning=True,
            )
        logger.warning("MPS daemon was started again %s", fields(pods=len(noted)))

    def _report_cards(self) -> None:
        """Report the cards without a limit; cards that are closed for it are already reported as unhealthy."""
        if self._limiter.card_problems != self._reported_cards and not self._limiter.refuses:
            for index, why in sorted(self._limiter.card_problems.items()):
                words = f"card {index} has no limit of memory: {why}; pods start without"
                self._announcer.about_node("MpsUnavailable", words, warning=True)
                logger.warning("no memory is limited on a card %s", fields(card=index, reason=why))
        self._reported_cards = dict(self._limiter.card_problems)

    def _report_problem(self, state: MpsState) -> None:
        before, self._limiter.daemon_problem = self._limiter.daemon_problem, state.problem
        if before == state.problem:
            return
        if state.problem:
            effect = "cards take no new pods" if self._limiter.refuses else "pods start without a limit"
            self._announcer.about_node("MpsUnavailable", f"{state.problem}; {effect}", warning=True)
            logger.warning("no memory is limited %s", fields(reason=state.problem))
        else:
            self._announcer.about_node("MpsAvailable", "memory is limited by MPS", warning=False)
        self._on_change()


def make_mps_watch(
    limiter: MemoryLimiter | None,
    pods: NodePods,
    announcer: Announcer,
    on_change: Callable[[], None],
    *,
    is_known: Callable[[], bool],
) -> MpsWatch | None:
    """Build the watch of this machine's daemon; None if MPS limits nothing. Nothing is read yet."""
    if not isinstance(limiter, MpsLimiter):
        return None
    reader = MpsStateReader(limiter.folders)
    return MpsWatch(reader, limiter, pods, announcer, on_change, is_known=is_known, wall_clock_s=time.time)
