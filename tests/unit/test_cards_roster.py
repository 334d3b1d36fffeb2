"""What changes in a node's cards, as values."""

from __future__ import annotations

import msgspec

from gcushare.cards.health import (
    CardChange,
    CardChangeKind,
    CardRoster,
)
from gcushare.cards.ports import CardReport, HealthEvent, HealthReading
from gcushare.core.cards import MAX_CARDS, Card, CardUse, Health, LeftOutCard
from tests.card_health import POLICY

GIB = 1 << 30
FIRST = Card(index=0, uuid="a", memory_bytes=16 * GIB)
SECOND = Card(index=1, uuid="b", memory_bytes=32 * GIB)
GOOD = HealthReading(healthy=True)
OFF_THE_BUS = HealthReading(healthy=False, reason="off the bus", conclusive=True)


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
    assert [
        Card(**{name: getattr(state, name) for name in Card.__struct_fields__}) for state in roster.snapshot().cards
    ] == [FIRST, SECOND]
    assert roster.driver == "1.0"


def test_a_sick_card_leaves_the_others_untouched() -> None:
    roster = roster_of(FIRST, SECOND)
    assert roster.record_reading(SECOND, OFF_THE_BUS, 5.0) == [CardChange(CardChangeKind.SICK, SECOND, "off the bus")]
    assert health_of(roster) == {0: Health.HEALTHY, 1: Health.UNHEALTHY}


def test_another_uuid_at_the_same_index_is_a_replaced_card_with_a_clean_record() -> None:
    roster = roster_of(FIRST)
    roster.record_reading(FIRST, OFF_THE_BUS, 5.0)
    new = msgspec.structs.replace(FIRST, uuid="new")
    assert roster.update_list(report(new), 10.0) == [CardChange(CardChangeKind.REPLACED, new, "a")]
    assert health_of(roster) == {0: Health.HEALTHY}


def test_a_late_reading_of_the_replaced_card_does_not_touch_the_new_one() -> None:
    roster = roster_of(FIRST)
    roster.update_list(report(msgspec.structs.replace(FIRST, uuid="new")), 5.0)
    assert roster.record_reading(FIRST, OFF_THE_BUS, 6.0) == []
    assert health_of(roster) == {0: Health.HEALTHY}


def test_a_card_of_another_size_is_altered_and_keeps_its_health() -> None:
    roster = roster_of(FIRST)
    roster.record_reading(FIRST, OFF_THE_BUS, 5.0)
    grown = msgspec.structs.replace(FIRST, memory_bytes=24 * GIB)
    assert roster.update_list(report(grown), 10.0) == [
        CardChange(CardChangeKind.ALTERED, grown, f"memory_bytes was {16 * GIB}")
    ]
    assert health_of(roster) == {0: Health.UNHEALTHY}


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


def test_a_critical_event_makes_the_card_that_it_names_unhealthy() -> None:
    roster = roster_of(FIRST, SECOND)
    event = HealthEvent(uuid="b", reason="critical XID 79", critical=True)
    assert roster.record_event(event, 5.0) == [CardChange(CardChangeKind.SICK, SECOND, "critical XID 79")]


def test_events_that_name_no_card_or_are_not_critical_change_nothing_by_themselves() -> None:
    roster = roster_of(FIRST)
    for event in (
        HealthEvent(uuid="unknown", reason="critical XID 79", critical=True),
        HealthEvent(uuid="a", reason="file changed", critical=False),
    ):
        assert roster.record_event(event, 5.0) == []


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
    alone = msgspec.structs.replace(SECOND, index=0)
    roster.update_list(report(alone), 2.0)
    assert [(c.index, c.minor, c.uuid) for c in roster.snapshot().cards] == [(0, None, "a"), (1, 0, "b")]
    assert roster.snapshot().gone == {0}
    roster.hold({}, 3.0)
    assert [(c.index, c.minor, c.uuid) for c in roster.snapshot().cards] == [(0, None, "b")]


def test_a_card_that_pods_hold_since_before_the_start_is_lost_if_it_was_never_listed() -> None:
    roster = CardRoster(POLICY, by_uuid=True)
    assert roster.hold({"b": SECOND}, 0.0) == []
    new = msgspec.structs.replace(FIRST, index=1, uuid="new")
    changes = roster.update_list(report(new), 0.0)
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
