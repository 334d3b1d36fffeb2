"""Leader election in virtual time: one lease, all that comes between candidates, and pictures that have grown old."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from gcushare.core.errors import RetryableError
from gcushare.kube.election import LeaderElector, LeaseTimes, held_spec, observe
from gcushare.scheduler_extender.leadership import ReplicaLeadership
from gcushare.wire.objects import Lease, LeaseSpec
from tests.unit.kube_lease import Contender, LeaseAccess, LeaseWorld

TIMES = LeaseTimes(duration_s=10, renew_deadline_s=6.5, retry_s=1)


class Candidate(Contender[LeaderElector]):
    def __init__(self, world: Cluster, identity: str, wall_offset_s: float) -> None:
        clock = world.time.clock(wall_offset_s=wall_offset_s)
        self.changes: list[bool] = []
        self.stands = True
        access = LeaseAccess(world.server, clock)
        elector = LeaderElector(
            access.lease,
            identity,
            times=TIMES,
            listener=self.changes.append,
            stands=lambda: self.stands,
            clock=clock,
            rng=random.Random(identity),
        )
        super().__init__(identity, access, elector)


class Cluster(LeaseWorld[LeaderElector]):
    def candidate(self, identity: str, *, wall_offset_s: float = 0.0) -> Candidate:
        made = Candidate(self, identity, wall_offset_s)
        self.contenders.append(made)
        return made

    async def start(self, *identities: str) -> list[Candidate]:
        """Start candidates one after the other: the first leads."""
        made = [self.candidate(identity) for identity in identities]
        for each in made:
            each.start()
            await self.pass_watching(2)
        return made

    @property
    def spec(self) -> LeaseSpec:
        assert self.server.lease is not None
        return self.server.lease.spec

    def write(self, **changes: Any) -> None:
        """Change the lease as somebody else may."""
        assert self.server.lease is not None
        spec = msgspec.structs.replace(self.spec, **changes)
        self.server.store(msgspec.structs.replace(self.server.lease, spec=spec))


@pytest.mark.parametrize("fault", ["cut", "hanging"])
async def test_a_leader_that_gets_no_answer_stops_well_before_another_may_start(fault: str) -> None:
    async with Cluster() as world:
        first, _ = await world.start("a", "b")
        setattr(first.access, fault, True)
        lost_at = world.time.now_s
        while first.elected.is_leader:
            await world.pass_watching(0.1)
        assert world.time.now_s - lost_at <= TIMES.renew_deadline_s + 0.1
        await world.pass_watching(TIMES.duration_s - TIMES.renew_deadline_s - TIMES.retry_s - 0.2)
        assert (world.leaders, first.changes) == ([], [True, False])
        await world.pass_watching(5)
        assert (world.leaders, world.spec.lease_transitions) == (["b"], 1)


async def test_a_deleted_lease_is_made_by_no_one_else_before_its_holder_must_have_stopped() -> None:
    async with Cluster() as world:
        first, _ = await world.start("a", "b")
        # Its holder is cut off just then, and goes on leading until its deadline.
        first.access.cut = True
        world.server.lease = None
        await world.pass_watching(TIMES.duration_s + 3)
        assert world.leaders == ["b"]


async def test_a_candidate_stopped_in_the_middle_of_taking_the_lease_gives_it_up() -> None:
    async with Cluster() as world:
        first = world.candidate("a")
        first.access.answers_lost = True
        first.start()
        await world.time.settle()
        assert world.server.holder == "a"
        assert not first.elected.is_leader
        first.access.answers_lost = False
        await first.stop()
        assert world.server.holder == ""
        assert world.server.lease is not None
        assert world.server.lease.spec.renew_time, "who wants it compares when it was renewed"


async def test_holds_says_no_when_a_bind_could_outlast_the_lease() -> None:
    async with Cluster() as world:
        first = world.candidate("a")
        assert not first.elected.holds(0)
        first.start()
        await world.time.settle()
        assert first.elected.holds(5)
        first.access.cut = True
        await world.time.pass_(6)
        assert first.elected.is_leader
        assert first.elected.holds(3.9)
        assert not first.elected.holds(4.1)
        await world.time.pass_(0.6)
        assert not first.elected.holds(0)


async def test_leadership_ends_with_the_clock_even_when_the_loop_stood_still() -> None:
    async with Cluster() as world:
        first = world.candidate("a")
        first.start()
        await world.time.settle()
        assert first.elected.is_leader
        # The process was stopped: time went on, none of its tasks ran.
        world.time.now_s += TIMES.renew_deadline_s
        assert not first.elected.is_leader
        assert not first.elected.holds(0)


async def test_a_leader_that_does_not_stand_lets_its_lease_run_out_and_another_takes_it() -> None:
    async with Cluster() as world:
        first, _ = await world.start("a", "b")
        first.stands = False
        # Requests sent while it led have ended by then: it serves to its deadline, and the others wait longer.
        await world.pass_watching(TIMES.renew_deadline_s + 0.5)
        assert world.leaders == []
        await world.pass_watching(TIMES.duration_s - TIMES.renew_deadline_s + 2 * TIMES.retry_s)
        assert world.leaders == ["b"]
        assert first.elected.holder == "b"


@pytest.mark.slow
async def test_a_term_goes_on_until_another_may_have_led() -> None:
    async with Cluster() as world:
        first, second = world.candidate("a"), world.candidate("b")
        first.start()
        await world.pass_watching(5)
        assert first.elected.term == 1

        # Out of office for longer than the lease lasts, and no one came.
        first.stands = False
        await world.pass_watching(3 * TIMES.duration_s)
        assert world.leaders == []
        first.stands = True
        await world.pass_watching(5)
        assert (world.leaders, first.elected.term, first.changes) == (["a"], 1, [True, False, True])

        first.stands = False
        second.start()
        await world.pass_watching(3 * TIMES.duration_s)
        assert world.leaders == ["b"]
        first.stands = True
        await second.stop()
        await world.pass_watching(5)
        assert (world.leaders, first.elected.term) == (["a"], 2)


async def test_a_lease_that_was_lost_and_won_back_unseen_begins_a_new_term() -> None:
    async with Cluster() as world:
        (first,) = await world.start("a")
        world.write(lease_transitions=1)  # Another took it, and a write of ours whose answer was lost took it back.
        await world.pass_watching(2)
        assert (first.elected.is_leader, first.elected.term, first.changes) == (True, 2, [True, True])
        world.write(holder_identity="", lease_transitions=2)  # Another took it, and gave it up.
        await world.pass_watching(2)
        assert (first.elected.term, first.changes) == (3, [True] * 3)
        world.server.lease = None
        await world.pass_watching(3)
        assert (first.elected.is_leader, first.elected.term) == (True, 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_at_most_one_leads_in_any_order_of_faults(seed: int) -> None:
    chance = random.Random(seed)
    async with Cluster() as world:
        for name in "abc":
            world.candidate(name, wall_offset_s=chance.uniform(-1000, 1000)).start()
        for _ in range(40):
            access = chance.choice(world.contenders).access
            fault = chance.choice(["cut", "hanging", "answers_lost"])
            setattr(access, fault, not getattr(access, fault))
            await world.pass_watching(chance.uniform(0.2, 6))
        for each in world.contenders:
            each.access.cut = each.access.hanging = each.access.answers_lost = False
        await world.pass_watching(20)
        assert len(world.leaders) == 1, f"seed {seed}"


@pytest.mark.parametrize("times", [(10.5, 6, 1), (0, 6, 1), (10, 10, 1), (10, 6, 6), (10, 6, 0)], ids=str)
def test_times_that_could_make_two_leaders_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="duration_s"):
        LeaseTimes(*times)


def test_a_renewal_keeps_the_moment_at_which_the_lease_was_taken() -> None:
    times, now = LeaseTimes(15, 10, 2), datetime(2026, 1, 1, tzinfo=UTC)
    taken = held_spec(None, "a", times, now)
    renewed = held_spec(taken, "a", times, now + timedelta(seconds=2))
    assert taken.renew_time == taken.acquire_time == renewed.acquire_time != renewed.renew_time


def test_an_unchanged_record_keeps_the_time_it_was_first_seen() -> None:
    lease = Lease(spec=LeaseSpec(holder_identity="a", lease_duration_seconds=10, renew_time="x"))
    seen = observe(None, lease, 100.0)
    assert observe(seen, msgspec.structs.replace(lease), 105.0).since_s == 100.0
    renewed = msgspec.structs.replace(lease, spec=msgspec.structs.replace(lease.spec, renew_time="y"))
    assert observe(seen, renewed, 105.0).since_s == 105.0
    assert not observe(seen, lease, 109.9).is_over(109.9)
    assert observe(seen, lease, 110.0).is_over(110.0)


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
