"""Poll the running kube-scheduler: which process it is, how it was started, and whether it is healthy."""

from __future__ import annotations

import asyncio
import logging
import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp

from gcushare.config_manager.host.launch import HealthEndpoint, default_health, scheduler_flags
from gcushare.config_manager.plan.steps import AwaitScheduler, WaitLimits
from gcushare.core.errors import GcushareError, RetryableError
from gcushare.kube.clock import Clock

logger = logging.getLogger(__name__)

_HEALTH_TIMEOUT_S = 3.0


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


class Processes(Protocol):
    """Knows which kube-scheduler runs on this node: /proc, or the API server's mirror pod."""

    async def find(self, endpoint: HealthEndpoint) -> Running | None:
        """Find the one that serves ``endpoint``; None if none runs or this source does not show it.

        Raises:
            SchedulerUnknownError: the source does not answer now.
        """


class HostProbe:
    """Takes the process from the first of ``sources`` that finds it, and asks it over HTTP for its health."""

    def __init__(self, *sources: Processes) -> None:
        self._sources = sources

    async def poll(self, endpoint: HealthEndpoint) -> PollResult:
        for source in self._sources:
            running = await source.find(endpoint)
            if running is not None:
                return PollResult(running, await ask_health(endpoint.url))
        return PollResult(None, "no kube-scheduler process was found")


class ProcProcesses:
    """Reads /proc. Use it on the host, or in a pod with ``hostPID: true``."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    async def find(self, endpoint: HealthEndpoint) -> Running | None:
        found = await asyncio.to_thread(self._schedulers)
        serving = [one for one in found if default_health(scheduler_flags(one.arguments)).port == endpoint.port]
        return next(iter(serving or found), None)

    def _schedulers(self) -> list[Running]:
        if not self._proc.is_dir():
            # A pod without the host's /proc finds the scheduler through its mirror pod.
            return []
        pids = sorted(int(entry.name) for entry in self._proc.iterdir() if entry.name.isdecimal())
        return [running for pid in pids if (running := self._read(pid)) is not None]

    def _read(self, pid: int) -> Running | None:
        try:
            raw = (self._proc / str(pid) / "cmdline").read_bytes()
            # Field 22, the start time, counted behind the name in parentheses, which may itself hold spaces.
            started = (self._proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[19]
        except (OSError, IndexError):
            # It ended since the listing, or may not be read.
            return None
        arguments = tuple(part.decode(errors="replace") for part in raw.split(b"\0") if part)
        names = [posixpath.basename(argument) for argument in arguments[:2]]
        if names[:1] == ["kube-scheduler"] or names in (["hyperkube", "kube-scheduler"], ["hyperkube", "scheduler"]):
            return Running(f"{pid}@{started}", arguments)
        return None


async def ask_health(url: str) -> str:
    """Ask a scheduler for its health and return the problem, empty if healthy.

    Nothing secret is sent, so its certificate is not verified.
    """
    timeout = aiohttp.ClientTimeout(total=_HEALTH_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, ssl=False, allow_redirects=False) as answer,
        ):
            text = (await answer.content.read(200)).decode(errors="replace").strip()
            return "" if answer.status == 200 else f"{url} answers {answer.status} {text!r}"
    except (aiohttp.ClientError, TimeoutError) as error:
        return f"{url} does not answer: {str(error) or type(error).__name__}"


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
        problem = find_problem(result, awaited, before)
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


def find_problem(result: PollResult, awaited: AwaitScheduler, before: str) -> str:
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
