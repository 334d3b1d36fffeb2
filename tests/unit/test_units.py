"""Quantities as Kubernetes writes them, and the units that memory is counted in."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.core.quantities import parse_count, parse_quantity
from gcushare.core.units import GIB, MEMORY_UNITS, MemoryUnit, finest_unit, parse_memory_unit

UNITS = st.sampled_from(MEMORY_UNITS)
SIZES = st.integers(min_value=0, max_value=1 << 42)


@pytest.mark.parametrize(
    ("name", "units"), [("1", 16), ("0.1", 160), ("0.01", 1600), ("0.001", 16000), ("GiB", 16), ("MiB", 16384)]
)
def test_a_16_gb_card_counts_as_the_manual_says(name: str, units: int) -> None:
    assert parse_memory_unit(name).units_in(16 * GIB) == units


def test_a_t4_of_14_75_gib_counts_14_and_shows_what_is_lost() -> None:
    gib = parse_memory_unit("GiB")
    memory = 14 * GIB + 3 * GIB // 4
    assert gib.units_in(memory) == 14
    assert gib.remainder_bytes(memory) == 3 * GIB // 4


@given(UNITS, SIZES)
def test_units_never_promise_more_than_the_card_has(unit: MemoryUnit, memory_bytes: int) -> None:
    units = unit.units_in(memory_bytes)
    assert Fraction(units * GIB, unit.per_gib) <= memory_bytes < Fraction((units + 1) * GIB, unit.per_gib)
    assert unit.bytes_of(units) + unit.remainder_bytes(memory_bytes) == memory_bytes


@given(UNITS, SIZES)
def test_a_reserve_is_rounded_up_to_whole_units(unit: MemoryUnit, memory_bytes: int) -> None:
    covering = unit.units_covering(memory_bytes)
    assert Fraction(covering * GIB, unit.per_gib) >= memory_bytes
    assert covering == 0 or Fraction((covering - 1) * GIB, unit.per_gib) < memory_bytes


@given(UNITS, st.integers(min_value=0, max_value=1 << 30))
def test_units_survive_the_way_through_bytes_when_rounded_up(unit: MemoryUnit, units: int) -> None:
    assert unit.units_covering(unit.bytes_of(units)) == units


def test_an_unknown_unit_names_the_accepted_ones() -> None:
    with pytest.raises(ConfigError, match=r"'GB' is not known; accepted: GiB, MiB, 1, 0\.1, 0\.01, 0\.001"):
        parse_memory_unit("GB")


def test_the_finest_unit_that_fits_is_found() -> None:
    def fits(units: object) -> bool:
        return isinstance(units, list) and sum(units) <= 262_144

    manual = ("1", "0.1", "0.01", "0.001")
    assert finest_unit([32 * GIB] * 8, manual, fits) == parse_memory_unit("0.001")
    assert finest_unit([80 * GIB] * 8, manual, fits) == parse_memory_unit("0.01")
    assert finest_unit([1 << 60], manual, fits) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        (4, 4),
        ("4k", 4000),
        ("1Ki", 1024),
        ("4000m", 4),
        ("1e3", 1000),
        ("2E3", 2000),
        ("+5", 5),
        ("4.0", 4),
        (".5", Fraction(1, 2)),
        ("2E", 2 * 10**18),
        ("3Ei", 3 * 1024**6),
        (4.0, 4),
        ("7.", 7),
        ("100n", Fraction(1, 10**7)),
    ],
)
def test_the_kubernetes_grammar_is_read_exactly(text: object, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "four", "4 ", "1,5", "0x10", "4kk", "--4", "e3", None, True, [], "9" * 65, "NaN", "²", "٤"]
)
def test_what_is_no_quantity_is_refused_by_name(text: object) -> None:
    with pytest.raises(RemoteContractError, match="is not a number"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-1", "is negative"),
        *((text, "not a whole number") for text in ("1.5", "500m", "1e-3")),
        *((text, "is too large") for text in ("1e19", "10E", 2**63, "1e999")),
    ],
)
def test_a_count_is_whole_non_negative_and_fits_int64(text: object, why: str) -> None:
    with pytest.raises(RemoteContractError, match=why):
        parse_count(text)
