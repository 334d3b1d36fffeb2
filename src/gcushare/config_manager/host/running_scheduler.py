"""The running kube-scheduler: find it, poll its health, and wait until it runs as a plan wants it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import aiohttp
import msgspec
from msgspec import field

from gcushare.cluster.programs import SeenSpec
from gcushare.config_manager.host.launch import HealthEndpoint, is_scheduler, scheduler_flags, serves
from gcushare.config_manager.plan.steps import AwaitScheduler
from gcushare.core.errors import GcushareError, NotFoundError, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.resources import Resource
from gcushare.wire.objects import ObjectMeta

_HEALTH_TIMEOUT_S = 3.0
_HASH = "kubernetes.io/config.hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLimits:
    """How long to wait for a scheduler, in seconds."""

    timeout_s: float
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


PollScheduler: TypeAlias = Callable[[HealthEndpoint], Awaitable[PollResult]]
"""Polls the scheduler of this node once; the tests and the simulation have doubles.

Raises ``SchedulerUnknownError`` if it is not known now which scheduler runs."""


async def wait_for_scheduler(
    poll: PollScheduler,
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
            result = await poll(endpoint)
        except SchedulerUnknownError as error:
            result = PollResult(None, str(error))
        problem = find_problem(result, awaited, before)
        now = clock.monotonic()
        if problem or result.running is None:
            steady = None
        elif steady is None or steady[0] != result.running.instance:
            steady = (result.running.instance, now)
        elif now - steady[1] >= limits.timeout_s / 36:  # One that refuses its configuration ends within a second.
            return
        if now >= deadline:
            raise SchedulerUnhealthyError(
                f"kube-scheduler did not come up within {limits.timeout_s:g} s: {problem or 'it keeps restarting'}"
            )
        await clock.sleep(limits.interval_s)


def find_problem(result: PollResult, awaited: AwaitScheduler, before: str = "") -> str:
    """Describe how the scheduler differs from ``awaited``; empty if it does not."""
    if result.running is None:
        return result.problem
    if awaited.restarted and result.running.instance == before:
        return "the old one still runs"
    values = [flag.value for flag in scheduler_flags(result.running.arguments) if flag.name == awaited.flag]
    if (values[-1] if values else None) != awaited.value:
        wanted = f"--{awaited.flag}={awaited.value}" if awaited.value is not None else f"no --{awaited.flag}"
        return f"it runs with --{awaited.flag} {values!r}, expected is {wanted}"
    return result.problem


FindScheduler: TypeAlias = Callable[[HealthEndpoint], Awaitable[Running | None]]
"""Finds the kube-scheduler that serves an address on this node; None if none runs or this source does not show it.

Raises ``SchedulerUnknownError`` if the source does not answer now."""


async def poll_host(sources: Sequence[FindScheduler], endpoint: HealthEndpoint) -> PollResult:
    """Take the process from the first source that finds it, and ask it over HTTP for its health."""
    for find in sources:
        running = await find(endpoint)
        if running is not None:
            return PollResult(running, await ask_health(endpoint.url))
    return PollResult(None, "no kube-scheduler process was found")


async def find_process(proc: Path, unit: str, endpoint: HealthEndpoint) -> Running | None:
    """Find the scheduler in /proc; a ``FindScheduler`` for the host, or for a pod with ``hostPID: true``.

    One in a network of its own, such as that of a cluster in containers, is not this node's. Nor is one that any user
    of the host may have started under this name. ``unit`` is the name of the scheduler's unit, empty for a static pod.
    """

    def read(pid: int) -> Running | None:
        try:
            raw = (proc / str(pid) / "cmdline").read_bytes()
            arguments = tuple(part.decode(errors="replace") for part in raw.split(b"\0") if part)
            if not is_scheduler(arguments) or not _is_systems(proc / str(pid), unit):
                return None
            # Field 22, the start time, counted behind the name in parentheses, which may itself hold spaces.
            started = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[19]
        except (OSError, IndexError):
            # It ended since the listing, or may not be read.
            return None
        is_here = len({_network(proc, 1), _network(proc, pid)} - {""}) < 2
        return Running(f"{pid}@{started}", arguments) if is_here else None

    def read_all() -> list[Running]:
        if not proc.is_dir():
            # A pod without the host's /proc finds the scheduler through its mirror pod.
            return []
        pids = sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal())
        return [running for pid in pids if (running := read(pid)) is not None]

    found = await asyncio.to_thread(read_all)
    serving = [one for one in found if serves(scheduler_flags(one.arguments), endpoint.port)]
    return next(iter(serving or found), None)


def _is_systems(process: Path, unit: str) -> bool:
    """Whether root, the kubelet or systemd started a process: it is root's, or in a group of a pod or of the unit.

    So is one of this program's own user, which without root changes nothing.

    Raises:
        OSError: it ended, or may not be read.
    """
    # Not the owner of its folder: a process that is not dumpable has root's.
    users = re.search(r"^Uid:\s+(.*)$", (process / "status").read_text(errors="replace"), re.MULTILINE)
    if users is not None and set(users[1].split()) in ({"0"}, {str(os.geteuid())}):
        return True
    # A static pod's User namespace, runAsUser and User= give it other users. Below user.slice users make groups.
    groups = (process / "cgroup").read_text(errors="replace").splitlines()
    parts = {part for line in groups for part in line.split(":", 2)[-1].split("/")}
    return "user.slice" not in parts and ((unit in parts) if unit else any("kubepods" in part for part in parts))


def _network(proc: Path, pid: int) -> str:
    """Name a process's network namespace; empty if it may not be read."""
    try:
        return str((proc / str(pid) / "ns" / "net").readlink())
    except OSError:
        return ""


class _ContainerStatus(msgspec.Struct, frozen=True):
    container_id: str = field(default="", name="containerID")
    state: dict[str, object] = field(default_factory=dict)


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _MirrorPod(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SeenSpec = SeenSpec()
    status: _Status = _Status()


_PODS = Resource("api/v1", "pods", _MirrorPod)


async def find_mirror_pod(client: KubeClient, node: str, _endpoint: HealthEndpoint) -> Running | None:
    """Find the scheduler through the pod that the kubelet mirrors to the API server; a ``FindScheduler``.

    It needs no access to the host.
    """
    try:
        pod = await client.get(_PODS, f"kube-scheduler-{node}", namespace="kube-system")
    except NotFoundError:
        return None
    except GcushareError as error:
        raise SchedulerUnknownError(f"kube-scheduler's mirror pod cannot be read: {error}") from error
    running = [each for each in pod.status.container_statuses if "running" in each.state]
    commands = [each.command_line for each in pod.spec.containers]
    if not commands or not running:
        return None
    # A wrapper may stand before the program.
    command = next((each for each in commands if is_scheduler(each) or is_scheduler(each[1:])), commands[0])
    # The mirror's spec is new before its status, so that only both together identify an instance.
    return Running(f"{pod.metadata.annotations.get(_HASH, '')}/{running[0].container_id}", command)


async def ask_health(url: str) -> str:
    """Ask a scheduler for its health and return the problem, empty if healthy.

    As the kubelet does it: the certificate is not verified, and any answer below 400 is a good one.
    """
    timeout = aiohttp.ClientTimeout(total=_HEALTH_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, ssl=False, allow_redirects=False) as answer,
        ):
            text = (await answer.content.read(200)).decode(errors="replace").strip()
            return "" if 200 <= answer.status < 400 else f"{url} answers {answer.status} {text!r}"
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        return f"{url} does not answer: {str(error) or type(error).__name__}"
