"""Poll the running kube-scheduler: which process it is, how it was started, and whether it is healthy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

import aiohttp

from gcushare.config_manager.host.launch import HealthEndpoint, default_health, is_scheduler, scheduler_flags
from gcushare.config_manager.host.scheduler_wait import PollResult, Running

_HEALTH_TIMEOUT_S = 3.0


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
        found = await asyncio.to_thread(self._list)
        serving = [one for one in found if default_health(scheduler_flags(one.arguments)).port == endpoint.port]
        return next(iter(serving or found), None)

    def _list(self) -> list[Running]:
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
        return Running(f"{pid}@{started}", arguments) if is_scheduler(arguments) else None


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
