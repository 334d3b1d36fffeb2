"""A template's name says what its claims ask for, and one size has one name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.wire.dra.claim_names import MAX_CARDS, MAX_UNITS, ClaimSize, parse_template_name


@given(st.integers(1, MAX_UNITS), st.integers(1, MAX_CARDS))
def test_a_size_is_read_from_its_own_name(units: int, cards: int) -> None:
    size = ClaimSize(units, cards)
    assert parse_template_name(size.template_name("gcu-memory"), "gcu-memory") == size


def test_one_card_is_not_part_of_the_name() -> None:
    assert ClaimSize(5).template_name("gcu-memory") == "gcu-memory-5"
    assert ClaimSize(5, 2).template_name("gcu-memory") == "gcu-memory-5-cards-2"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("gpu-mem-5", id="another vendor's"),
        pytest.param("gcu-memory", id="no size"),
        pytest.param("gcu-memory-0", id="nothing"),
        pytest.param("gcu-memory-05", id="a second name of the same size"),
        pytest.param("gcu-memory-5-cards-1", id="one card, written out"),
        pytest.param("gcu-memory-5-cards-33", id="more cards than a claim may have"),
        pytest.param("gcu-memory-1000000001", id="more units than any card has"),
        pytest.param("gcu-memory-5-backup", id="a user's own template"),
        pytest.param("gcu-memory-٥", id="a digit of another script"),
    ],
)
def test_other_names_are_not_ours(name: str) -> None:
    assert parse_template_name(name, "gcu-memory") is None
