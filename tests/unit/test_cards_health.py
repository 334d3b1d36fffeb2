"""One card's hysteresis, over explicit times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gcushare.cards.health import HealthTracker
from gcushare.cards.ports import HealthReading
from tests.card_health import POLICY

GOOD = HealthReading(healthy=True)
BAD = HealthReading(healthy=False, reason="too hot")
LOST = HealthReading(healthy=False, reason="off the bus", conclusive=True, lost=True)


def tracker_that_is_well() -> HealthTracker:
    tracker = HealthTracker(POLICY)
    tracker.record_reading(GOOD, 0.0)
    return tracker


def tracker_that_is_sick(at_s: float = 0.0) -> HealthTracker:
    tracker = tracker_that_is_well()
    tracker.record_reading(LOST, at_s)
    return tracker


def test_a_card_falls_sick_after_three_bad_readings_in_a_row() -> None:
    tracker = tracker_that_is_well()
    assert [tracker.record_reading(BAD, at).healthy for at in (5.0, 10.0, 15.0)] == [True, True, False]
    assert tracker.verdict.reason == "too hot"


def test_one_good_reading_between_bad_ones_starts_the_count_again() -> None:
    tracker = tracker_that_is_well()
    readings = [BAD, BAD, GOOD, BAD, BAD]
    assert all(tracker.record_reading(reading, float(at)).healthy for at, reading in enumerate(readings))


def test_a_conclusive_reading_needs_no_second_one() -> None:
    assert not tracker_that_is_sick().verdict.healthy


def test_a_sick_card_recovers_after_enough_good_readings_that_lasted_long_enough() -> None:
    tracker = tracker_that_is_sick(at_s=100.0)
    verdicts = [tracker.record_reading(GOOD, at).healthy for at in (105.0, 110.0, 115.0, 134.9, 135.0)]
    assert verdicts == [False, False, False, False, True]
    assert tracker.verdict.reason == ""


def test_a_bad_reading_during_recovery_starts_it_again() -> None:
    tracker = tracker_that_is_sick()
    for at in (10.0, 20.0, 30.0):
        tracker.record_reading(GOOD, at)
    tracker.record_reading(BAD, 35.0)
    assert not any(tracker.record_reading(GOOD, at).healthy for at in (40.0, 50.0, 60.0, 69.0))
    assert tracker.record_reading(GOOD, 70.0).healthy


def test_a_critical_event_holds_against_good_readings_for_its_time() -> None:
    tracker = tracker_that_is_well()
    assert not tracker.record_critical_event("critical XID 79", 10.0).healthy
    assert not any(tracker.record_reading(GOOD, float(at)).healthy for at in range(15, 310, 5))
    assert tracker.record_reading(GOOD, 310.0).healthy


def test_a_conclusively_good_reading_recovers_at_once_but_not_against_an_event() -> None:
    sure = HealthReading(healthy=True, conclusive=True)
    assert tracker_that_is_sick().record_reading(sure, 1.0).healthy
    failed = tracker_that_is_well()
    failed.record_critical_event("critical XID 79", 10.0)
    assert not failed.record_reading(sure, 11.0).healthy


def test_silence_keeps_the_last_reading_for_a_while_and_then_counts_as_sick() -> None:
    tracker = tracker_that_is_well()
    assert tracker.record_miss("the worker restarts", 59.9).healthy
    verdict = tracker.record_miss("the worker restarts", 60.0)
    assert (verdict.healthy, verdict.reason) == (False, "no answer for 60s: the worker restarts")


def test_silence_about_a_card_that_was_never_read_counts_at_once_and_is_no_silence_of_a_minute() -> None:
    verdict = HealthTracker(POLICY).record_miss("the worker restarts", 0.0)
    assert (verdict.healthy, verdict.reason) == (False, "no answer yet: the worker restarts")


@given(st.lists(st.sampled_from([GOOD, BAD]), max_size=60))
def test_a_verdict_turns_only_on_its_full_evidence(readings: list[HealthReading]) -> None:
    tracker = tracker_that_is_well()
    healthy = True
    for place, reading in enumerate(readings):
        verdict = tracker.record_reading(reading, 10.0 * (place + 1))
        if verdict.healthy != healthy:
            window = readings[max(0, place - 2) : place + 1]
            assert len(window) == 3
            assert all(seen.healthy is verdict.healthy for seen in window)
        healthy = verdict.healthy
