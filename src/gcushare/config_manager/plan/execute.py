"""Carry out a plan step by step, print each step's lines, and put everything back if the scheduler does not come up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeGuard, assert_never

from gcushare.config_manager.host.files import HostFileError, HostFiles
from gcushare.config_manager.host.launch import HealthEndpoint, health_endpoint
from gcushare.config_manager.host.running_scheduler import (
    PollResult,
    PollScheduler,
    SchedulerUnhealthyError,
    WaitLimits,
    wait_for_scheduler,
)
from gcushare.config_manager.host.systemd_unit import Systemd, SystemdError
from gcushare.config_manager.plan.observe import ObservedScheduler, read_target
from gcushare.config_manager.plan.steps import (
    AwaitScheduler,
    Plan,
    RemoveFile,
    Restart,
    Step,
    Switch,
    WriteFile,
    describe,
    outcome,
    way_back,
)
from gcushare.core.errors import ConflictError, GcushareError, Refused
from gcushare.core.log_fields import fields
from gcushare.kube.clock import Clock
from gcushare.kube.election import Tenure
from gcushare.runtime.safe_directory import UnsafePathError
from gcushare.wire.flags import effective

logger = logging.getLogger(__name__)

STEP_S = 5.0
"""The longest time to write a file of some kilobytes and sync it to the disk."""
RESTART_S = 60.0
"""The longest time to restart a scheduler: the kubelet reads its directory every 20 s, ends the old pod within 30 s and
starts the new one. No other node may get the Lease within this time."""


class LeaseLostError(GcushareError):
    """The Lease is lost, so this node stopped. Its files are in a safe state, and its next turn continues."""

    def __init__(self, before: str) -> None:
        super().__init__(
            f"this node lost the Lease before this step: {before}; nothing more was changed (the Lease was not renewed "
            "in time: can this node reach the API server?); it continues from here when it holds the Lease again"
        )


class RolledBackError(GcushareError):
    """The change was undone; the message says why, and whether the scheduler is healthy again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """What a plan needs to be carried out; ``say`` gets each line to print."""

    files: HostFiles
    poll: PollScheduler
    systemd: Systemd
    clock: Clock
    say: Callable[[str], None]
    limits: WaitLimits

    async def apply(self, observed: ObservedScheduler, plan: Plan, undo: Plan, tenure: Tenure | None = None) -> None:
        """Carry out a plan that changes the scheduler, or leave everything as it was.

        ``undo`` removes all of our change. It is used when an earlier run ended while it waited, and the change that it
        left turns out to be unhealthy. ``tenure`` is None for an admin's command, which does not wait for the Lease.

        Raises:
            Refused: the scheduler is unhealthy or cannot be found before anything is changed.
            SchedulerUnknownError: it is not known, before anything is changed, which scheduler runs.
            ConflictError: another program or person changed the scheduler's file; our other files are harmless.
            RolledBackError: a step failed, the scheduler did not come up, or an admin interrupted the command;
                everything is back as it was.
            LeaseLostError: ``tenure`` ended; completed steps stay, and a scheduler can start from them.
        """
        problem = await self.problem_before(observed, plan)
        if problem:
            raise Refused(f"kube-scheduler is unhealthy before any change, nothing was changed: {problem}")
        guard = _Guard(self, observed, tenure)
        try:
            await self._carry_out(observed, plan, guard)
        except (SchedulerUnhealthyError, HostFileError, UnsafePathError, SystemdError) as error:
            logger.warning("change not kept %s", fields(target=observed.layout.target, reason=error))
            raise await self._roll_back(observed, plan, undo, error, guard) from error
        except asyncio.CancelledError:
            if tenure is not None:
                raise  # The DaemonSet's next pod continues.
            self.say("interrupted, everything is put back; Ctrl-C again to not wait for kube-scheduler")
            raise await self._roll_back(observed, plan, undo, InterruptedError("interrupted"), guard) from None

    async def problem_before(self, observed: ObservedScheduler, plan: Plan) -> str:
        """Find the problem of the scheduler for which ``apply`` is refused; empty if it has none or is not waited for.

        Nothing could separate our change from a problem that was there before it.

        Raises:
            SchedulerUnknownError: it is not known now which scheduler runs.
        """
        if observed.has_trace or not _waits(plan):
            return ""
        return (await self.poll(health_endpoint(observed.pristine.flags))).problem

    async def recover(self, observed: ObservedScheduler, plan: Plan, tenure: Tenure | None = None) -> None:
        """Carry out a plan that removes our change; if a step fails, a second run continues.

        Raises:
            RolledBackError: the scheduler was healthy with our change and is not without it, so the change is back.
            SchedulerUnhealthyError: it does not come up, and was not healthy before either; our files are still there.
            LeaseLostError: ``tenure`` ended, as in ``apply``.
        """
        guard = _Guard(self, observed, tenure)
        was_healthy = False
        if observed.has_trace and _waits(plan):
            was_healthy = not (await self.poll(health_endpoint(observed.target.flags))).problem
        try:
            await self._carry_out(observed, plan, guard)
        except SchedulerUnhealthyError as error:
            if was_healthy:
                raise await self._roll_back(observed, plan, None, error, guard) from error
            raise SchedulerUnhealthyError(
                f"{error}; {observed.layout.target!r} is as it was without gcushare, and gcushare's files stay, among "
                f"them {observed.kept_copy!r}: find out what kube-scheduler lacks, and recover then"
            ) from error

    async def _carry_out(self, observed: ObservedScheduler, plan: Plan, guard: _Guard) -> None:
        for line in plan.opening:
            self.say(line)
        endpoint = health_endpoint(observed.pristine.flags)
        running = None
        if _waits(plan):
            running = (await self.poll(endpoint)).running
        before = "" if running is None else running.instance
        for step in plan.steps:
            if isinstance(step, AwaitScheduler):
                await wait_for_scheduler(guard.poll, endpoint, step, self.clock, self.limits, before)
            else:
                guard.check_file(step)
                await self._do(step, guard)
                guard.on_done(step)
            for line in step.lines:
                self.say(line)
        for note in plan.notes:
            self.say(note)

    async def _do(self, step: Step, guard: _Guard) -> None:
        guard.check_lease(step)
        match step:
            case WriteFile(path=path, state=state):
                self.files.write(path, state)
            case Switch(source=source, target=target):
                self.files.replace(source, target)
            case RemoveFile(path=path):
                self.files.remove(path)
            case Restart(unit=unit):
                await self.systemd.reload()
                guard.check_lease(step)
                await self.systemd.restart(unit)
            case AwaitScheduler():
                raise ValueError("_carry_out does this step: it needs the instance that ran before")
            case _:
                assert_never(step)
        logger.debug("step done %s", fields(step=describe(step)))

    async def _roll_back(
        self, observed: ObservedScheduler, plan: Plan, undo: Plan | None, reason: Exception, guard: _Guard
    ) -> RolledBackError:
        """Put the files back, wait for the earlier scheduler, and return the error that describes the outcome.

        It restores the earlier files. If they may be what made the scheduler unhealthy, and there is an ``undo``, it
        removes all of ours.
        """
        layout = observed.layout
        failures: list[str] = []
        steps: tuple[Step, ...] = ()
        try:
            undoing = undo if undo is not None and self._must_undo(observed, plan, reason) else None
            before = observed.snapshot if undoing is None else outcome(observed.snapshot, undoing)
            now = {path: self.files.read(path) for path in before}
            restarts = [step for step in (undoing or plan).steps if isinstance(step, Restart)]
            steps = way_back(before, now, layout.target, layout.staging)
            steps += tuple(replace(step, lines=()) for step in restarts)
        except GcushareError as error:
            failures.append(str(error))
        for step in steps:
            # Each step helps even if another one fails.
            try:
                await self._do(step, guard)
            except LeaseLostError:
                raise
            except GcushareError as error:
                failures.append(str(error))
        if failures:
            where = f"; the scheduler's original file is in {layout.backup}" if undo is not None else ""
            return RolledBackError(f"{reason}; putting it back failed as well: {'; '.join(failures)}{where}")
        if not any(_replaces(step, layout.target) or isinstance(step, Restart) for step in steps):
            return RolledBackError(f"{reason}; the scheduler's file was not changed")
        return RolledBackError(f"{reason}; rolled back, {await self._state_after(observed, plan)}")

    def _must_undo(self, observed: ObservedScheduler, plan: Plan, reason: Exception) -> bool:
        """Whether the files from before the plan may themselves be what made the scheduler unhealthy."""
        layout = observed.layout
        waits = _waits(plan)
        # A unit's scheduler reads a new configuration although its own file stays; a static pod's does not.
        read = {layout.target, *(layout.own_configs if layout.is_unit else ())}
        if waits and not any(_replaces(step, path) for step in plan.steps for path in read):
            # The plan changed nothing that the scheduler reads, so it waited for the earlier files. Decided here too,
            # because without a record nothing else marks them as unproven.
            return True
        # A failed write says nothing about the scheduler, unless it was restarted before that.
        is_write_only = isinstance(reason, HostFileError | UnsafePathError) and all(
            self.files.read(path) == observed.snapshot[path] for path in read
        )
        return waits and not observed.was_seen_healthy and not is_write_only

    async def _state_after(self, observed: ObservedScheduler, plan: Plan) -> str:
        """Wait for the scheduler that the restored file starts, and describe the result."""
        _, target = read_target(self.files, observed.layout)
        awaits = [step for step in plan.steps if isinstance(step, AwaitScheduler)]
        if not awaits:
            return "the scheduler was not asked to restart"
        flag = effective(target.flags, awaits[0].flag)
        awaited = replace(awaits[0], value=None if flag is None else flag.value, restarted=False)
        try:
            await wait_for_scheduler(self.poll, health_endpoint(target.flags), awaited, self.clock, self.limits, "")
        except SchedulerUnhealthyError as error:
            return f"but {error}"
        return "kube-scheduler is healthy again"


class _Guard:
    """Checks before each step that this node holds the Lease and that no other program changed the scheduler's file."""

    def __init__(self, executor: Executor, observed: ObservedScheduler, tenure: Tenure | None) -> None:
        self._executor = executor
        self._tenure = tenure
        self._target = observed.layout.target
        self._content = observed.target_state.content
        self._next = self._content

    def check_lease(self, step: Step) -> None:
        """Check right before a step, whose effects must end before another node can get the Lease.

        Raises:
            LeaseLostError: the Lease is not held, or not for long enough.
        """
        restarts = isinstance(step, Restart) or _replaces(step, self._target)
        if self._tenure is not None and not self._tenure.holds(RESTART_S if restarts else STEP_S):
            raise LeaseLostError(describe(step))

    def check_file(self, step: Step) -> None:
        """Check before a step that would replace the scheduler's file.

        Raises:
            ConflictError: the file is not as it was observed, or as an earlier step wrote it.
        """
        if not _replaces(step, self._target):
            return
        self._compare()
        self._next = step.state.content if isinstance(step, WriteFile) else self._read(step.source)

    def on_done(self, step: Step) -> None:
        """Expect from now on what the step wrote."""
        if _replaces(step, self._target):
            self._content = self._next

    async def poll(self, endpoint: HealthEndpoint) -> PollResult:
        """Poll the scheduler, unless there is nothing left to wait for.

        Raises:
            ConflictError: the scheduler's file was changed, so that it no longer starts the awaited scheduler.
            LeaseLostError: other nodes may change their schedulers now; the wait continues in the next turn.
        """
        self._compare()
        if self._tenure is not None and not self._tenure.holds(0.0):
            raise LeaseLostError("wait until kube-scheduler is healthy")
        return await self._executor.poll(endpoint)

    def _compare(self) -> None:
        if self._read(self._target) != self._content:
            raise ConflictError(
                f"{self._target} was changed by another program or person meanwhile; it was left as it is"
            )

    def _read(self, path: str) -> bytes:
        state = self._executor.files.read(path)
        return b"" if state is None else state.content


def _waits(plan: Plan) -> bool:
    return any(isinstance(step, AwaitScheduler) for step in plan.steps)


def _replaces(step: Step, path: str) -> TypeGuard[WriteFile | Switch]:
    return (isinstance(step, Switch) and step.target == path) or (isinstance(step, WriteFile) and step.path == path)
