"""Waits that double per key."""

from __future__ import annotations

from gcushare.cards.worker.backoffs import Backoffs


def test_a_wait_doubles_up_to_its_longest() -> None:
    backoffs: Backoffs[str] = Backoffs(first_s=10.0, longest_s=35.0)
    assert [backoffs.fail("card", 0.0, "hung") for _ in range(4)] == [10.0, 20.0, 35.0, 35.0]


def test_a_key_is_blocked_until_its_wait_is_over_and_says_why() -> None:
    backoffs: Backoffs[str] = Backoffs(first_s=10.0, longest_s=35.0)
    backoffs.fail("card", 100.0, "hung")
    assert backoffs.blocked_by("card", 109.9) == "hung"
    assert backoffs.blocked_by("card", 110.0) is None


def test_keys_wait_each_for_themselves() -> None:
    backoffs: Backoffs[int] = Backoffs(first_s=10.0, longest_s=35.0)
    backoffs.fail(2, 0.0, "hung")
    assert backoffs.blocked_by(0, 1.0) is None


def test_success_forgets_the_failures() -> None:
    backoffs: Backoffs[str] = Backoffs(first_s=10.0, longest_s=35.0)
    backoffs.fail("card", 0.0, "hung")
    backoffs.fail("card", 0.0, "hung")
    backoffs.succeed("card")
    assert backoffs.blocked_by("card", 0.0) is None
    assert backoffs.fail("card", 0.0, "hung") == 10.0
