"""Memory for bodies: paid as they come, taken from the slowest where it runs short, never more than there is."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from gcushare.runtime.http.request_budgets import BodyBudget, BodyShare

LARGEST = 100
WHOLE = 8 * LARGEST


def opened(budget: BodyBudget, *sizes: int) -> list[BodyShare]:
    shares = [budget.open(lambda: None) for _ in sizes]
    assert all(share.grow(size) for share, size in zip(shares, sizes, strict=True))
    return shares


def test_what_has_not_come_costs_nothing() -> None:
    budget = BodyBudget(LARGEST)
    opened(budget, *[0] * 1000)
    (late,) = opened(budget, LARGEST)
    assert late.size == LARGEST


def test_the_body_that_began_first_and_is_not_complete_is_given_up() -> None:
    budget = BodyBudget(LARGEST)
    dropped: list[str] = []
    slow, slower, complete = (budget.open(partial(dropped.append, name)) for name in ("slow", "slower", "whole"))
    assert [share.grow(60) for share in (slow, slower, complete)] == [True] * 3
    complete.complete()
    opened(budget, *[LARGEST] * 6)
    assert dropped == []
    newest = budget.open(lambda: None)
    assert newest.grow(50)
    assert dropped == ["slow"]
    assert (slow.is_cut, slow.size, slow.grow(1)) == (True, 0, False)
    assert newest.grow(50)
    assert dropped == ["slow", "slower"]


def test_one_that_is_slowest_itself_is_refused_and_harms_no_one() -> None:
    budget = BodyBudget(LARGEST)
    slow = budget.open(lambda: None)
    assert slow.grow(10)
    others = opened(budget, *[LARGEST] * 7, 90)
    assert not slow.grow(1)
    assert not any(share.is_cut for share in others)


def test_complete_bodies_are_given_up_for_no_one() -> None:
    budget = BodyBudget(LARGEST)
    held = opened(budget, *[LARGEST] * 8)
    for share in held:
        share.complete()
    late = budget.open(lambda: None)
    assert not late.grow(1)
    held[0].close()
    held[0].close()
    assert late.grow(LARGEST)
    assert not late.grow(1)


@given(
    st.lists(st.tuples(st.sampled_from(["open", "grow", "complete", "close"]), st.integers(0, 9), st.integers(0, 100)))
)
def test_no_more_is_held_than_there_is_and_nothing_is_lost(steps: list[tuple[str, int, int]]) -> None:
    budget = BodyBudget(LARGEST)
    shares: list[BodyShare] = []
    for step, which, size in steps:
        if step == "open" or not shares:
            shares.append(budget.open(lambda: None))
            continue
        share = shares[which % len(shares)]
        match step:
            case "grow":
                share.grow(size)
            case "complete":
                share.complete()
            case _:
                share.close()
        assert sum(each.size for each in shares) <= WHOLE
    for share in shares:
        share.close()
    assert all(share.grow(LARGEST) for share in [budget.open(lambda: None) for _ in range(8)])
