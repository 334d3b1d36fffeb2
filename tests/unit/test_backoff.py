"""Waits before a retry."""

from __future__ import annotations

import random

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import RetryableError


def test_waits_double_up_to_the_cap_and_vary_by_at_most_half() -> None:
    backoff = Backoff(BackoffPolicy(first_s=1, cap_s=8), random.Random(1))
    delays = [backoff.next_delay_s() for _ in range(6)]
    for delay, full in zip(delays, [1, 2, 4, 8, 8, 8], strict=True):
        assert full / 2 <= delay <= full


def test_a_success_starts_over() -> None:
    backoff = Backoff(BackoffPolicy(first_s=1, cap_s=8), random.Random(1))
    for _ in range(5):
        backoff.next_delay_s()
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.next_delay_s() <= 1


def test_the_servers_own_wish_is_never_undercut() -> None:
    backoff = Backoff(BackoffPolicy(first_s=1, cap_s=8), random.Random(1))
    assert backoff.next_delay_s(RetryableError("busy", delay_s=30)) == 30


def test_an_outage_of_days_does_not_overflow() -> None:
    backoff = Backoff(BackoffPolicy(first_s=1, cap_s=8), random.Random(1))
    assert all(backoff.next_delay_s() <= 8 for _ in range(5000))
