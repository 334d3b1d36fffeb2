"""Wait until kube-scheduler runs as a plan wants it, and stays healthy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gcushare.config_manager.host.launch import HealthEndpoint, scheduler_flags
from gcushare.config_manager.plan.steps import AwaitScheduler
from gcushare.core.errors import GcushareError, RetryableError
from gcushare.kube.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLimits:
    """How long to wait for a scheduler, in seconds."""

    timeout_s: float = 180.0
    """The kubelet reads its directory every 20 s, ends the old pod within 30 s and starts the new one; the rest is for
    slow machines."""
    settle_s: float = 5.0
    """How long it must stay healthy: one that refuses its configuration ends within a second."""
    interval_s: float = 0.25


class SchedulerUnhealthyError(GcushareError):
    """The scheduler did not come up in time; the message has the last problem."""


class SchedulerUnknownError(RetryableError):
    """The source that knows what runs on this node did not answer, so the scheduler's state is not known."""


@dataclass(frozen=True, slots=True)
class Running:
    """One running kube-scheduler; ``instance`` differs after every restart."""

    instance: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of one poll; ``problem`` is empty if the scheduler reports that it is healthy."""

    running: Running | None
    problem: str


class SchedulerProbe(Protocol):
    """Polls the scheduler of this node; the tests and the simulation have doubles."""

    async def poll(self, endpoint: HealthEndpoint) -> PollResult:
        """Poll once.

        Raises:
            SchedulerUnknownError: it is not known now which scheduler runs.
        """


async def wait_for_scheduler(
    probe: SchedulerProbe,
    endpoint: HealthEndpoint,
    awaited: AwaitScheduler,
    clock: Clock,
    limits: WaitLimits,
    before: str,
) -> None:
    """Wait until the scheduler is as ``awaited`` says and stays so; ``before`` is the instance that ran earlier.

    A scheduler whose state is not known counts as unhealthy until the next poll, so that the wait always ends.

    Raises:
        SchedulerUnhealthyError: this was not the case within ``limits.timeout_s``.
    """
    deadline = clock.monotonic() + limits.timeout_s
    steady: tuple[str, float] | None = None
    while True:
        try:
            result = await probe.poll(endpoint)
        except SchedulerUnknownError as error:
            result = PollResult(None, str(error))
        problem = _find_problem(result, awaited, before)
        now = clock.monotonic()
        if problem or result.running is None:
            steady = None
        elif steady is None or steady[0] != result.running.instance:
            steady = (result.running.instance, now)
        elif now - steady[1] >= limits.settle_s:
            return
        if now >= deadline:
            raise SchedulerUnhealthyError(
                f"kube-scheduler did not come up within {limits.timeout_s:g} s: {problem or 'it keeps restarting'}"
            )
        await clock.sleep(limits.interval_s)


def _find_problem(result: PollResult, awaited: AwaitScheduler, before: str) -> str:
    """Say in what the scheduler differs from ``awaited``; empty if in nothing."""
    if result.running is None:
        return result.problem
    if awaited.restarted and result.running.instance == before:
        return "the old one still runs"
    values = [flag.value for flag in scheduler_flags(result.running.arguments) if flag.name == awaited.flag]
    if (values[-1] if values else None) != awaited.value:
        wanted = f"--{awaited.flag}={awaited.value}" if awaited.value is not None else f"no --{awaited.flag}"
        return f"it runs with --{awaited.flag} {values!r}, expected is {wanted}"
    return result.problem
