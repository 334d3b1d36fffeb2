"""The loop of the DaemonSet: reconcile this node's scheduler with the desired state, one node at a time."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from gcushare.config_manager.manager import Manager, Prepared
from gcushare.config_manager.plan.execute import RolledBackError
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.core.errors import GcushareError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.kube.clock import Clock
from gcushare.kube.connection.tls import client_context, load_client_certificate
from gcushare.kube.election import Tenure
from gcushare.runtime.shutdown import Shutdown
from gcushare.wire.contracts import PROBED_PATH, Calls

logger = logging.getLogger(__name__)

_CHECK_TIMEOUT = ClientTimeout(total=5.0)


class Mode(enum.Enum):
    """What the cluster's admin wants of every scheduler."""

    APPLY = "apply"
    RECOVER = "recover"


class State(enum.Enum):
    """What a node reports of its scheduler."""

    APPLIED = "applied"
    RECOVERED = "recovered"
    FAILED = "failed"
    CHANGING = "changing"
    """It is this node's turn, and its files may be changed from now on. Reported before the first change, and left
    standing by a manager that is ended in the middle of one."""


_DONE = {Mode.APPLY: State.APPLIED, Mode.RECOVER: State.RECOVERED}


class DesiredState(Protocol):
    """What is wanted, as of now."""

    async def mode(self) -> Mode:
        """Say whether to apply or to recover. Raises ``GcushareError`` when that cannot be known now."""

    async def extender(self) -> ExtenderEntry:
        """Say how the extender is reached now: its Service's address and its CA may change."""


class Reports(Protocol):
    """Where each node reports how its scheduler is."""

    async def report(self, state: State, reason: str, calls: Calls) -> None:
        """Have the report stand there, with how the scheduler calls; nothing where it does already.

        Raises ``GcushareError`` when that did not succeed.
        """


class RolloutLease(Protocol):
    """Held by the one node of the cluster whose scheduler may be changed."""

    def hold(self) -> AbstractAsyncContextManager[Tenure]:
        """Wait until this node holds it: never two schedulers of a cluster restart at once.

        It may be lost at any moment, so what is yielded is asked before every step that changes the host.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times of the loop, in seconds."""

    interval_s: float = 10.0
    """Between two looks at the manifest, the Service and the CA: some file reads and one GET each."""
    after_failure_s: float = 900.0
    """Before a change that was rolled back is tried again as it is; a changed file or mode is tried at once."""


async def check_extender(entry: ExtenderEntry) -> None:
    """Ask the extender with the scheduler's own certificate, before the scheduler is sent there.

    Returns when it answers over mutual TLS, or the scheduler needs no certificate for it.

    Raises:
        RetryableError: it does not answer, or one side does not take the other's certificate.
        ConfigError: certificate and key do not belong together, or are none.
    """
    tls = entry.tls
    if tls is None or not tls.certificate:
        return
    url = entry.url.rstrip("/") + PROBED_PATH
    where = "the scheduler's certificates (tls-ca, tls-cert, tls-key)"
    context = client_context(tls.ca, where)
    load_client_certificate(context, tls.certificate, tls.key, where)
    connector = TCPConnector(ssl=context, force_close=True)
    try:
        async with (
            ClientSession(connector=connector, timeout=_CHECK_TIMEOUT) as session,
            session.get(url, server_hostname=tls.server_name or None, allow_redirects=False) as answer,
        ):
            status = answer.status
    except (ClientError, TimeoutError, OSError) as error:
        raise RetryableError(_refusal(url, f"{type(error).__name__}: {error}")) from error
    if status != 200:
        raise RetryableError(_refusal(url, f"it answers {status}"))


def _refusal(url: str, reason: str) -> str:
    return (
        f"the extender does not answer over mutual TLS, so the scheduler is left as it is: GET {url}: {reason}; see "
        "whether a replica of the extender is ready, and what `gcushare doctor` says of certificates"
    )


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """The loop; ``beat`` is called at each round, for the liveness check."""

    manager: Manager
    desired: DesiredState
    reports: Reports
    lease: RolloutLease
    clock: Clock
    pace: Pace = field(default_factory=Pace)
    beat: Callable[[], None] = lambda: None
    check_extender: Callable[[ExtenderEntry], Awaitable[None]] = check_extender
    """Returns when the scheduler may be sent to the extender; raises ``GcushareError`` with the reason if not."""
    _failed: tuple[str, float, str] | None = None
    _state: tuple[State, str] | None = None
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
            state, reason = await self._reconcile()
        except GcushareError as error:
            state, reason = State.FAILED, str(error)
        self._state = (state, reason)
        self._log(state, reason)
        try:
            await self._report(state, reason)
        except GcushareError as error:
            logger.warning("state not reported %s", fields(state=state.value, error=error))

    async def _report(self, state: State, reason: str) -> None:
        await self.reports.report(state, reason, self.manager.calls())

    async def _reconcile(self) -> tuple[State, str]:
        mode = await self.desired.mode()
        try:
            prepared = await self._prepare(mode)
        except GcushareError as error:
            if mode is not Mode.RECOVER or not self.manager.is_untouched():
                raise
            # What keeps a scheduler from being changed must not keep the cluster from being uninstalled.
            self._failed = None
            return State.RECOVERED, f"nothing of gcushare is on this node: {error}"
        if prepared.plan.changes_nothing:
            self._failed = None
            return _DONE[mode], ""
        if (
            self._failed is not None
            and self._failed[0] == prepared.fingerprint
            and self.clock.monotonic() < self._failed[1]
        ):
            return State.FAILED, self._failed[2]
        if prepared.extender is not None:
            await self.check_extender(prepared.extender)
        checked = prepared.extender
        async with self.lease.hold() as tenure:
            # Whoever wants all nodes recovered writes that first and reads the reports then. So this node is seen by
            # them, or sees what they want: reported before the wish is read, and nothing is changed unreported.
            await self._report(State.CHANGING, "")
            # The wait may have been long: decide again on what is wanted, and there, now.
            mode = await self.desired.mode()
            prepared = await self._prepare(mode)
            if prepared.extender is not None and prepared.extender != checked:
                await self.check_extender(prepared.extender)
            await self._carry_out(mode, prepared, tenure)
        self._failed = None
        return _DONE[mode], ""

    async def _prepare(self, mode: Mode) -> Prepared:
        if mode is Mode.RECOVER:
            return await self.manager.prepare_recover()
        return await self.manager.prepare_apply(await self.desired.extender())

    async def _carry_out(self, mode: Mode, prepared: Prepared, tenure: Tenure) -> None:
        if mode is Mode.RECOVER:
            await self.manager.recover(prepared, tenure)
            return
        try:
            await self.manager.apply(prepared, tenure)
        except RolledBackError as error:
            until = self.clock.monotonic() + self.pace.after_failure_s
            self._failed = (prepared.fingerprint, until, str(error))
            raise

    def _log(self, state: State, reason: str) -> None:
        """Log a problem when it is new, not at every round."""
        if reason and reason != self._last_problem:
            if state is State.FAILED:
                logger.warning("scheduler not as wanted %s", fields(state=state.value, reason=reason))
            else:
                logger.info("scheduler left as it is %s", fields(state=state.value, reason=reason))
        elif not reason and self._last_problem:
            logger.info("scheduler as wanted again %s", fields(state=state.value))
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
