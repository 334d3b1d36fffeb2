"""Parsers of setting values, row by row, and the promise that what is shown can be read."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.log import LogLevel
from gcushare.runtime.settings.parsers import Parser


@pytest.mark.parametrize(
    ("parser", "text", "expected"),
    [
        (parsers.integer(-5, 5), "-5", -5),
        (parsers.integer(0, 5), "+5", 5),
        (parsers.boolean(), "True", True),
        (parsers.boolean(), "off", False),
        (parsers.choice(LogLevel), "Debug", LogLevel.DEBUG),
        (parsers.one_of("GiB", "0.1"), "0.1", "0.1"),
        (parsers.duration_s(0, 9e9), "500ms", 0.5),
        (parsers.duration_s(0, 9e9), "1m30s", 90.0),
        (parsers.duration_s(0, 9e9), "1.5h", 5400.0),
        (parsers.duration_s(0, 9e9), "2", 2.0),
        (parsers.size_bytes(0, 1 << 40), "8Mi", 8 << 20),
        (parsers.size_bytes(0, 1 << 40), "8MiB", 8 << 20),
        (parsers.size_bytes(0, 1 << 40), "1.5k", 1500),
        (parsers.size_bytes(0, 1 << 40), "17", 17),
        (parsers.number(0, 10), "2.5", 2.5),
        (parsers.comma_list(parsers.integer(0, 9)), "1, 2,3", (1, 2, 3)),
        (parsers.comma_list(parsers.integer(0, 9)), "", ()),
        (parsers.optional(parsers.integer(0, 9), "none"), "", None),
    ],
)
def test_a_value_is_read_from_its_usual_spellings(parser: Parser[Any], text: str, expected: object) -> None:
    assert parser.parse(text) == expected


@pytest.mark.parametrize(
    ("parser", "text", "reason"),
    [
        (parsers.integer(0, 5), "6", "too large"),
        (parsers.integer(0, 5), "-1", "too small"),
        (parsers.integer(0, 5), "1.0", "not a whole number"),
        (parsers.integer(0, 5), "1_0", "not a whole number"),
        (parsers.integer(0, 5), "9" * 5000, "not a whole number"),
        (parsers.integer(0, 5), "٣", "not a whole number"),
        (parsers.boolean(), "maybe", "neither true nor false"),
        (parsers.one_of("GiB"), "gib", "not one of the accepted words"),
        (parsers.duration_s(1, 60), "500ms", "too small"),
        (parsers.duration_s(1, 60), "2h", "too large"),
        (parsers.duration_s(1, 60), "5 s", "not a duration"),
        (parsers.duration_s(1, 60), "nan", "not a duration"),
        (parsers.duration_s(1, 60), "5s5", "not a duration"),
        (parsers.duration_s(1, 60), "", "not a duration"),
        (parsers.size_bytes(0, 10), "11", "too large"),
        (parsers.size_bytes(0, 10), "0.5", "not a whole number of bytes"),
        (parsers.size_bytes(0, 10), "5Qi", "not a size"),
        (parsers.number(0, 1), "inf", "not a finite number"),
        (parsers.number(0, 1), "1e999", "too large"),
        (parsers.comma_list(parsers.integer(0, 9)), "1,,2", "not a whole number"),
        (parsers.text(), "  ", "empty"),
        (parsers.path(), "a\0b", "not a path"),
    ],
)
def test_anything_else_is_refused_with_the_reason(parser: Parser[Any], text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parser.parse(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_duration_shown_reads_as_the_same_duration(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert math.isclose(parsers.duration_s(0, 1e9).parse(parsers.show_duration(seconds)), seconds)


@given(st.integers(min_value=0, max_value=1 << 45))
def test_a_size_shown_reads_as_the_same_size(count: int) -> None:
    assert parsers.size_bytes(0, 1 << 45).parse(parsers.show_bytes(count)) == count


@given(st.text(max_size=30))
def test_no_text_makes_a_parser_fail_in_another_way(text: str) -> None:
    for parser in (parsers.integer(0, 9), parsers.duration_s(0, 9), parsers.size_bytes(0, 9)):
        with suppress(ValueError):
            assert 0 <= parser.parse(text) <= 9
