"""Who is over its grant by the polls that were taken, what its annotation says, and which pod an eviction chooses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.errors import RemoteContractError
from gcushare.core.over_use.eviction import When, decide
from gcushare.core.over_use.tracking import UNKNOWN_POLLS, OverUse, OverUseChangeKind, OverUseTracker, PolledUse
from gcushare.core.units import GIB
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.highest_use import HighestUse, HighestUses
from gcushare.node.over_use.watch import divide_grant
from gcushare.node.pod_use import PodUse
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import (
    OVER_USE,
    decode_over_use,
    encode_over_use,
    note_since_s,
    over_use_text,
    over_used_cards,
)
from tests.builders import TOLERANCE, offender, read_card
from tests.extender_objects import a_pod, on_card

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


USES = [
    pytest.param({"a": 1, "b": 2}, {"a": 1.5, "b": 2.5}, id="less than the grant"),
    pytest.param({"a": 4, "b": 0}, {"a": 4, "b": 0}, id="all of it by one"),
    pytest.param({"a": 6, "b": 2}, {"a": 3, "b": 1}, id="too much together"),
    pytest.param({"a": 4, "b": 4, "c": 4}, {"a": 4 / 3, "b": 4 / 3, "c": 4 / 3}, id="as much as one may, each"),
]


@pytest.mark.parametrize(("used", "granted"), USES)
def test_a_shared_grant_counts_once(used: dict[str, int], granted: dict[str, float]) -> None:
    figures = {(uid, 0): PolledUse(size * GIB, 4 * GIB) for uid, size in used.items()}
    divide_grant(figures, list(figures), 4 * GIB)
    assert {uid: figures[uid, 0].granted for uid in used} == {uid: int(size * GIB) for uid, size in granted.items()}


# The annotation

SINCE = 1_763_790_000.0
NOTE = encode_over_use({0: OverUse(PolledUse(5 * GIB, 4 * GIB), SINCE, 6 * GIB)})
SHOWN = {OVER_USE: NOTE}
WORDS = "5.00 GiB of card 0 in use, 4.00 GiB granted, since 2025-11-22T05:40:00Z"


def test_the_annotation_is_for_people_and_machines() -> None:
    assert json.loads(NOTE) == {
        "since": "2025-11-22T05:40:00Z",
        "cards": {"0": {"used": 5 * GIB, "granted": 4 * GIB, "peak": 6 * GIB}},
    }
    (read,) = decode_over_use(NOTE).values()
    assert (read.figures, read.since, read.peak) == (PolledUse(5 * GIB, 4 * GIB), SINCE, 6 * GIB)
    assert over_use_text(SHOWN) == WORDS
    assert (note_since_s(SHOWN, 0), note_since_s(SHOWN, 1)) == (SINCE, None)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"since":"x","cards":{}}', '{"since":"2026-01-01T00:00:00Z","cards":{"99":{"used":1}}}']
)
def test_an_annotation_that_somebody_else_wrote_shows_nothing_and_breaks_nothing(text: str) -> None:
    with pytest.raises(RemoteContractError):
        decode_over_use(text)
    annotations = {OVER_USE: text}
    assert (over_use_text(annotations), note_since_s(annotations, 0)) == ("", None)
    assert over_used_cards(annotations) == set()


# Evictions


def test_a_pod_over_its_grant_is_evicted_if_a_neighbours_grant_is_in_danger() -> None:
    greedy = offender(used=9)
    found = decide([greedy], {0: read_card(greedy)}, When.DANGER)  # 11 of 16 in use, 6 granted and unused
    assert found.victim == greedy
    assert "9.00 GiB" in found.reason
    assert "short of 1.00 GiB" in found.reason


def test_without_danger_no_one_is_evicted_unless_the_admin_says_always() -> None:
    greedy = offender(used=8)
    cards = {0: read_card(greedy)}  # 10 of 16 in use, 6 granted and unused: it is just enough
    found = decide([greedy], cards, When.DANGER)
    assert found.victim is None
    assert "still has what its pods were granted" in found.passed_over["default/greedy"]
    assert decide([greedy], cards, When.ALWAYS).victim == greedy


def test_what_is_promised_to_a_pod_that_comes_counts_as_a_neighbours_grant() -> None:
    greedy = offender(used=8)
    card = replace(read_card(greedy), promised=GIB)
    assert decide([greedy], {0: card}, When.DANGER).victim == greedy


def test_the_worst_of_the_lowest_priority_is_first_and_alone() -> None:
    low, worse, high = offender("low", 6), offender("worse", 7), offender("high", 12, priority=1000)
    cards = {0: read_card(low, worse, high, memory=32, neighbour=(0, 16))}
    found = decide([high, low, worse], cards, When.DANGER)
    assert found.victim == worse
    assert set(found.passed_over) == {"default/low", "default/high"}
    assert all("one at a time" in why for why in found.passed_over.values())


@pytest.mark.parametrize(
    ("pattern", "is_exempt"),
    [("default", True), ("def*", True), ("default/greedy", True), ("default/g*", True), ("default/x*", False),
     ("kube-system", False)],
)  # fmt: skip
def test_namespaces_and_pods_can_be_exempt(pattern: str, is_exempt: bool) -> None:
    greedy = offender(used=9)
    found = decide([greedy], {0: read_card(greedy)}, When.DANGER, (pattern,))
    assert (found.victim is None) == is_exempt
    assert ("exempt" in found.passed_over.get("default/greedy", "")) == is_exempt


@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize(
    ("doubtful", "words"),
    [
        pytest.param({"unknown": GIB}, "no known pod", id="unknown processes"),
        pytest.param({"unknown": None}, "not known", id="processes that are not listed"),
        pytest.param({"in_use": None}, "not known", id="no figure of the card"),
        pytest.param({"doubt": "the last poll could not read it"}, "in doubt", id="a stale poll"),
        pytest.param({"in_use": 4 * GIB}, "5.00 GiB more than it has in use", id="processes report more than is used"),
        pytest.param({"in_use": 5 * GIB}, "", id="what is certain is enough"),
        pytest.param(
            {"unconfirmed": 5 * GIB}, "5.00 GiB of card 0 were given out just now", id="units of a moment ago"
        ),
        pytest.param({"unconfirmed": 4 * GIB}, "", id="what is over without these is enough"),
    ],
)
def test_no_one_is_evicted_on_doubtful_figures(doubtful: Any, words: str, when: When) -> None:
    greedy = offender(used=9)
    card = replace(read_card(greedy, memory=12, neighbour=(0, 8)), **doubtful)
    found = decide([greedy], {0: card}, when)
    assert found.victim == (None if words else greedy)
    assert words in found.passed_over.get("default/greedy", "")


def test_of_a_card_that_was_not_seen_no_one_is_evicted() -> None:
    assert decide([offender(card=3)], {}, When.ALWAYS).victim is None


def test_while_an_offender_is_ending_whose_memory_suffices_no_one_else_of_the_card_is_evicted() -> None:
    ending, other = replace(offender("ending", 9), ending=True), offender("other", 9)
    elsewhere = offender("elsewhere", 12, card=1)
    cards = {0: read_card(ending, other, memory=20), 1: read_card(elsewhere, index=1)}
    found = decide([ending, other], cards, When.DANGER)
    assert found.victim is None
    assert "being deleted" in found.passed_over["default/other"]
    assert decide([ending, other, elsewhere], cards, When.DANGER).victim == elsewhere


def test_an_offender_that_never_ends_keeps_no_one() -> None:
    stuck, other = replace(offender("stuck", 12), ending=True, is_overdue=True), offender("other", 9)
    assert decide([stuck, other], {0: read_card(stuck, other)}, When.DANGER).victim == other


@pytest.mark.parametrize(
    ("own_s", "given_s", "since_s"),
    [
        pytest.param(3600, 30, 1000.0, id="deleted with less than its own time"),
        pytest.param(0, 3600, 1000.0 - 3600 + 600, id="deleted with more, up to the limit"),
        pytest.param(30, 30, 1000.0, id="deleted with its own"),
    ],
)
def test_when_an_offender_should_have_ended_follows_from_its_deletion(own_s: int, given_s: int, since_s: float) -> None:
    plain = a_pod("a", 4, node="n", record=on_card(0, 4), uid="u")
    metadata = msgspec.structs.replace(
        plain.metadata, deletion_timestamp="1970-01-01T00:16:40Z", deletion_grace_period_seconds=given_s
    )
    spec = msgspec.structs.replace(plain.spec, termination_grace_period_seconds=own_s)
    store = PodStore(ENFLAME)
    store.pod_applied(msgspec.structs.replace(plain, metadata=metadata, spec=spec))
    assert store.entries["u"].overdue_since_s(600.0) == since_s
    store.pod_applied(plain)
    assert store.entries["u"].overdue_since_s(600.0) is None


def test_a_static_pod_and_one_that_was_refused_are_passed_over_for_the_next_worst() -> None:
    static, refused, next_worst = (offender(name, used) for name, used in (("s", 12), ("r", 11), ("n", 9)))
    found = decide(
        [replace(static, is_static=True), replace(refused, refused_lately="refused a moment ago"), next_worst],
        {0: read_card(static, refused, next_worst, memory=32)},
        When.DANGER,
    )
    assert found.victim == next_worst
    assert set(found.passed_over) == {"default/s", "default/r"}


def test_in_a_pause_no_one_is_evicted() -> None:
    greedy = offender(used=9)
    found = decide([greedy], {0: read_card(greedy)}, When.DANGER, pausing="the next in 5s")
    assert (found.victim, dict(found.passed_over)) == (None, {"default/greedy": "the next in 5s"})


def test_a_pod_within_its_grant_is_never_chosen_for_the_shortage_that_another_makes() -> None:
    worst = replace(offender("worst", 14), refused_lately="a budget refuses")
    modest = offender("modest", 4)
    assert decide([worst, modest], {0: read_card(worst, modest, neighbour=(0, 8))}, When.ALWAYS).victim is None


@pytest.mark.parametrize("when", list(When))
def test_a_small_pod_that_is_being_deleted_protects_no_other_pod(when: When) -> None:
    """An author may delete one after the other."""
    worst, small = offender("worst", 14), replace(offender("small", 5), ending=True)
    found = decide([worst, small], {0: replace(read_card(worst, small, neighbour=(0, 8)), memory=19 * GIB)}, when)
    assert found.victim == worst


USED = st.dictionaries(st.integers(0, 2), st.integers(0, 100), max_size=3)


@pytest.mark.slow
@given(st.lists(st.none() | USED, min_size=1, max_size=12))
def test_it_is_the_largest_reading_of_each_card_and_counts_from_the_first_one(
    readings: list[dict[int, int] | None],
) -> None:
    kept = HighestUses()
    for at, reading in enumerate(readings):
        kept.take(None if reading is None else PodUse({"a": reading}, {}), {"a"}, float(at))
    known = [each for each in readings if each is not None]
    if not known:
        assert kept.by_pod == {}
        return
    most = {index: max(each.get(index, 0) for each in known) for each in known for index in each}
    assert kept.by_pod["a"].bytes == most
    assert kept.by_pod["a"].since == readings.index(known[0])


def test_a_pod_that_is_gone_is_forgotten_and_one_of_the_same_uid_begins_again() -> None:
    kept = HighestUses()
    kept.take(PodUse({"a": {0: 7}}, {}), {"a", "uses nothing"}, 1.0)
    assert kept.by_pod["uses nothing"] == HighestUse({}, 1.0)
    kept.take(PodUse({"a": {0: 9}}, {}), (), 2.0)
    kept.take(PodUse({"a": {0: 3}}, {}), {"a"}, 3.0)
    assert kept.by_pod == {"a": HighestUse({0: 3}, 3.0)}
