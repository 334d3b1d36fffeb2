"""Which values of a vendor's library are accepted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcushare.cards.plausible import (
    MAX_BYTES,
    MAX_INDEX,
    MAX_LISTED,
    check_count,
    sanitize_card,
    sanitize_use,
)
from gcushare.core.cards import MAX_CARD_UNITS, Card, CardUse, Inventory, InventoryCard, LeftOutCard
from gcushare.core.errors import DeviceError
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
