"""Look at the running kube-scheduler: which process it is, how it was started, and whether it is well."""

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
    """The scheduler did not come up as it should within the time; the message says what was seen last."""


class SchedulerUnseenError(RetryableError):
    """Who knows what runs on this node could not be asked: nothing is known of the scheduler, good or bad."""


@dataclass(frozen=True, slots=True)
class Running:
    """One running kube-scheduler; ``instance`` differs after every restart."""

    instance: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look found; ``problem`` is empty when the scheduler says that it is well."""

    running: Running | None
    problem: str


class SchedulerProbe(Protocol):
    """Something that can see the scheduler of this node."""

    async def look(self, endpoint: HealthEndpoint) -> Sighting:
        """Look once; what comes back says how the scheduler is, or that none runs.

        Raises:
            SchedulerUnseenError: it cannot be known now which one runs.
        """


class Processes(Protocol):
    """Something that knows which kube-scheduler runs on this node."""

    async def find(self, endpoint: HealthEndpoint) -> Running | None:
        """Find the one that serves ``endpoint``; None when none runs or none can be seen from here.

        Raises:
            SchedulerUnseenError: that cannot be known now.
        """


class HostProbe:
    """Sees the process through the first of ``sources`` that does, and asks it over HTTP for its health."""

    def __init__(self, *sources: Processes) -> None:
        self._sources = sources

    async def look(self, endpoint: HealthEndpoint) -> Sighting:
        for source in self._sources:
            running = await source.find(endpoint)
            if running is not None:
                return Sighting(running, await ask_health(endpoint.url))
        return Sighting(None, "no kube-scheduler process can be seen")


class ProcProcesses:
    """Reads /proc of the host: needs to run on the host, or in a pod with ``hostPID: true``."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    async def find(self, endpoint: HealthEndpoint) -> Running | None:
        found = await asyncio.to_thread(self._schedulers)
        serving = [one for one in found if default_health(scheduler_flags(one.arguments)).port == endpoint.port]
        return next(iter(serving or found), None)

    def _schedulers(self) -> list[Running]:
        if not self._proc.is_dir():
            # A pod that is not given the host's /proc sees the scheduler through its mirror pod.
            return []
        pids = sorted(int(entry.name) for entry in self._proc.iterdir() if entry.name.isdecimal())
        return [running for pid in pids if (running := self._read(pid)) is not None]

    def _read(self, pid: int) -> Running | None:
        try:
            raw = (self._proc / str(pid) / "cmdline").read_bytes()
            # Field 22, the start time, counted behind the name in parentheses, which may itself hold spaces.
            started = (self._proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[19]
        except (OSError, IndexError):
            # It ended between listing and reading, or is not ours to read.
            return None
        arguments = tuple(part.decode(errors="replace") for part in raw.split(b"\0") if part)
        names = [posixpath.basename(argument) for argument in arguments[:2]]
        if names[:1] == ["kube-scheduler"] or names in (["hyperkube", "kube-scheduler"], ["hyperkube", "scheduler"]):
            return Running(f"{pid}@{started}", arguments)
        return None


async def ask_health(url: str) -> str:
    """Ask a scheduler how it is; empty means well. Nothing secret is sent, so its certificate is not verified."""
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
    look: SchedulerProbe,
    endpoint: HealthEndpoint,
    awaited: AwaitScheduler,
    clock: Clock,
    limits: WaitLimits,
    before: str,
) -> None:
    """Wait until the scheduler is as ``awaited`` says and stays so; ``before`` is the instance that ran earlier.

    One that cannot be seen for a while is waited for like one that is not well, so that it is judged in the end.

    Raises:
        SchedulerUnhealthyError: it was not so within ``limits.timeout_s``.
    """
    deadline = clock.monotonic() + limits.timeout_s
    steady: tuple[str, float] | None = None
    while True:
        try:
            sighting = await look.look(endpoint)
        except SchedulerUnseenError as error:
            sighting = Sighting(None, str(error))
        problem = find_problem(sighting, awaited, before)
        now = clock.monotonic()
        if problem or sighting.running is None:
            steady = None
        elif steady is None or steady[0] != sighting.running.instance:
            steady = (sighting.running.instance, now)
        elif now - steady[1] >= limits.settle_s:
            return
        if now >= deadline:
            raise SchedulerUnhealthyError(
                f"kube-scheduler did not come up within {limits.timeout_s:g} s: {problem or 'it keeps restarting'}"
            )
        await clock.sleep(limits.interval_s)


def find_problem(sighting: Sighting, awaited: AwaitScheduler, before: str) -> str:
    """Say what of ``awaited`` is not so yet; empty when all is."""
    if sighting.running is None:
        return sighting.problem
    if awaited.restarted and sighting.running.instance == before:
        return "the old one still runs"
    values = [flag.value for flag in scheduler_flags(sighting.running.arguments) if flag.name == awaited.flag]
    if (values[-1] if values else None) != awaited.value:
        wanted = f"--{awaited.flag}={awaited.value}" if awaited.value is not None else f"no --{awaited.flag}"
        return f"it runs with --{awaited.flag} {values!r}, expected is {wanted}"
    return sighting.problem
