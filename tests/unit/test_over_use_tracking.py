"""Who is over its grant, by the polls that were taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.over_use.tracking import UNKNOWN_POLLS, OverUseChangeKind, OverUseTracker, PolledUse
from gcushare.core.units import GIB
from tests.builders import TOLERANCE

MIB = GIB // 1024
PLACE = ("uid", 0)
BEGAN, ENDED, UNKNOWN = OverUseChangeKind.BEGAN, OverUseChangeKind.ENDED, OverUseChangeKind.UNKNOWN
OVER, WITHIN = PolledUse(5 * GIB, 4 * GIB), PolledUse(4 * GIB, 4 * GIB)


def kinds(tracker: OverUseTracker, *polls: PolledUse | None) -> list[OverUseChangeKind | None]:
    """What each poll changed; None is a poll that could not tell."""
    found: list[OverUseChangeKind | None] = []
    for figures in polls:
        seen = {PLACE: figures} if figures is not None else {}
        changes = tracker.take(seen, {"uid"}, 1000.0 + tracker.polls, is_blind=figures is None)
        assert len(changes) <= 1
        found.append(changes[0].kind if changes else None)
    return found


@pytest.mark.parametrize(
    ("granted", "limit"),
    [
        pytest.param(0, 256 * MIB, id="a card that it does not hold"),
        pytest.param(4 * GIB, 4 * GIB + 256 * MIB, id="small grants: the fixed amount"),
        pytest.param(40 * GIB, 42 * GIB, id="large grants: the share"),
    ],
)
def test_the_tolerance_is_a_share_of_the_grant_or_a_fixed_amount_whichever_is_more(granted: int, limit: int) -> None:
    assert TOLERANCE.limit_of(granted) == limit


def test_a_pod_is_over_after_as_many_polls_in_a_row_as_were_asked_for_and_no_longer_after_as_many_within() -> None:
    tracker = OverUseTracker(TOLERANCE, polls=2)
    assert kinds(tracker, OVER, OVER, OVER, WITHIN, WITHIN) == [None, BEGAN, None, None, ENDED]
    assert not tracker.over


def test_what_jumps_about_the_limit_neither_begins_nor_ends() -> None:
    tracker = OverUseTracker(TOLERANCE, polls=2)
    assert kinds(tracker, OVER, WITHIN, OVER, WITHIN) == [None] * 4
    assert kinds(tracker, OVER, OVER, WITHIN, OVER, WITHIN, OVER) == [None, BEGAN, None, None, None, None]


def test_an_over_use_began_with_its_first_poll_and_knows_its_most() -> None:
    tracker = OverUseTracker(TOLERANCE, polls=3)
    kinds(tracker, WITHIN, PolledUse(6 * GIB, 4 * GIB), OVER, OVER)
    over = tracker.over[PLACE]
    assert (over.since, over.peak, over.figures) == (1001.0, 6 * GIB, OVER)


def test_polls_that_cannot_tell_change_nothing_until_what_was_known_is_old() -> None:
    tracker = OverUseTracker(TOLERANCE, polls=2)
    assert kinds(tracker, OVER, None, OVER) == [None, None, BEGAN]
    assert kinds(tracker, *[None] * UNKNOWN_POLLS) == [None] * (UNKNOWN_POLLS - 1) + [UNKNOWN]
    assert not tracker.over


def test_a_pod_that_is_gone_is_forgotten_without_a_word() -> None:
    tracker = OverUseTracker(TOLERANCE, polls=1)
    kinds(tracker, OVER)
    assert tracker.take({}, set(), 2000.0) == []
    assert not tracker.over


def test_an_earlier_time_is_kept_and_a_later_one_is_not() -> None:
    tracker = OverUseTracker(TOLERANCE, polls=1)
    kinds(tracker, OVER)
    tracker.adopt(PLACE, 5000.0)
    tracker.adopt(PLACE, 10.0)
    assert tracker.over[PLACE].since == 10.0


@given(st.lists(st.one_of(st.none(), st.integers(0, 8)), max_size=60), st.integers(1, 4))
def test_beginnings_and_ends_take_turns_and_agree_with_who_is_over(uses: list[int | None], needed: int) -> None:
    tracker = OverUseTracker(TOLERANCE, polls=needed)
    last: OverUseChangeKind | None = None
    for use in uses:
        (kind,) = kinds(tracker, None if use is None else PolledUse(use * GIB, 4 * GIB))
        if kind is not None:
            assert (kind is BEGAN) == (last is not BEGAN)
            last = kind
        assert (PLACE in tracker.over) == (last is BEGAN)


def test_polls_that_could_not_tell_say_nothing_of_an_earlier_over_use_until_there_were_many() -> None:
    tracker = OverUseTracker(TOLERANCE, polls=2)
    kinds(tracker, None, None, None)
    assert not tracker.has_enough_polls
    kinds(tracker, OVER, OVER)
    assert tracker.has_enough_polls
    assert tracker.is_first_word

    blind = OverUseTracker(TOLERANCE, polls=2)
    kinds(blind, *[None] * UNKNOWN_POLLS)
    assert blind.has_enough_polls
    kinds(blind, OVER, OVER)
    assert not blind.is_first_word, "what stands on a pod by now is not of a plugin before this one"
