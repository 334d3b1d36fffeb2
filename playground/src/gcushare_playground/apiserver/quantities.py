"""Quantities as the API server reads and rewrites them.

Independent of the programs' own reading, so that a mistake there meets another opinion here.
Source: ``k8s.io/apimachinery/pkg/api/resource``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from gcushare_playground.apiserver.failures import bad_request

_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d+))?", re.ASCII)
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_NANO = Fraction(1, 1_000_000_000)
_EXPONENT_DIGITS = 3
"""Longer exponents would build integers of millions of digits from a short text."""
_LONGEST_TEXT = 256


class Style(Enum):
    """How a quantity was written and is written back."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount, rounded up to a nano."""

    value: Fraction
    style: Style

    @property
    def is_integer(self) -> bool:
        """Whether it is whole, to the thousandth, which is how the API server asks."""
        return (-(-self.value * 1000 // 1)) % 1000 == 0

    def canonical(self) -> str:
        """Write it without a fraction, in the largest unit that loses nothing."""
        if self.style is Style.BINARY and abs(self.value) >= 1024 and self.value.denominator == 1:
            return _scaled(self.value, 1024, _BINARY)
        if self.style is Style.EXPONENT:
            return _exponent(self.value)
        return _scaled(self.value, 1000, _DECIMAL)


def parse(raw: object) -> Quantity:
    """Read a quantity from its JSON value, a string or a number.

    Raises:
        ApiFailure: 400 for anything else, as a decoder would.
    """
    text = raw.strip() if isinstance(raw, str) else str(raw)
    found = _FORM.fullmatch(text) if isinstance(raw, str | int | float) and not isinstance(raw, bool) else None
    if found is None or len(found[4] or "") > _EXPONENT_DIGITS or len(text) > _LONGEST_TEXT:
        raise bad_request(
            f"unable to decode quantity {str(raw)[:64]!r}: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    sign, digits, suffix, exponent = found.groups()
    value = Fraction(digits) * _factor(suffix or "", exponent)
    rounded = -(-value // _NANO) * _NANO
    return Quantity(-rounded if sign == "-" else rounded, _style(suffix or "", exponent))


def _factor(suffix: str, exponent: str | None) -> Fraction:
    if exponent is not None:
        return Fraction(10) ** int(exponent)
    if suffix in _BINARY:
        return Fraction(1024 ** _BINARY[suffix])
    return Fraction(1000) ** _DECIMAL[suffix]


def _style(suffix: str, exponent: str | None) -> Style:
    if exponent is not None:
        return Style.EXPONENT
    return Style.BINARY if suffix in _BINARY else Style.DECIMAL


def _scaled(value: Fraction, base: int, units: dict[str, int]) -> str:
    steps, powers = 0, {power: suffix for suffix, power in units.items()} | {0: ""}
    while value.denominator != 1:
        value, steps = value * base, steps - 1
    while value and steps < max(powers) and value % base == 0:
        value, steps = value / base, steps + 1
    return f"{value.numerator}{powers[steps]}"


def _exponent(value: Fraction) -> str:
    steps = 0
    while value.denominator != 1:
        value, steps = value * 1000, steps - 3
    while value and value % 1000 == 0:
        value, steps = value / 1000, steps + 3
    return f"{value.numerator}e{steps}" if steps else str(value.numerator)


def canonicalise(quantities: dict[str, object] | None) -> None:
    """Rewrite every quantity of a resource list in place in its canonical form."""
    for name, raw in (quantities or {}).items():
        (quantities or {})[name] = parse(raw).canonical()
