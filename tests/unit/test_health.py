"""Health: every check is named in the answer, none can hang it, and liveness is progress."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gcushare.runtime.health import Check, CounterHeartbeat, HealthChecks, Heartbeat
from tests.manual_clock import ManualClock


def answering(reason: str | None) -> Check:
    async def check() -> str | None:
        return reason

    return check


async def raising() -> str | None:
    raise OSError("socket gone")


async def hanging() -> str | None:
    await asyncio.Event().wait()
    return None


async def raising_timeout() -> str | None:
    raise TimeoutError("the peer's own limit")


async def test_each_way_to_fail_is_a_reason_with_its_name() -> None:
    health = HealthChecks(timeout_s=0.01)
    health.add_ready("well", answering(None))
    health.add_ready("answers", answering("behind by 7 events"))
    health.add_ready("raises", raising)
    health.add_ready("hangs", hanging)
    health.add_ready("raises a timeout", raising_timeout)

    report = await health.report("readyz")

    assert report == {
        "well": None,
        "answers": "behind by 7 events",
        "raises": "OSError: socket gone",
        "hangs": "no answer within 0.01s",
        "raises a timeout": "TimeoutError: the peer's own limit",
    }


async def test_what_is_not_alive_is_not_ready_but_what_is_not_ready_may_be_alive() -> None:
    health = HealthChecks()
    health.add_ready("watch", answering("not synced"))
    assert await health.report("healthz") == {}

    health.add_live("loop", answering("stuck"))
    assert set(await health.report("readyz")) == {"loop", "watch"}
    assert await health.report("healthz") == {"loop": "stuck"}


async def test_a_heart_is_alive_while_it_beats_and_dead_after_its_age() -> None:
    clock = ManualClock(100.0)
    heart = Heartbeat("reconcile", 5.0, clock)

    clock.now_s += 5
    assert await heart.check() is None
    clock.now_s += 0.5
    assert await heart.check() == "task 'reconcile' made no progress for 5.5s; allowed 5s"
    heart.beat()
    assert await heart.check() is None


async def test_a_check_is_logged_when_it_changes_not_at_each_probe(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answers: list[str | None] = ["away", "away", None, None]

    async def check() -> str | None:
        return answers.pop(0)

    health = HealthChecks()
    health.add_ready("api", check)
    for _ in range(4):
        await health.report("readyz")
    assert [each.partition(" endpoint=")[0] for each in caplog.messages] == ["check failing", "check well again"]


async def test_a_counter_that_moves_is_alive_and_one_that_stands_still_is_named() -> None:
    now, count = [0.0], [0]
    progress = CounterHeartbeat("cards", lambda: count[0], max_age_s=10.0, clock=lambda: now[0])
    now[0] = 9.0
    assert await progress.check() is None
    now[0] = 11.0
    assert await progress.check() == "task 'cards' made no progress for 11.0s; allowed 10s"
    count[0] += 1
    assert await progress.check() is None
    now[0] = 22.0
    assert await progress.check() == "task 'cards' made no progress for 11.0s; allowed 10s"
