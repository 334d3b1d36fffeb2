"""Which values of a vendor's library are accepted, and what its worker says of them to its parent."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcushare.cards.errors import CallFailure, LibraryCallError
from gcushare.cards.plausible import MAX_BYTES, MAX_INDEX, MAX_LISTED, check_count, sanitize_card, sanitize_use
from gcushare.cards.ports import HealthReading
from gcushare.cards.worker.messages import CardAnswer, decode_answer, encode_failure, encode_result
from gcushare.core.cards import MAX_CARD_UNITS, Card, CardUse, Inventory, InventoryCard, LeftOutCard
from gcushare.core.errors import DeviceError, RemoteContractError
from gcushare.core.units import MEMORY_UNITS
from gcushare.wire.nodes import decode_inventory, encode_inventory

ANY_COUNT = st.integers(-(2**64), 2**64)
ANY_TEXT = st.text(max_size=600)


@settings(max_examples=5)
@given(
    st.builds(
        Card,
        index=ANY_COUNT,
        uuid=ANY_TEXT,
        memory_bytes=ANY_COUNT,
        model=ANY_TEXT,
        serial=ANY_TEXT,
        link_group=ANY_TEXT,
    )
)
def test_every_card_that_is_accepted_can_be_published(card: Card) -> None:
    found = sanitize_card(card, 3)
    is_offered = isinstance(found, Card) and found.index < 16
    cards = (InventoryCard(**msgspec.structs.asdict(found)),) if isinstance(found, Card) and is_offered else ()
    left_out = (found,) if isinstance(found, LeftOutCard) else ()
    inventory = Inventory(unit=MEMORY_UNITS[0], cards=cards, left_out=left_out)
    assert decode_inventory(encode_inventory(inventory)) == inventory


def test_a_driver_that_keeps_more_than_there_is_keeps_nothing() -> None:
    found = sanitize_card(Card(index=0, uuid="u", memory_bytes=80, driver_bytes=81), 0)
    assert isinstance(found, Card)
    assert (found.memory_bytes, found.driver_bytes) == (80, 0)


def test_the_largest_card_that_is_accepted_has_no_more_units_than_an_inventory_may_say() -> None:
    assert max(unit.units_in(MAX_BYTES) for unit in MEMORY_UNITS) <= MAX_CARD_UNITS


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        (Card(index=0, uuid="u", memory_bytes=2**64 - 1), "the library reports 18446744073709551615 bytes of memory"),
        (Card(index=2**32 - 1, uuid="u", memory_bytes=1), f"the library reports index 4294967295; at most {MAX_INDEX}"),
    ],
)
def test_a_card_that_cannot_be_is_left_out_at_its_place_with_the_reason(card: Card, reason: str) -> None:
    found = sanitize_card(card, 5)
    assert isinstance(found, LeftOutCard)
    assert (found.index, found.uuid, found.reason.startswith(reason)) == (5, "u", True)


def test_a_card_that_was_left_out_already_is_bounded_as_well() -> None:
    found = sanitize_card(LeftOutCard(index=2**32 - 1, uuid="u" * 1000, reason="r" * 10_000), 5)
    assert isinstance(found, LeftOutCard)
    assert (found.index, len(found.uuid), len(found.reason)) == (5, 256, 1024)


@pytest.mark.parametrize("count", [-1, MAX_LISTED + 1, 2**32 - 1])
def test_a_count_that_no_machine_has_is_the_librarys_failure(count: int) -> None:
    with pytest.raises(DeviceError, match=f"reports {count} cards; at most {MAX_LISTED} are accepted"):
        check_count(count)


def test_figures_that_cannot_be_are_not_reported_and_the_others_are() -> None:
    use = CardUse(
        memory_used_bytes=2**64 - 1,
        temperature_celsius=1e30,
        power_watts=70.5,
        compute_mode="c" * 1000,
        ecc=True,
        processes={1: 5, 2: 2**64 - 1},
        process_utilization={1: 40.0, 2: -1e30},
        process_names={1: "n" * 1000},
    )
    assert sanitize_use(use) == CardUse(
        power_watts=70.5,
        compute_mode="c" * 256,
        ecc=True,
        processes={1: 5},
        process_utilization={1: 40.0},
        process_names={1: "n" * 256},
    )


def test_a_number_that_is_none_arrives_as_not_reported_and_a_list_without_entries_as_such() -> None:
    sent = CardAnswer(use=CardUse(temperature_celsius=math.nan, processes={}))
    assert decode_answer(encode_result(sent), CardAnswer).use == CardUse(processes={})


def test_a_library_error_arrives_with_all_it_knew() -> None:
    failure = CallFailure("EfmlGetDevMem", 15, "EFML_ERROR_X", detail="why", is_unsupported=True, is_lost=True)
    with pytest.raises(LibraryCallError) as caught:
        decode_answer(encode_failure(LibraryCallError(failure)), int)
    assert caught.value.failure == failure
    assert str(caught.value) == "EfmlGetDevMem failed with EFML_ERROR_X (15): why"


@pytest.mark.parametrize("body", [b"", b"{", b'{"result": "text"}', b"[]"])
def test_what_is_no_answer_is_the_peers_fault(body: bytes) -> None:
    with pytest.raises(RemoteContractError):
        decode_answer(body, int)


def test_a_text_with_a_line_feed_stays_one_line() -> None:
    line = encode_result(HealthReading(healthy=False, reason="first\nsecond"))
    assert line.count(b"\n") == 1
    assert decode_answer(line, HealthReading).reason == "first\nsecond"
