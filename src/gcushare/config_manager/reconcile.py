"""The loop of the DaemonSet: keep this node's scheduler as it is wanted, one node of the cluster at a time."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from gcushare.config_manager.extender_check import ask_extender
from gcushare.config_manager.manager import Manager, Prepared
from gcushare.config_manager.plan.execute import RolledBackError
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderSettings
from gcushare.core.errors import GcushareError
from gcushare.kube.clock import Clock
from gcushare.kube.election import Tenure
from gcushare.runtime.shutdown import Shutdown
from gcushare.wire.scheduler_port import Calls

logger = logging.getLogger(__name__)


class Desire(enum.Enum):
    """What the cluster's admin wants of every scheduler."""

    APPLY = "apply"
    RECOVER = "recover"


class State(enum.Enum):
    """What a node reports of its scheduler."""

    APPLIED = "applied"
    RECOVERED = "recovered"
    FAILED = "failed"


class Wishes(Protocol):
    """What is wanted, as of now."""

    async def desire(self) -> Desire:
        """Say whether to apply or to recover. Raises ``GcushareError`` when that cannot be known now."""

    async def extender(self) -> ExtenderSettings:
        """Say how the extender is reached now: its Service's address and its CA may change."""


class Reports(Protocol):
    """Where each node tells how its scheduler is."""

    async def report(self, state: State, reason: str, calls: Calls) -> None:
        """Tell it, with how the scheduler calls. Raises ``GcushareError`` when it did not get through."""


class Turns(Protocol):
    """The cluster's order in which nodes change their schedulers."""

    def turn(self) -> AbstractAsyncContextManager[Tenure]:
        """Wait for this node's turn: never two schedulers of a cluster restart at once.

        It may be lost at any moment, so what is yielded is asked before every step that changes the host.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often to look."""

    interval_s: float = 10.0
    """Between two looks at the manifest, the Service and the CA: some file reads and one GET each."""
    after_failure_s: float = 900.0
    """Before a change that was rolled back is tried again as it is; a changed file or wish is tried at once."""


@dataclass(slots=True, kw_only=True)
class Keeper:
    """Owns the loop; ``beat`` is called at each round, for the liveness check."""

    manager: Manager
    wishes: Wishes
    reports: Reports
    turns: Turns
    clock: Clock
    pace: Pace = field(default_factory=Pace)
    beat: Callable[[], None] = lambda: None
    ask: Callable[[ExtenderSettings], Awaitable[None]] = ask_extender
    """Returns when the scheduler may be sent to the extender; raises ``GcushareError`` with the reason if not."""
    _failed: tuple[str, float, str] | None = None
    _state: tuple[State, str] | None = None
    _reported: tuple[State, str, Calls] | None = None
    _last_problem: str = ""

    async def run(self, shutdown: Shutdown) -> None:
        """Go round until the shutdown is asked for; a change under way is then left to the next start to finish."""
        while not shutdown.is_requested:
            await _until(shutdown, self.round())
            self.beat()
            await _until(shutdown, self.clock.sleep(self.pace.interval_s))

    async def check(self) -> str | None:
        """Say for readiness why the scheduler is not as wanted; None when it is."""
        if self._state is None:
            return "the scheduler was not looked at yet"
        state, reason = self._state
        return None if state is not State.FAILED else reason

    async def round(self) -> None:
        """Look once and do what is needed; what goes wrong is reported, and tried again at the next round."""
        try:
            state, reason = await self._kept()
        except GcushareError as error:
            state, reason = State.FAILED, str(error)
        self._state = (state, reason)
        self._log(state, reason)
        report = (state, reason, self.manager.calls())
        if report == self._reported:
            return
        try:
            await self.reports.report(*report)
            self._reported = report
        except GcushareError as error:
            logger.warning("state not reported state=%s error=%s", state.value, error)

    async def _kept(self) -> tuple[State, str]:
        desire = await self.wishes.desire()
        prepared = await self._prepared(desire)
        done = State.APPLIED if desire is Desire.APPLY else State.RECOVERED
        if prepared.plan.changes_nothing:
            self._failed = None
            return done, ""
        if (
            self._failed is not None
            and self._failed[0] == prepared.fingerprint
            and self.clock.monotonic() < self._failed[1]
        ):
            return State.FAILED, self._failed[2]
        if prepared.extender is not None:
            await self.ask(prepared.extender)
        async with self.turns.turn() as turn:
            # The wait may have been long: decide again on what is there now.
            prepared = await self._prepared(desire)
            await self._carried_out(desire, prepared, turn)
        self._failed = None
        return done, ""

    async def _prepared(self, desire: Desire) -> Prepared:
        if desire is Desire.RECOVER:
            return await self.manager.prepare_recover()
        return await self.manager.prepare_apply(await self.wishes.extender())

    async def _carried_out(self, desire: Desire, prepared: Prepared, turn: Tenure) -> None:
        if desire is Desire.RECOVER:
            await self.manager.recover(prepared, turn)
            return
        try:
            await self.manager.apply(prepared, turn)
        except RolledBackError as error:
            until = self.clock.monotonic() + self.pace.after_failure_s
            self._failed = (prepared.fingerprint, until, str(error))
            raise

    def _log(self, state: State, reason: str) -> None:
        """Log a problem when it is new, not at every round."""
        if reason and reason != self._last_problem:
            logger.warning("scheduler not as wanted state=%s reason=%s", state.value, reason)
        elif not reason and self._last_problem:
            logger.info("scheduler as wanted again state=%s", state.value)
        self._last_problem = reason


async def _until(shutdown: Shutdown, work: Coroutine[object, object, None]) -> None:
    """Do ``work`` or cancel it at the shutdown, whichever comes first."""
    task = asyncio.create_task(work, name="scheduler round")
    stop = asyncio.create_task(shutdown.wait(), name="wait for the shutdown")
    try:
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        task.cancel()
        stop.cancel()
        await asyncio.wait((task, stop))
    if not task.cancelled():
        task.result()
