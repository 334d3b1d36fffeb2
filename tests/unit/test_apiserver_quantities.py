from __future__ import annotations

import time

import pytest

from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.quantities import parse


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (4, "4"),
        ("4", "4"),
        ("4.0", "4"),
        ("+4", "4"),
        ("-4", "-4"),
        ("0", "0"),
        ("0.5", "500m"),
        (1.5, "1500m"),
        (".5", "500m"),
        ("1000m", "1"),
        ("4k", "4k"),
        ("4000", "4k"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("512", "512"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("12E2", "1200"),
        ("3E", "3E"),
        ("0.0000000001", "1n"),
    ],
)
def test_a_quantity_is_rewritten_in_its_canonical_form(written: object, canonical: str) -> None:
    assert parse(written).canonical() == canonical


@pytest.mark.parametrize(
    "written", ["", "abc", "4 k", "4KB", "1e", "0x10", "٤", True, None, [], "1e99999", "9" * 300, "--1"]
)
def test_what_is_no_quantity_is_a_bad_request(written: object) -> None:
    with pytest.raises(ApiFailure, match="quantities must match"):
        parse(written)


@pytest.mark.parametrize(("written", "whole"), [("4", True), ("4000m", True), ("1500m", False), ("1.0001", False)])
def test_a_whole_quantity_is_told_from_a_fraction(written: str, whole: bool) -> None:
    assert parse(written).is_integer is whole


def test_a_hostile_exponent_costs_no_time() -> None:
    start = time.process_time()
    assert parse("1e999").canonical() == "1e999"
    assert time.process_time() - start < 1
