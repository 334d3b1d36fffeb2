"""The DaemonSet's loop: bring this node's scheduler to the desired state, one node of the cluster at a time."""

from __future__ import annotations

import asyncio
import enum
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from gcushare.config_manager.extender_address import check_extender
from gcushare.config_manager.manager import Manager, Prepared
from gcushare.config_manager.plan.execute import RolledBackError
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields
from gcushare.kube.clock import Clock
from gcushare.kube.election import ApiLease, LeaderElector, LeaseTimes, Tenure

logger = logging.getLogger(__name__)

ROLLOUT_TIMES = LeaseTimes(duration_s=90, renew_deadline_s=20, retry_s=1)
"""A holder that loses the API server acts for 20 s at most, and the next one waits 90 s: a restart that the first one
began has ended by then (`execute.RESTART_S`). A Lease is released after use, so only a crash costs this wait."""
AFTER_FAILURE_S = 900.0
"""Before the same change is tried again after a rollback. A changed file or mode is tried at once."""


class WantedMode(enum.Enum):
    """What the cluster's admin wants for every scheduler."""

    APPLY = "apply"
    RECOVER = "recover"


class State(enum.Enum):
    """What a node reports about its scheduler."""

    APPLIED = "applied"
    RECOVERED = "recovered"
    FAILED = "failed"
    CHANGING = "changing"
    """This node holds the Lease and may change its files. Reported before the first change; a manager that ends during
    a change leaves this report."""


_DONE = {WantedMode.APPLY: State.APPLIED, WantedMode.RECOVER: State.RECOVERED}


class ClusterPort(Protocol):
    """What a node reads from its cluster and reports to it; the tests have one without an API server.

    Every method raises ``GcushareError`` if the cluster cannot be reached now.
    """

    async def mode(self) -> WantedMode:
        """Read whether to apply or to recover."""

    async def extender(self) -> ExtenderEntry:
        """Find how to reach the extender now: its Service's address and its CA may change."""

    async def report(self, state: State, reason: str) -> None:
        """Store this node's report, with how its scheduler calls, unless it is stored already."""


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """The loop; it calls ``beat`` at each round, for the liveness check."""

    manager: Manager
    cluster: ClusterPort
    hold_lease: Callable[[], AbstractAsyncContextManager[Tenure]]
    """The function below with its first arguments; the tests have one without an API server."""
    clock: Clock
    interval_s: float
    """Between two rounds, in seconds. A round without a change reads some files and sends two GETs."""
    beat: Callable[[], None] = lambda: None
    check_extender: Callable[[ExtenderEntry], Awaitable[None]] = check_extender
    """Returns if the scheduler may call the extender; raises ``GcushareError`` with the reason if not."""
    _failed: tuple[str, float, str] | None = None
    _state: tuple[State, str] | None = None
    _last_problem: str = ""

    async def run(self) -> None:
        """Run rounds until it is cancelled; the next start finishes a change that this interrupts."""
        while True:
            await self.round()
            self.beat()
            await self.clock.sleep(self.interval_s)

    async def check(self) -> str | None:
        """For readiness: return why the scheduler is not in the desired state, None if it is."""
        if self._state is None:
            return "the scheduler was not checked yet"
        state, reason = self._state
        return None if state is not State.FAILED else reason

    async def round(self) -> None:
        """Check the scheduler once and do what is needed. A problem is reported, and the next round tries again."""
        try:
            state, reason = await self._reconcile()
        except GcushareError as error:
            state, reason = State.FAILED, str(error)
        self._state = (state, reason)
        self._log(state, reason)
        try:
            await self.cluster.report(state, reason)
        except GcushareError as error:
            logger.warning("state not reported %s", fields(state=state.value, error=error))

    async def _reconcile(self) -> tuple[State, str]:
        mode = await self.cluster.mode()
        try:
            prepared = await self._prepare(mode)
        except GcushareError as error:
            if mode is not WantedMode.RECOVER or not self.manager.is_untouched():
                raise
            # A scheduler that cannot be changed must not block an uninstall.
            self._failed = None
            return State.RECOVERED, f"nothing of gcushare is on this node: {error}"
        if not prepared.plan.steps:
            self._failed = None
            return _DONE[mode], ""
        if (
            self._failed is not None
            and self._failed[0] == prepared.fingerprint
            and self.clock.monotonic() < self._failed[1]
        ):
            return State.FAILED, self._failed[2]
        self.manager.check(prepared)
        if prepared.extender is not None:
            await self.check_extender(prepared.extender)
        checked = prepared.extender
        async with self.hold_lease() as tenure:
            # An uninstall writes the mode first and reads the reports then. This node reports first and reads the mode
            # then, so that either it reads the new mode or the uninstall reads that this node is changing.
            await self.cluster.report(State.CHANGING, "")
            # The wait may have been long, so decide again on the present mode and files.
            mode = await self.cluster.mode()
            prepared = await self._prepare(mode)
            if prepared.extender is not None and prepared.extender != checked:
                await self.check_extender(prepared.extender)
            try:
                await self.manager.carry_out(prepared, tenure)
            except RolledBackError as error:
                self._failed = (prepared.fingerprint, self.clock.monotonic() + AFTER_FAILURE_S, str(error))
                raise
        self._failed = None
        return _DONE[mode], ""

    async def _prepare(self, mode: WantedMode) -> Prepared:
        if mode is WantedMode.RECOVER:
            return await self.manager.prepare_recover()
        return await self.manager.prepare_apply(await self.cluster.extender())

    def _log(self, state: State, reason: str) -> None:
        """Log a problem if it is new, not at every round."""
        if reason and reason != self._last_problem:
            if state is State.FAILED:
                logger.warning("scheduler not as wanted %s", fields(state=state.value, reason=reason))
            else:
                logger.info("scheduler left as it is %s", fields(state=state.value, reason=reason))
        elif not reason and self._last_problem:
            logger.info("scheduler as wanted again %s", fields(state=state.value))
        self._last_problem = reason


@asynccontextmanager
async def hold_lease(
    lease: ApiLease,
    identity: str,
    *,
    times: LeaseTimes = ROLLOUT_TIMES,
    clock: Clock,
    rng: random.Random | None = None,
    beat: Callable[[], None] = lambda: None,
) -> AsyncIterator[Tenure]:
    """Wait until this node holds the Lease, and release it at once after use.

    Ask the tenure before every step that changes the host, because the Lease may be lost at any moment. ``beat`` is
    called while this node waits, which may take as long as all other nodes together, and when it holds the Lease.
    """
    held = asyncio.Event()

    def on_change(leading: bool) -> None:
        if leading:
            held.set()

    elector = LeaderElector(lease, identity, times=times, listener=on_change, clock=clock, rng=rng)
    running = asyncio.create_task(elector.run(), name="rollout lease")
    waiting = asyncio.create_task(held.wait(), name="wait for the rollout lease")
    try:
        done: set[asyncio.Task[Any]] = set()
        while not done:
            done, _ = await asyncio.wait((running, waiting), timeout=times.retry_s, return_when=asyncio.FIRST_COMPLETED)
            beat()
        if running.done():
            running.result()
        yield elector
    finally:
        # Cancelling the elector releases the Lease, so that the next node does not wait until it expires.
        waiting.cancel()
        running.cancel()
        await asyncio.wait((running, waiting))
