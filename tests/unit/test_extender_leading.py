"""Serving needs the Lease and a picture that is current: virtual time, one lease, pictures that a test makes old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gcushare.core.errors import RetryableError
from gcushare.kube.election import LeaseTimes
from gcushare.scheduler_extender.leadership import ReplicaLeadership
from tests.unit.kube_lease import LeaseAccess, LeaseServer
from tests.unit.kube_time import VirtualTime

TIMES = LeaseTimes(duration_s=10, renew_deadline_s=6.5, retry_s=1)
STALE_S = 90.0


@dataclass
class Watch:
    """A picture that is as old as a test says, and catches up when it says so."""

    age_s: float | None = 1.0
    may_catch_up: asyncio.Event = field(default_factory=asyncio.Event)
    refusals: int = 0
    caught_up: int = 0

    async def catch_up(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise RetryableError("the server does not tell")
        await self.may_catch_up.wait()
        self.caught_up += 1


@dataclass
class Replica:
    leading: ReplicaLeadership
    access: LeaseAccess
    pods: Watch
    task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.leading.run(), name="replica")

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])


@dataclass
class World:
    time: VirtualTime = field(default_factory=VirtualTime)
    server: LeaseServer = field(default_factory=LeaseServer)
    replicas: list[Replica] = field(default_factory=list)

    def replica(self, identity: str, *, is_current: bool = True) -> Replica:
        clock = self.time.clock()
        access, pods = LeaseAccess(self.server, clock), Watch()
        if is_current:
            pods.may_catch_up.set()
        leading = ReplicaLeadership(access.lease, identity, {"pods": pods}, times=TIMES, stale_s=STALE_S, clock=clock)
        self.replicas.append(Replica(leading, access, pods))
        return self.replicas[-1]

    async def pass_watching(self, seconds: float) -> None:
        for _ in range(int(seconds * 10)):
            await self.time.pass_(0.1)
            assert sum(each.leading.is_leader for each in self.replicas) <= 1


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    try:
        yield made
    finally:
        for each in made.replicas:
            each.access.cut = True
            await each.stop()


async def test_a_server_that_does_not_tell_is_asked_again() -> None:
    async with world() as here:
        first = here.replica("a")
        first.pods.refusals = 3
        first.start()
        await here.pass_watching(1)
        assert not first.leading.is_leader
        await here.pass_watching(1)
        assert first.leading.is_leader


async def test_every_election_after_another_leader_is_proven_again() -> None:
    async with world() as here:
        first, second = here.replica("a"), here.replica("b")
        first.start()
        await here.pass_watching(2)
        second.start()
        await here.pass_watching(2)
        first.access.cut = True
        await here.pass_watching(15)
        assert second.leading.is_leader
        first.access.cut = False
        first.pods.may_catch_up.clear()
        await second.stop()
        await here.pass_watching(2)
        assert first.leading.is_catching_up
        first.pods.may_catch_up.set()
        await here.time.settle()
        assert first.leading.is_leader
        assert first.pods.caught_up == 2


@pytest.mark.slow
async def test_alone_a_leader_with_an_old_picture_goes_on_after_making_room() -> None:
    async with world() as here:
        first = here.replica("a")
        first.start()
        await here.pass_watching(2)
        first.pods.age_s = STALE_S + 1
        first.pods.may_catch_up.clear()
        await here.pass_watching(8)
        assert not first.leading.is_leader
        await here.pass_watching(8)
        # No one has led since: what it knows of its own binds is all there is to know, so it proves nothing again.
        assert first.leading.is_leader
        await here.pass_watching(250)
        assert first.leading.is_leader
        assert first.pods.caught_up == 1


async def test_a_follower_with_an_old_picture_leaves_a_free_lease_to_others() -> None:
    async with world() as here:
        stale, current = here.replica("a"), here.replica("b")
        stale.pods.age_s = STALE_S + 1
        stale.start()
        await here.pass_watching(3)
        assert here.server.lease is None
        current.start()
        await here.pass_watching(2)
        assert current.leading.is_leader


@pytest.mark.slow
async def test_one_that_cannot_catch_up_makes_room_as_well() -> None:
    async with world() as here:
        stuck, current = here.replica("a", is_current=False), here.replica("b")
        stuck.start()
        await here.pass_watching(2)
        current.start()
        await here.pass_watching(50)
        assert current.leading.is_leader
