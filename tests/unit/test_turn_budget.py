"""One turn of the loop spends so much on answers, and what is left over keeps its order."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from gcushare.runtime.http.request_budgets import LARGE_BYTES, TurnBudget

WORK_S = 0.002


def spin() -> None:
    """Take time as reading a large body does, with nothing to wait for."""
    until = time.perf_counter() + WORK_S
    while time.perf_counter() < until:
        pass


async def turns_until(done: asyncio.Event) -> int:
    turns = 0
    while not done.is_set():
        turns += 1
        await asyncio.sleep(0)
    return turns


async def test_work_that_fits_the_turn_is_done_at_once() -> None:
    ran: list[int] = []
    budget = TurnBudget(max_s=60)
    for number in range(100):
        budget.run(partial(ran.append, number))

    assert ran == list(range(100))


async def test_others_get_their_turn_between_work_that_is_ready_at_once() -> None:
    ran: list[int] = []
    done, budget = asyncio.Event(), TurnBudget(max_s=2 * WORK_S)

    def work(number: int) -> None:
        spin()
        ran.append(number)
        if number == 29:
            done.set()

    for number in range(30):
        budget.run(partial(work, number))
    assert len(ran) <= 2, "the first turn takes no more than its share"
    assert await turns_until(done) >= 14
    assert ran == list(range(30)), "first come, first served"


async def test_small_work_does_not_wait_behind_large_and_large_is_not_forgotten() -> None:
    ran: list[str] = []
    done, budget = asyncio.Event(), TurnBudget(max_s=WORK_S)

    def work(kind: str) -> None:
        spin()
        ran.append(kind)
        if len(ran) == 20:
            done.set()

    for _ in range(10):
        budget.run(partial(work, "large"), LARGE_BYTES + 1)
    for _ in range(10):
        budget.run(partial(work, "small"), LARGE_BYTES)
    async with asyncio.timeout(60):
        await done.wait()

    last_small = max(place for place, kind in enumerate(ran) if kind == "small")
    assert ran.count("small") == 10
    assert 15 <= last_small < 20, f"one of each in turn, in {ran}"
    assert ran[:4].count("small") >= 1


async def test_a_failure_takes_nothing_from_the_work_after_it() -> None:
    failures: list[object] = []
    ran: list[int] = []
    done, budget = asyncio.Event(), TurnBudget(max_s=1e-9)
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def fail() -> None:
        raise ValueError("of one request")

    for work in (partial(ran.append, 1), fail, partial(ran.append, 2), done.set):
        budget.run(work)
    async with asyncio.timeout(60):
        await done.wait()

    assert ran == [1, 2]
    assert [str(error) for error in failures] == ["of one request"]
