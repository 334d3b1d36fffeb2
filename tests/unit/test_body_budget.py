"""Memory for bodies: paid as they come, taken from the slowest where it runs short, never more than there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gcushare.runtime.http.request_budgets import BodyBudget

LARGEST = 100
WHOLE = 8 * LARGEST


@dataclass(eq=False)
class Body:
    budget: BodyBudget
    name: str = ""
    held: int = 0
    dropped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.budget.begin(self)
        self.give_up: Callable[[], None] = lambda: self.dropped.append(self.name)

    def grow(self, size: int) -> bool:
        return self.budget.take(self, size)


def begun(budget: BodyBudget, *sizes: int) -> list[Body]:
    bodies = [Body(budget) for _ in sizes]
    assert all(body.grow(size) for body, size in zip(bodies, sizes, strict=True))
    return bodies


def test_what_has_not_come_costs_nothing() -> None:
    budget = BodyBudget(LARGEST)
    begun(budget, *[0] * 1000)
    (late,) = begun(budget, LARGEST)
    assert late.held == LARGEST


def test_the_body_that_began_first_and_is_not_complete_is_given_up() -> None:
    budget, dropped = BodyBudget(LARGEST), list[str]()
    slow, slower, complete = (Body(budget, name, dropped=dropped) for name in ("slow", "slower", "whole"))
    assert [body.grow(60) for body in (slow, slower, complete)] == [True] * 3
    budget.complete(complete)
    begun(budget, *[LARGEST] * 6)
    assert dropped == []
    newest = Body(budget)
    assert newest.grow(50)
    assert (dropped, slow.held) == (["slow"], 0)
    assert newest.grow(50)
    assert dropped == ["slow", "slower"]


def test_one_that_is_slowest_itself_is_refused_and_harms_no_one() -> None:
    budget = BodyBudget(LARGEST)
    slow = Body(budget)
    assert slow.grow(10)
    others = begun(budget, *[LARGEST] * 7, 90)
    assert not slow.grow(1)
    assert not any(body.dropped for body in others)


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
