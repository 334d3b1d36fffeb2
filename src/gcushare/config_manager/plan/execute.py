"""Carry out a plan step by step, say what was done, and put everything back when the scheduler does not come up."""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeGuard, assert_never

from gcushare.config_manager.host.files import Files, HostFileError
from gcushare.config_manager.host.launch import HealthEndpoint
from gcushare.config_manager.host.probe import (
    SchedulerProbe,
    SchedulerUnhealthyError,
    Sighting,
    wait_for_scheduler,
)
from gcushare.config_manager.plan.observe import Observed, read_target
from gcushare.config_manager.plan.steps import (
    AwaitScheduler,
    Plan,
    RemoveFile,
    Restart,
    Step,
    Switch,
    WaitLimits,
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
"""What writing a file takes at most: some kilobytes, made to last on the disk."""
RESTART_S = 60.0
"""What restarting a scheduler takes: the kubelet looks every 20 s at worst, ends the old one within 30 s, starts the
new one. No other node may take the Lease within it."""


class LeaseLostError(GcushareError):
    """The Lease is held no longer, so nothing more was changed; what is there is safe, and continued later."""

    def __init__(self, before: str) -> None:
        super().__init__(
            f"this node lost the Lease before this step: {before}; nothing more was changed (the Lease was not renewed "
            "in time: is the API server reached?); it continues from here when it holds the Lease again"
        )


class Unshared:
    """The tenure of a command that an admin runs on one node: no one can take it away."""

    def holds(self, margin_s: float) -> bool:
        return True


UNSHARED = Unshared()


class RolledBackError(GcushareError):
    """The change was undone; the message says why, and whether the scheduler is well again."""


class Systemd(Protocol):
    """The host's service manager."""

    async def reload(self) -> None:
        """Read the units again. Raises ``GcushareError`` when that fails."""

    async def restart(self, unit: str) -> None:
        """Restart the unit in file ``unit``. Raises ``GcushareError`` when that fails."""


class Systemctl:
    """systemd through its own command."""

    async def reload(self) -> None:
        await self._run("daemon-reload")

    async def restart(self, unit: str) -> None:
        await self._run("restart", posixpath.basename(unit))

    async def _run(self, *arguments: str) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                "systemctl", *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
            )
        except OSError as error:
            raise GcushareError(f"systemctl cannot be started: {error}; restart the scheduler by hand") from error
        _, errors = await process.communicate()
        if process.returncode != 0:
            reason = errors.decode(errors="replace").strip()[:500]
            raise GcushareError(f"systemctl {' '.join(arguments)} ended with {process.returncode}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """What a plan is carried out with; ``say`` gets each printed line."""

    files: Files
    probe: SchedulerProbe
    systemd: Systemd
    clock: Clock
    say: Callable[[str], None]
    limits: WaitLimits = field(default_factory=WaitLimits)

    async def apply(self, observed: Observed, plan: Plan, undo: Plan, tenure: Tenure = UNSHARED) -> None:
        """Carry out a plan that changes the scheduler, or leave everything as it was.

        ``undo`` is taken when an earlier run, cut off while it waited, left a change that turns out to be unhealthy.

        Raises:
            Refused: the scheduler is not well, or not to be seen, before anything is changed.
            SchedulerUnseenError: it cannot be known, before anything is changed, which one runs.
            ConflictError: someone else changed the scheduler's file meanwhile; what we wrote elsewhere is harmless.
            RolledBackError: a step failed or the scheduler did not come up; all is back as it was.
            LeaseLostError: ``tenure`` ended; what was done stays, a scheduler can start from it.
        """
        await self._check_before(observed, plan)
        guarded = _Guarded(self.files, self.probe, observed, tenure)
        try:
            await self._carry_out(observed, plan, guarded)
        except (SchedulerUnhealthyError, HostFileError, UnsafePathError, _RestartFailedError) as error:
            logger.warning("change not kept %s", fields(target=observed.layout.target, reason=error))
            raise await self._rolled_back(observed, plan, undo, error, guarded) from error

    async def recover(self, observed: Observed, plan: Plan, tenure: Tenure = UNSHARED) -> None:
        """Carry out a plan that takes our change away; when a step fails, running it again continues.

        Raises:
            LeaseLostError: ``tenure`` ended, as above.
        """
        await self._carry_out(observed, plan, _Guarded(self.files, self.probe, observed, tenure))

    async def _check_before(self, observed: Observed, plan: Plan) -> None:
        """Change nothing of a scheduler that is not well, or that no one could tell to be so afterwards."""
        waits = any(isinstance(step, AwaitScheduler) and step.required for step in plan.steps)
        if observed.has_trace or not waits:
            return
        problem = (await self.probe.look(observed.pristine.health)).problem
        if problem:
            raise Refused(f"kube-scheduler is not well as it is, nothing was changed: {problem}")

    async def _carry_out(self, observed: Observed, plan: Plan, guarded: _Guarded) -> None:
        for line in plan.opening:
            self.say(line)
        endpoint = observed.pristine.health
        waits = any(isinstance(step, AwaitScheduler) for step in plan.steps)
        before = await self._instance(endpoint) if waits else ""
        for step in plan.steps:
            if isinstance(step, AwaitScheduler):
                await self._wait(step, endpoint, guarded, before)
            else:
                guarded.check(step)
                await self._do(step, guarded)
                guarded.note(step)
            for line in step.lines:
                self.say(line)
        for note in plan.notes:
            self.say(note)

    async def _do(self, step: Step, guarded: _Guarded) -> None:
        guarded.check_lease(step)
        match step:
            case WriteFile(path=path, state=state):
                self.files.write(path, state)
            case Switch(source=source, target=target):
                self.files.replace(source, target)
            case RemoveFile(path=path):
                self.files.remove(path)
            case Restart():
                await self._restart(step, guarded)
            case AwaitScheduler():
                raise ValueError("waiting needs to know what ran before")
            case _:
                assert_never(step)
        logger.debug("step done %s", fields(step=describe(step)))

    async def _wait(self, step: AwaitScheduler, endpoint: HealthEndpoint, probe: SchedulerProbe, before: str) -> None:
        try:
            await wait_for_scheduler(probe, endpoint, step, self.clock, self.limits, before)
        except SchedulerUnhealthyError as error:
            if step.required:
                raise
            self.say(f"warning: {error}")

    async def _restart(self, step: Restart, guarded: _Guarded) -> None:
        try:
            await self.systemd.reload()
            guarded.check_lease(step)
            await self.systemd.restart(step.unit)
        except LeaseLostError:
            raise
        except GcushareError as error:
            raise _RestartFailedError(str(error)) from error

    async def _instance(self, endpoint: HealthEndpoint) -> str:
        running = (await self.probe.look(endpoint)).running
        return "" if running is None else running.instance

    async def _rolled_back(
        self, observed: Observed, plan: Plan, undo: Plan, reason: Exception, guarded: _Guarded
    ) -> RolledBackError:
        """Put the files back, wait for the scheduler that was there before, and word what happened."""
        layout = observed.layout
        failures: list[str] = []
        steps: tuple[Step, ...] = ()
        try:
            steps = self._steps_back(observed, plan, undo, reason)
        except GcushareError as error:
            failures.append(str(error))
        for step in steps:
            # Each helps by itself: one that fails must not keep the others from being done.
            try:
                await self._do(step, guarded)
            except LeaseLostError:
                raise
            except GcushareError as error:
                failures.append(str(error))
        if failures:
            where = f"the scheduler's file as it was lies in {layout.backup}"
            return RolledBackError(f"{reason}; putting it back failed as well: {'; '.join(failures)}; {where}")
        if not any(_replaces(step, layout.target) or isinstance(step, Restart) for step in steps):
            return RolledBackError(f"{reason}; the scheduler's file was not changed")
        return RolledBackError(f"{reason}; rolled back, {await self._state_after(observed, plan)}")

    def _steps_back(self, observed: Observed, plan: Plan, undo: Plan, reason: Exception) -> tuple[Step, ...]:
        """Plan the return to what was there before, or to nothing of ours where that may be what is not well."""
        layout = observed.layout
        is_undone = self._must_undo(observed, plan, reason)
        before = outcome(observed.snapshot, undo) if is_undone else observed.snapshot
        now = {path: self.files.read(path) for path in before}
        steps = way_back(before, now, layout.target, layout.staging)
        restarts = [step for step in (undo if is_undone else plan).steps if isinstance(step, Restart)]
        return (*steps, *(replace(step, lines=()) for step in restarts))

    def _must_undo(self, observed: Observed, plan: Plan, reason: Exception) -> bool:
        layout = observed.layout
        waits = any(isinstance(step, AwaitScheduler) for step in plan.steps)
        # A unit's scheduler reads a new configuration though its own file stays; a static pod's does not.
        read = {layout.target, *(layout.own_configs if layout.is_unit else ())}
        if waits and not any(_replaces(step, path) for step in plan.steps for path in read):
            # What stood there is what was waited for, also where its record is lost, so that none calls it unproven.
            return True
        # A file that could not be written says nothing of the scheduler, unless it was started again before that.
        is_write_only = isinstance(reason, HostFileError | UnsafePathError) and all(
            self.files.read(path) == observed.snapshot[path] for path in read
        )
        return waits and not observed.was_seen_well and not is_write_only

    async def _state_after(self, observed: Observed, plan: Plan) -> str:
        """Wait for the scheduler that the file which is back starts."""
        _, target = read_target(self.files, observed.layout)
        for step in plan.steps:
            if isinstance(step, AwaitScheduler):
                flag = effective(target.flags, step.flag)
                awaited = replace(step, value=None if flag is None else flag.value, restarted=False)
                return await self._words_after(awaited, target.health)
        return "the scheduler was not asked to restart"

    async def _words_after(self, awaited: AwaitScheduler, endpoint: HealthEndpoint) -> str:
        try:
            await wait_for_scheduler(self.probe, endpoint, awaited, self.clock, self.limits, "")
        except SchedulerUnhealthyError as error:
            return f"but {error}"
        return "kube-scheduler is healthy again"


class _Guarded:
    """Ensures that nothing is changed without the Lease, and that no one else's change of the file is lost."""

    def __init__(self, files: Files, probe: SchedulerProbe, observed: Observed, tenure: Tenure) -> None:
        self._files = files
        self._probe = probe
        self._tenure = tenure
        self._target = observed.layout.target
        self._content = observed.target_state.content
        self._next = self._content

    def check_lease(self, step: Step) -> None:
        """Check right before a step, whose effects must have ended before another node can take the Lease.

        Raises:
            LeaseLostError: the Lease is not held, or not for long enough.
        """
        restarts = isinstance(step, Restart) or _replaces(step, self._target)
        if not self._tenure.holds(RESTART_S if restarts else STEP_S):
            raise LeaseLostError(describe(step))

    def check(self, step: Step) -> None:
        """Check before a step that would replace the file. Raises ``ConflictError`` when it is not as we know it."""
        if not _replaces(step, self._target):
            return
        self._compare()
        self._next = step.state.content if isinstance(step, WriteFile) else self._read(step.source)

    def note(self, step: Step) -> None:
        """Take in that the step is done: from now on the file must be what it put there."""
        if _replaces(step, self._target):
            self._content = self._next

    async def look(self, endpoint: HealthEndpoint) -> Sighting:
        """Look at the scheduler that this file starts; there is nothing to wait for once it is another file.

        Nor once the Lease is lost: others may change theirs then, and what is left waits until it is held again.
        """
        self._compare()
        if not self._tenure.holds(0.0):
            raise LeaseLostError("wait until kube-scheduler is healthy")
        return await self._probe.look(endpoint)

    def _compare(self) -> None:
        if self._read(self._target) != self._content:
            raise ConflictError(f"{self._target} was changed by somebody else meanwhile, it was left as it is")

    def _read(self, path: str) -> bytes:
        state = self._files.read(path)
        return b"" if state is None else state.content


class _RestartFailedError(GcushareError):
    """systemd did not restart the scheduler."""


def _replaces(step: Step, path: str) -> TypeGuard[WriteFile | Switch]:
    return (isinstance(step, Switch) and step.target == path) or (isinstance(step, WriteFile) and step.path == path)
