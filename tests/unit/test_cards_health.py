"""One card's hysteresis over explicit times, and what changes in a node's cards, as values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.cards.health import CardChange, CardChangeKind, CardRoster, HealthTracker
from gcushare.cards.ports import CardReport, HealthEvent, HealthReading
from gcushare.core.cards import MAX_CARDS, Card, CardUse, Health, LeftOutCard
from tests.card_health import POLICY

GIB = 1 << 30
FIRST = Card(index=0, uuid="a", memory_bytes=16 * GIB)
SECOND = Card(index=1, uuid="b", memory_bytes=32 * GIB)
GOOD = HealthReading(healthy=True)
SURE = HealthReading(healthy=True, conclusive=True)
BAD = HealthReading(healthy=False, reason="too hot")
LOST = HealthReading(healthy=False, reason="off the bus", conclusive=True, lost=True)


def tracker_that_is_well() -> HealthTracker:
    tracker = HealthTracker(POLICY)
    tracker.record_reading(GOOD, 0.0)
    return tracker


@pytest.mark.parametrize(
    ("readings", "is_healthy"),
    [
        pytest.param({5: BAD, 10: BAD, 15: BAD}, [True, True, False], id="sick after three bad ones in a row"),
        pytest.param({5: LOST, 6: SURE}, [False, True], id="a conclusive one needs no second"),
        pytest.param(
            {100: LOST, 105: GOOD, 110: GOOD, 115: GOOD, 134.9: GOOD, 135: GOOD},
            [*[False] * 5, True],
            id="well after enough good ones that lasted long enough",
        ),
        pytest.param(
            {5: LOST, 10: GOOD, 20: GOOD, 30: GOOD, 35: BAD, 40: GOOD, 50: GOOD, 60: GOOD, 69: GOOD, 70: GOOD},
            [*[False] * 9, True],
            id="a bad one during recovery starts it again",
        ),
    ],
)
def test_a_verdict_follows_the_readings(readings: dict[float, HealthReading], is_healthy: list[bool]) -> None:
    tracker = tracker_that_is_well()
    verdicts = [tracker.record_reading(reading, at) for at, reading in readings.items()]
    assert [verdict.healthy for verdict in verdicts] == is_healthy
    assert verdicts[-1].reason == ("" if is_healthy[-1] else "too hot")


def test_a_critical_event_holds_against_good_readings_for_its_time() -> None:
    tracker = tracker_that_is_well()
    assert not tracker.record_critical_event("critical XID 79", 10.0).healthy
    assert not any(tracker.record_reading(GOOD, float(at)).healthy for at in range(15, 310, 5))
    assert not tracker.record_reading(SURE, 309.0).healthy
    assert tracker.record_reading(GOOD, 310.0).healthy


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


# The cards of a node


def report(*cards: Card, left_out: tuple[LeftOutCard, ...] = ()) -> CardReport:
    return CardReport(cards=cards, left_out=left_out, driver="1.0")


def roster_of(*cards: Card) -> CardRoster:
    roster = CardRoster(POLICY)
    roster.update_list(report(*cards), 0.0)
    for card in cards:
        roster.record_reading(card, GOOD, 0.0)
    return roster


def health_of(roster: CardRoster) -> dict[int, Health]:
    return {state.index: state.health for state in roster.snapshot().cards}


def test_new_cards_appear_and_stand_by_index() -> None:
    roster = CardRoster(POLICY)
    assert roster.update_list(report(SECOND, FIRST), 0.0) == [
        CardChange(CardChangeKind.APPEARED, SECOND, "34359738368 bytes, "),
        CardChange(CardChangeKind.APPEARED, FIRST, "17179869184 bytes, "),
    ]
    assert [state.uuid for state in roster.snapshot().cards] == ["a", "b"]
    assert roster.driver == "1.0"


def test_a_sick_card_leaves_the_others_untouched() -> None:
    roster = roster_of(FIRST, SECOND)
    assert roster.record_reading(SECOND, LOST, 5.0) == [CardChange(CardChangeKind.SICK, SECOND, "off the bus")]
    assert health_of(roster) == {0: Health.HEALTHY, 1: Health.UNHEALTHY}


@pytest.mark.parametrize(
    ("other", "kind", "was", "health"),
    [
        ({"uuid": "new"}, CardChangeKind.REPLACED, "a", Health.HEALTHY),
        ({"memory_bytes": 24 * GIB}, CardChangeKind.ALTERED, f"memory_bytes was {16 * GIB}", Health.UNHEALTHY),
    ],
    ids=["replaced, with a clean record", "altered, as healthy as before"],
)
def test_a_card_of_another_uuid_or_size_at_the_same_index_is_another_one(
    other: dict[str, Any], kind: CardChangeKind, was: str, health: Health
) -> None:
    roster = roster_of(FIRST)
    roster.record_reading(FIRST, LOST, 5.0)
    new = msgspec.structs.replace(FIRST, **other)
    assert roster.update_list(report(new), 10.0) == [CardChange(kind, new, was)]
    assert roster.record_reading(FIRST, LOST, 11.0) == [], "of the card that is gone, or no news"
    assert health_of(roster) == {0: health}


def test_a_card_that_is_no_longer_listed_is_lost_once_and_stays_unhealthy() -> None:
    roster = roster_of(FIRST, SECOND)
    reason = "the card is no longer listed by its driver"
    assert roster.update_list(report(FIRST), 5.0) == [CardChange(CardChangeKind.LOST, SECOND, reason)]
    assert roster.update_list(report(FIRST), 10.0) == []
    assert [(s.index, s.health, s.reason, s.index in roster.snapshot().gone) for s in roster.snapshot().cards] == [
        (0, Health.HEALTHY, "", False),
        (1, Health.UNHEALTHY, reason, True),
    ]


def test_a_card_that_is_now_shared_another_way_is_lost_for_that_reason() -> None:
    roster = roster_of(FIRST)
    left_out = (LeftOutCard(index=0, uuid="a", reason="MIG mode is on"),)
    assert roster.update_list(report(left_out=left_out), 5.0) == [
        CardChange(CardChangeKind.LOST, FIRST, "MIG mode is on")
    ]
    assert roster.left_out == left_out


def test_a_lost_card_that_comes_back_recovers_by_its_readings() -> None:
    roster = roster_of(FIRST)
    roster.update_list(report(), 5.0)
    assert roster.update_list(report(FIRST), 10.0) == []
    changes = [roster.record_reading(FIRST, GOOD, at) for at in (10.0, 20.0, 40.0)]
    assert changes[-1] == [CardChange(CardChangeKind.RECOVERED, FIRST)]
    assert not roster.snapshot().gone


def test_only_a_critical_event_makes_a_card_unhealthy_and_only_the_one_that_it_names() -> None:
    roster = roster_of(FIRST, SECOND)
    for uuid, critical in (("unknown", True), ("a", False)):
        assert roster.record_event(HealthEvent(uuid=uuid, reason="XID 79", critical=critical), 5.0) == []
    event = HealthEvent(uuid="b", reason="critical XID 79", critical=True)
    assert roster.record_event(event, 5.0) == [CardChange(CardChangeKind.SICK, SECOND, "critical XID 79")]


def test_a_silent_source_makes_every_card_sick_only_after_its_time() -> None:
    roster = roster_of(FIRST, SECOND)
    assert roster.record_no_answer("driver is gone", 59.0) == []
    assert [change.kind for change in roster.record_no_answer("driver is gone", 60.0)] == [CardChangeKind.SICK] * 2


def test_two_cards_of_one_index_do_not_take_turns() -> None:
    roster = roster_of(FIRST)
    twin = msgspec.structs.replace(FIRST, uuid="twin")
    for at in (5.0, 10.0):
        assert roster.update_list(report(FIRST, twin), at) == []
    assert [(card.uuid, card.reason) for card in roster.left_out] == [("twin", "index 0 belongs to card a already")]


def test_use_is_kept_for_the_card_it_was_read_from_only() -> None:
    roster = roster_of(FIRST)
    roster.record_use(FIRST, CardUse(memory_used_bytes=7))
    roster.record_use(msgspec.structs.replace(FIRST, uuid="other"), CardUse(memory_used_bytes=9))
    assert roster.snapshot().uses[0] == CardUse(memory_used_bytes=7)


def test_a_card_keeps_its_number_while_it_is_held_and_takes_its_minor_number_afterwards() -> None:
    roster = CardRoster(POLICY, by_uuid=True)
    roster.update_list(report(FIRST, SECOND), 0.0)
    roster.hold({"a": FIRST, "b": SECOND}, 1.0)
    roster.update_list(report(msgspec.structs.replace(SECOND, index=0)), 2.0)
    assert [(c.index, c.minor, c.uuid) for c in roster.snapshot().cards] == [(0, None, "a"), (1, 0, "b")]
    assert roster.snapshot().gone == {0}
    roster.hold({}, 3.0)
    assert [(c.index, c.minor, c.uuid) for c in roster.snapshot().cards] == [(0, None, "b")]


def test_a_card_that_pods_hold_since_before_the_start_is_lost_if_it_was_never_listed() -> None:
    roster = CardRoster(POLICY, by_uuid=True)
    assert roster.hold({"b": SECOND}, 0.0) == []
    changes = roster.update_list(report(msgspec.structs.replace(FIRST, index=1, uuid="new")), 0.0)
    assert [(change.kind, change.card.index) for change in changes] == [
        (CardChangeKind.APPEARED, 0),
        (CardChangeKind.LOST, 1),
    ]
    assert [(c.index, c.minor, c.uuid) for c in roster.snapshot().cards] == [(0, 1, "new"), (1, None, "b")]


def test_a_card_without_a_uuid_is_what_has_its_minor_number() -> None:
    roster = CardRoster(POLICY, by_uuid=True)
    nameless = msgspec.structs.replace(FIRST, uuid="")
    roster.update_list(report(nameless, SECOND), 0.0)
    assert roster.hold({"": nameless, "b": SECOND}, 1.0) == []
    assert [(c.index, c.minor, c.uuid) for c in roster.snapshot().cards] == [(0, None, ""), (1, None, "b")]


def test_a_card_for_which_no_number_is_left_waits_and_changes_nothing_else() -> None:
    roster = CardRoster(POLICY, by_uuid=True)
    lost = [Card(index=index, uuid=f"lost-{index}", memory_bytes=GIB) for index in range(MAX_CARDS)]
    roster.hold({card.uuid: card for card in lost}, 0.0)
    roster.update_list(report(FIRST), 0.0)
    assert [card.uuid for card in roster.left_out] == ["a"]
    assert len(roster.snapshot().cards) == MAX_CARDS


def test_two_cards_of_one_uuid_are_one_card_where_grants_follow_it() -> None:
    roster = CardRoster(POLICY, by_uuid=True)
    roster.update_list(report(FIRST, msgspec.structs.replace(SECOND, uuid="a")), 0.0)
    assert [(card.index, card.reason) for card in roster.left_out] == [(1, "uuid a belongs to card 0 already")]


def test_a_card_with_another_minor_number_leaves_no_second_card_of_its_uuid() -> None:
    roster = roster_of(FIRST, SECOND)
    roster.update_list(report(msgspec.structs.replace(SECOND, index=0)), 5.0)
    assert [(card.index, card.uuid, card.health) for card in roster.snapshot().cards] == [
        (0, "b", Health.HEALTHY),
        (1, "", Health.UNHEALTHY),
    ]
