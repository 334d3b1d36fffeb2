"""What requests may take: a turn of the loop so much time, and bodies so much memory."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from gcushare.runtime.http.shared_budgets import LARGE_BYTES, BodyBudget, TurnBudget

WORK_S = 0.002


def spin() -> None:
    """Take time as reading a large body does, with nothing to wait for."""
    until = time.perf_counter() + WORK_S
    while time.perf_counter() < until:
        pass


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
    turns = 0
    while not done.is_set():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 14
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


LARGEST = 100
WHOLE = 8 * LARGEST


@dataclass(eq=False)
class Body:
    budget: BodyBudget
    held: int = 0
    is_dropped: bool = False

    def __post_init__(self) -> None:
        self.budget.begin(self)

    def give_up(self) -> None:
        self.is_dropped = True

    def grow(self, size: int) -> bool:
        return self.budget.take(self, size)


def begun(budget: BodyBudget, *sizes: int) -> list[Body]:
    bodies = [Body(budget) for _ in sizes]
    assert all(body.grow(size) for body, size in zip(bodies, sizes, strict=True))
    return bodies


def test_what_has_not_come_costs_nothing() -> None:
    budget = BodyBudget(LARGEST)
    silent = begun(budget, *[0] * 1000)
    assert [body.is_dropped for body in begun(budget, *[LARGEST] * 9)] == [True, *[False] * 8]
    assert not any(body.is_dropped for body in silent)


def test_one_that_is_slowest_itself_is_refused_and_harms_no_one() -> None:
    budget = BodyBudget(LARGEST)
    slow = Body(budget)
    assert slow.grow(10)
    others = begun(budget, *[LARGEST] * 7, 90)
    assert not slow.grow(1)
    assert not any(body.is_dropped for body in others)


def test_complete_bodies_are_given_up_for_no_one() -> None:
    budget = BodyBudget(LARGEST)
    held = begun(budget, *[LARGEST] * 8)
    for body in held:
        budget.complete(body)
    late = Body(budget)
    assert not late.grow(1)
    budget.release(held[0])
    budget.release(held[0])
    assert late.grow(LARGEST)
    assert not late.grow(1)


@given(
    st.lists(st.tuples(st.sampled_from(["begin", "grow", "complete", "end"]), st.integers(0, 9), st.integers(0, 100)))
)
def test_no_more_is_held_than_there_is_and_nothing_is_lost(steps: list[tuple[str, int, int]]) -> None:
    budget = BodyBudget(LARGEST)
    bodies: list[Body] = []
    for step, which, size in steps:
        if step == "begin" or not bodies:
            bodies.append(Body(budget))
            continue
        body = bodies[which % len(bodies)]
        match step:
            case "grow":
                body.grow(size)
            case "complete":
                budget.complete(body)
            case _:
                budget.release(body)
        assert sum(each.held for each in bodies) <= WHOLE
    for body in bodies:
        budget.release(body)
    assert all(body.grow(LARGEST) for body in [Body(budget) for _ in range(8)])
