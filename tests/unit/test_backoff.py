"""Waits before a retry, and the limit of background writes."""

from __future__ import annotations

import asyncio
import random

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import RetryableError
from gcushare.kube.write_rate import TokenBucket
from tests.unit.kube_time import VirtualTime


def waits() -> Backoff:
    return Backoff(BackoffPolicy(first_s=1, cap_s=8), random.Random(1))


def test_waits_double_up_to_the_cap_and_vary_by_at_most_half() -> None:
    backoff = waits()
    delays = [backoff.next_delay_s() for _ in range(6)]
    for delay, full in zip(delays, [1, 2, 4, 8, 8, 8], strict=True):
        assert full / 2 <= delay <= full
    assert all(backoff.next_delay_s() <= 8 for _ in range(5000)), "an outage of days"


def test_a_success_starts_over() -> None:
    backoff = waits()
    for _ in range(5):
        backoff.next_delay_s()
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.next_delay_s() <= 1


def test_the_servers_own_wish_is_never_undercut() -> None:
    assert waits().next_delay_s(RetryableError("busy", delay_s=30)) == 30


async def test_a_bucket_lets_a_burst_through_and_then_the_rate() -> None:
    time = VirtualTime()
    bucket = TokenBucket(2, 3, time.clock())
    done: list[float] = []

    async def writer() -> None:
        await bucket.take()
        done.append(time.now_s - 1000)

    async with asyncio.TaskGroup() as group:
        for _ in range(7):
            group.create_task(writer())
        await time.pass_(10)
    assert done == [0, 0, 0, 0.5, 1.0, 1.5, 2.0]


async def test_an_idle_bucket_fills_to_its_burst_and_then_refuses_those_that_do_not_wait() -> None:
    time = VirtualTime()
    bucket = TokenBucket(1, 2, time.clock())
    await time.pass_(1000)
    assert [bucket.take_now() for _ in range(4)] == [True, True, False, False]
    await time.pass_(1.1)
    assert [bucket.take_now() for _ in range(2)] == [True, False], "a refusal uses no token"
