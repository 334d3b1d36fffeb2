"""Liveness by progress: a counter that stands still for too long."""

from gcushare.runtime.health import CounterHeartbeat


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
