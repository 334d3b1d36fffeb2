"""Who waits and was not refused by this replica is woken as well, and a scheduler at work is left to come by itself."""

from __future__ import annotations

import pytest

from gcushare.scheduler_extender.waking.unasked_pods import ADOPT_S
from tests.unit.extender_waker import SOON_S, Bench


@pytest.fixture
def full() -> Bench:
    """One node of one card that is full."""
    return Bench.filled()


async def test_a_new_leader_wakes_the_pods_that_the_one_before_refused(full: Bench) -> None:
    full.serves = False
    full.create("a", 8)
    full.create("asked", 4)
    full.end("x")
    async with full.running():
        assert await full.pass_(4) == []
        full.serves = True
        await full.pass_(ADOPT_S / 2)
        assert full.ask("asked", 4) == "fits"
        full.hold("asked", 4)
        assert await full.pass_(ADOPT_S + SOON_S) == ["a"]
        full.create("young", 4)
        assert await full.pass_(4) == [], "the scheduler will come for who is new"


async def test_a_pod_that_was_turned_away_before_this_replica_could_answer_is_woken(full: Bench) -> None:
    """Its scheduler takes 503 for an error, and 1.20 then waits for an event; our watch tells of the pod later."""
    full.end("x")
    async with full.running():
        full.create("a", 8)
        assert await full.pass_(ADOPT_S + SOON_S) == ["a"]


@pytest.mark.parametrize("was_offered", [False, True])
async def test_a_pod_whose_call_failed_is_woken_once_the_scheduler_asks_about_none(
    full: Bench, *, was_offered: bool
) -> None:
    """An error of a call, or another replica's 503, reaches no one here: schedulers up to 1.26 then wait for events."""
    full.end("x")
    async with full.running():
        await full.pass_(2 * ADOPT_S)
        full.create("a", 8)
        if was_offered:
            assert full.ask("a", 8) == "fits"
        assert await full.pass_(2 * ADOPT_S + SOON_S) == ["a"]
        assert await full.pass_(20 * ADOPT_S) == [], "something else keeps it"


async def test_a_scheduler_that_is_at_work_is_left_to_come_to_its_other_pods(full: Bench) -> None:
    full.end("x")
    async with full.running():
        await full.pass_(2 * ADOPT_S)
        full.create("later", 1)
        for number in range(8):
            assert full.ask(f"a{number}", 1) == "fits"
            full.hold(f"a{number}", 1)
            full.end(f"a{number}")
            assert await full.pass_(ADOPT_S / 2) == []


async def test_a_scheduler_that_starts_with_a_long_queue_is_not_woken_for_each_of_its_pods() -> None:
    """Nothing is asked about until it starts; from then on it comes to all of them by itself, some slowly."""
    bench = Bench(16, nodes=20)
    for number in range(100):
        bench.create(f"queued-{number:02d}", 1)
    async with bench.running():
        for number in range(20):
            assert bench.ask(f"queued-{number:02d}", 1) == "fits"
            bench.hold(f"queued-{number:02d}", 1, node=f"node-{1 + number % 20}")
            assert await bench.pass_(ADOPT_S / 2) == []
        assert len(await bench.pass_(ADOPT_S + 10 * SOON_S)) == 80, "it came to no other for a while"
