"""Two config managers, one Lease: no step on a host at a moment at which the other node may have the turn.

Time is virtual, the Lease is one that can be cut off from a node, and processes are paused in the middle of a plan.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from gcushare.config_manager.reconcile import ROLLOUT_TIMES, Reconciler, State, WantedMode, hold_lease
from gcushare.wire.objects import Lease
from tests.unit.config_manager_host import MOVED_EXTENDER, Cluster, Host, Member, host_with, systemd_host
from tests.unit.kube_lease import LeaseAccess, LeaseServer
from tests.unit.kube_time import VirtualTime

LONG_S = 2 * ROLLOUT_TIMES.duration_s


@dataclass
class DatedLeaseServer(LeaseServer):
    """Knows when the holder last proved itself: who holds the Lease is a matter of time."""

    time: VirtualTime = field(default_factory=VirtualTime)
    written_at: float = 0.0

    def store(self, lease: Lease) -> Lease:
        self.written_at = self.time.now_s
        return super().store(lease)

    @property
    def turn_of(self) -> str:
        """Whose turn it is now; empty once another may take it."""
        over = self.time.now_s >= self.written_at + ROLLOUT_TIMES.duration_s
        return "" if over else (self.holder or "")


@dataclass
class Node:
    """One node with its manager; ``change`` is asked after each change of its host with the number of it."""

    world: World
    name: str
    host: Host
    access: LeaseAccess
    reconciler: Reconciler = field(init=False)
    change: Callable[[int], None] = lambda _number: None
    changes: int = 0

    def __post_init__(self) -> None:
        self.host.files.fail, self.host.files.after = self._before, self._after
        self.host.scheduler.on_start = lambda: self.world.starts.append((self.world.time.now_s, self.name))
        clock = self.world.time.clock()
        self.host.clock = clock
        self.reconciler = Reconciler(
            manager=self.host.manager,
            cluster=Member(self.world, self.name, lambda: self.access.cut),
            hold_lease=partial(hold_lease, self.access.lease, self.name, clock=clock, rng=random.Random(self.name)),
            clock=clock,
            interval_s=10.0,
        )

    def _before(self, _count: int, path: str) -> None:
        assert self.world.server.turn_of == self.name, f"{self.name} changes {path} out of turn"

    def _after(self) -> None:
        self.changes += 1
        self.change(self.changes)


@dataclass(kw_only=True)
class World(Cluster):
    """One cluster."""

    root: Path
    time: VirtualTime = field(default_factory=VirtualTime)
    starts: list[tuple[float, str]] = field(default_factory=list)
    server: DatedLeaseServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = DatedLeaseServer(time=self.time)

    def node(self, name: str, make: Callable[[Path], Host]) -> Node:
        return Node(self, name, make(self.root / name), LeaseAccess(self.server, self.time.clock()))

    async def rounds(self, *nodes: Node, seconds: float = LONG_S) -> None:
        """Let the nodes go round once, all at once."""
        async with self.running(*nodes) as tasks:
            await self.time.pass_(seconds)
            assert all(task.done() for task in tasks), "a round does not end"

    @asynccontextmanager
    async def running(self, *nodes: Node) -> AsyncIterator[list[asyncio.Task[None]]]:
        tasks = [asyncio.create_task(node.reconciler.round(), name=node.name) for node in nodes]
        try:
            yield tasks
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def static_pod(root: Path) -> Host:
    return host_with(root, "kubeadm-1.29.yaml")


async def fresh(_world: World, *_nodes: Node) -> None:
    return


async def moved(world: World, *nodes: Node) -> None:
    await world.rounds(*nodes)
    world.extender = MOVED_EXTENDER


async def unwanted(world: World, *nodes: Node) -> None:
    await world.rounds(*nodes)
    world.wanted = WantedMode.RECOVER


STORIES = {
    "apply, unit": (systemd_host, fresh),
    "extender moved, static pod": (static_pod, moved),
    "recover, static pod": (static_pod, unwanted),
    "recover, unit": (systemd_host, unwanted),
}
QUICK = {"recover, static pod"}


@pytest.mark.parametrize(
    "story", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in STORIES]
)
async def test_a_manager_paused_at_any_step_goes_on_only_in_its_next_turn(tmp_path: Path, story: str) -> None:
    number = 1
    while await _finishes_after_a_pause(tmp_path / str(number), story, number):
        number += 1
    assert number > 3, "the plan has no steps"


async def _finishes_after_a_pause(root: Path, story: str, number: int) -> bool:
    """Pause one manager after so many changes; False where the plan has fewer."""
    make, prepare = STORIES[story]
    world = World(root=root)
    one, two = world.node("one", make), world.node("two", make)
    await prepare(world, one, two)
    last = one.changes + number

    def pause(changes: int) -> None:
        if changes == last:
            world.time.stand_still(ROLLOUT_TIMES.renew_deadline_s + 0.1)

    one.change = pause
    await world.rounds(one)
    assert one.host.scheduler.find_start_problem() == "", number
    if one.changes < last:
        return False
    assert one.changes == last, f"a step was done out of turn after change {number}"
    await world.rounds(two, one, seconds=2 * LONG_S)
    await world.rounds(one)
    assert await one.reconciler.check() is None, number
    assert _scheduler_facts(one) == _scheduler_facts(two), number
    return True


def _scheduler_facts(node: Node) -> tuple[object, ...]:
    """What runs, and which files lie there (without the record, which remembers the interruption)."""
    assert node.host.scheduler.problem == ""
    files = {path: state for path, state in node.host.tree().items() if not path.endswith("config-manager.json")}
    return node.host.scheduler.arguments, node.host.scheduler.config, files


@pytest.mark.parametrize("make", [pytest.param(static_pod, id="static pod"), pytest.param(systemd_host, id="unit")])
async def test_a_node_cut_off_does_not_put_its_scheduler_back_while_another_has_its_turn(
    tmp_path: Path, make: Callable[[Path], Host]
) -> None:
    world = World(root=tmp_path)
    one, two = world.node("one", make), world.node("two", make)
    before = one.host.tree()
    for node in (one, two):
        node.host.scheduler.refuses = "10.96.1.37"
    async with world.running(one, two) as (first, second):
        await world.time.pass_(10)
        assert world.server.turn_of == "one"
        one.access.cut = True
        await world.time.pass_(ROLLOUT_TIMES.renew_deadline_s + 5)
        assert first.done()
        restarts = one.host.scheduler.starts
        await world.time.pass_(ROLLOUT_TIMES.duration_s)
        assert (world.server.turn_of, second.done()) == ("two", False)
        await world.time.pass_(300)
        assert second.done()
        assert one.host.scheduler.starts == restarts
    assert "this node lost the Lease" in (await one.reconciler.check() or "")
    assert "rolled back" in (await two.reconciler.check() or "")

    one.access.cut = False
    await world.rounds(one, seconds=400)
    assert "rolled back" in (await one.reconciler.check() or "")
    assert one.host.tree() == before


async def test_a_restart_that_was_begun_in_time_is_over_before_another_begins(tmp_path: Path) -> None:
    world = World(root=tmp_path)
    one, two = world.node("one", static_pod), world.node("two", static_pod)
    async with world.running(one, two):
        await world.time.pass_(1)
        one.access.cut = True
        await world.time.pass_(LONG_S)
    began = {name: moment for moment, name in reversed(world.starts)}
    assert began["two"] - began["one"] > 60


async def test_the_turn_is_handed_on_at_once_when_a_change_is_done(tmp_path: Path) -> None:
    world = World(root=tmp_path)
    nodes = [world.node(name, static_pod) for name in ("one", "two", "three")]
    await world.rounds(*nodes, seconds=ROLLOUT_TIMES.duration_s / 2)
    assert list(world.reported.values()) == [[(State.CHANGING, ""), (State.APPLIED, "")]] * 3
