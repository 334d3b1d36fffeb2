"""Pods per second through kube-scheduler, with our extender and without any, in one run, side by side."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from gcushare_playground.picture import poll_until
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import ControlPlane
from tests.e2e.figures import Figures
from tests.e2e.objects import find_overcommitted, node, pod
from tests.e2e.scheduling import Scheduling

ROUNDS = 3
PODS = 1000
WARM_UP = 100
"""Pods bound before the clock starts: a scheduler that has just begun is not what is measured."""
EXTENDER = "gcushare-scheduler-extender"
PROCESSES = ("kube-scheduler", "kube-apiserver", "etcd", EXTENDER)
OBSERVER = "this test"
SHOWN = (*PROCESSES, OBSERVER)


@dataclass(frozen=True, slots=True)
class Round:
    """What one round showed: pods bound per second, and CPU milliseconds per pod of each process."""

    rate: float
    cpu_ms: dict[str, float]


@pytest_asyncio.fixture(loop_scope="module")
async def scheduling(control_plane: ControlPlane) -> AsyncIterator[Scheduling]:
    need_binaries("kube-scheduler")
    async with Scheduling(control_plane) as running:
        yield running


@pytest.mark.parametrize("nodes", [500, 5000])
async def test_pods_per_second(scheduling: Scheduling, figures: Figures, nodes: int) -> None:
    """Rounds alternate, so that whatever else the machine does meets both; how they compare is shown, not asserted.

    Both sides bind the same pods, created before the clock starts. Without the extender none runs at all: one that only
    follows makes the API server write every event once more, for it.
    """
    await scheduling.create_nodes(node(f"node-{number}", *[16] * 8) for number in range(nodes))
    rounds: dict[bool, list[Round]] = {False: [], True: []}
    for _ in range(ROUNDS):
        for extended in (False, True):
            rounds[extended].append(await measure(scheduling, extended=extended))
    without, with_it = (statistics.median(each.rate for each in rounds[extended]) for extended in (False, True))
    figures.add(
        f"pods per second, {nodes} nodes x 8 cards, {PODS} pods, {ROUNDS} rounds each, {os.cpu_count()} CPUs",
        ("", "median", "each round", *(f"CPU ms per pod: {name}" for name in SHOWN), "sum"),
        ("kube-scheduler alone", f"{without:.0f}", *_shown(rounds[False])),
        ("with the extender", f"{with_it:.0f}", *_shown(rounds[True])),
        (
            "share",
            f"{with_it / without:.0%}",
            "",
            *("" for _ in SHOWN),
            f"{_sum(rounds[False]) / _sum(rounds[True]):.0%}",
        ),
    )


async def measure(scheduling: Scheduling, *, extended: bool) -> Round:
    """Let the scheduler find all pods waiting, and count from the end of its warming up to the last that it binds."""
    if extended:
        await scheduling.start_extender()
    await scheduling.create_pods(pod(f"pod-{number}", 1 + number % 8) for number in range(PODS))
    await scheduling.control_plane.start_scheduler(scheduling.settings if extended else None)
    await until_bound(scheduling, WARM_UP)
    first, already, before = time.perf_counter(), len(scheduling.bound()), cpu_ms(scheduling)
    await until_bound(scheduling, PODS)
    taken_s, after = time.perf_counter() - first, cpu_ms(scheduling)
    if extended:
        assert not find_overcommitted(scheduling.pods.objects.values(), scheduling.nodes.objects.values())
        await scheduling.control_plane.end(EXTENDER)
    await scheduling.control_plane.end("kube-scheduler")
    await scheduling.delete_pods()
    bound = PODS - already
    return Round(bound / taken_s, {name: (after[name] - before[name]) / bound for name in after})


async def until_bound(scheduling: Scheduling, count: int) -> None:
    """Count now and then: counting after every event would cost as much as binding, on the CPUs that are measured."""

    async def look() -> str | None:
        bound = len(scheduling.bound())
        return None if bound >= count else f"{bound} are"

    await poll_until(look, f"{count} pods are bound", deadline_s=120)


def cpu_ms(scheduling: Scheduling) -> dict[str, float]:
    """Read how much CPU each process has used so far, this one among them: it follows the pods."""
    per_tick = 1000 / os.sysconf("SC_CLK_TCK")
    children = scheduling.control_plane.children
    pids = {name: children[name].pid for name in PROCESSES if name in children} | {OBSERVER: os.getpid()}
    used = {}
    for name, pid in pids.items():
        stat = Path(f"/proc/{pid}/stat").read_text()
        # Fields 14 and 15, counted behind the name in parentheses, which may itself hold spaces.
        user, system = stat.rpartition(")")[2].split()[11:13]
        used[name] = (int(user) + int(system)) * per_tick
    return used


def _shown(rounds: list[Round]) -> tuple[str, ...]:
    rates = " ".join(f"{each.rate:.0f}" for each in rounds)
    medians = (statistics.median(each.cpu_ms.get(name, 0) for each in rounds) for name in SHOWN)
    return (rates, *(f"{median:.1f}" for median in medians), f"{_sum(rounds):.1f}")


def _sum(rounds: list[Round]) -> float:
    """CPU milliseconds per pod of all but this test: what two CPUs bound, had they nothing else to do."""
    return statistics.median(sum(each.cpu_ms.get(name, 0) for name in PROCESSES) for each in rounds)
