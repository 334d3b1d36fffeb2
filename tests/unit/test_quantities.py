from fractions import Fraction

import pytest

from gcushare.core.errors import RemoteContractError
from gcushare.core.quantities import parse_count, parse_quantity


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
        ("1.5", "not a whole number"),
        ("500m", "not a whole number"),
        ("1e-3", "not a whole number"),
        ("1e19", "is too large"),
        ("10E", "is too large"),
        (2**63, "is too large"),
        ("1e999", "is too large"),
    ],
)
def test_a_count_is_whole_non_negative_and_fits_int64(text: object, why: str) -> None:
    with pytest.raises(RemoteContractError, match=why):
        parse_count(text)
