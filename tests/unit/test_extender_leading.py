"""Serving needs the Lease and a picture that is current: virtual time, one lease, pictures that a test makes old."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gcushare.core.errors import RetryableError
from gcushare.kube.election import LeaseTimes
from gcushare.scheduler_extender.leadership import ReplicaLeadership
from tests.unit.kube_lease import Contender, LeaseAccess, LeaseWorld

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


class Replica(Contender[ReplicaLeadership]):
    pods: Watch
    begun: int = 0
    """How often ``on_lead`` was called."""

    def begin(self) -> None:
        self.begun += 1


class World(LeaseWorld[ReplicaLeadership]):
    def replica(self, identity: str, *, is_current: bool = True) -> Replica:
        clock = self.time.clock()
        access, pods = LeaseAccess(self.server, clock), Watch()
        if is_current:
            pods.may_catch_up.set()
        leading = ReplicaLeadership(access.lease, identity, {"pods": pods}, times=TIMES, stale_s=STALE_S, clock=clock)
        made = Replica(identity, access, leading)
        made.pods, leading.on_lead = pods, made.begin
        self.contenders.append(made)
        return made


async def test_a_server_that_does_not_tell_is_asked_again() -> None:
    async with World() as here:
        first = here.replica("a")
        first.pods.refusals = 3
        first.start()
        await here.pass_watching(1)
        assert not first.elected.is_leader
        await here.pass_watching(1)
        assert first.elected.is_leader


async def test_who_leads_on_after_a_pause_in_one_term_is_told() -> None:
    """What it had to write in the pause is not written yet: its label was left on another pod for good."""
    async with World() as here:
        alone = here.replica("a")
        alone.start()
        await here.pass_watching(2)
        alone.access.cut = True
        await here.pass_watching(8)
        assert (alone.elected.is_leader, alone.begun) == (False, 1)
        alone.access.cut = False
        await here.pass_watching(2)
        assert (alone.elected.is_leader, alone.begun, alone.pods.caught_up) == (True, 2, 1)


async def test_every_election_after_another_leader_is_proven_again() -> None:
    async with World() as here:
        first, second = here.replica("a"), here.replica("b")
        first.start()
        await here.pass_watching(2)
        second.start()
        await here.pass_watching(2)
        first.access.cut = True
        await here.pass_watching(15)
        assert second.elected.is_leader
        first.access.cut = False
        first.pods.may_catch_up.clear()
        await second.stop()
        await here.pass_watching(2)
        assert first.elected.is_catching_up
        first.pods.may_catch_up.set()
        await here.time.settle()
        assert first.elected.is_leader
        assert first.pods.caught_up == 2


@pytest.mark.slow
async def test_alone_a_leader_with_an_old_picture_goes_on_after_making_room() -> None:
    async with World() as here:
        first = here.replica("a")
        first.start()
        await here.pass_watching(2)
        first.pods.age_s = STALE_S + 1
        first.pods.may_catch_up.clear()
        await here.pass_watching(8)
        assert not first.elected.is_leader
        await here.pass_watching(8)
        # No one has led since: what it knows of its own binds is all there is to know, so it proves nothing again.
        assert first.elected.is_leader
        await here.pass_watching(250)
        assert first.elected.is_leader
        assert first.pods.caught_up == 1


async def test_a_follower_with_an_old_picture_leaves_a_free_lease_to_others() -> None:
    async with World() as here:
        stale, current = here.replica("a"), here.replica("b")
        stale.pods.age_s = STALE_S + 1
        stale.start()
        await here.pass_watching(3)
        assert here.server.lease is None
        current.start()
        await here.pass_watching(2)
        assert current.elected.is_leader


@pytest.mark.slow
async def test_one_that_cannot_catch_up_makes_room_as_well() -> None:
    async with World() as here:
        stuck, current = here.replica("a", is_current=False), here.replica("b")
        stuck.start()
        await here.pass_watching(2)
        current.start()
        await here.pass_watching(50)
        assert current.elected.is_leader
