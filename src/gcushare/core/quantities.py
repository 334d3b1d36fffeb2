"""Kubernetes quantities, parsed exactly: as fractions, or as counts of an extended resource. And the bounds of numbers.

Source of the grammar: the Kubernetes API's ``resource.Quantity``: a decimal number and a suffix, one of
``n u m (none) k M G T P E`` (powers of ten), ``Ki Mi Gi Ti Pi Ei`` (powers of two) or ``e``/``E`` and an exponent.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, TypeAlias

import msgspec

from gcushare.core.errors import RemoteContractError

MAX_INT = 2**63 - 1
"""The API server stores whole numbers, and quantities of extended resources, as int64."""
Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=MAX_INT)]
"""A whole number in a document that programs exchange: the type of a struct's field."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]
"""A number of things, or bytes, in such a document."""

_QUANTITY = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII)
_BINARY = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL = {
    suffix: Fraction(10) ** power
    for suffix, power in {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}.items()
}
_MAX_TEXT = 64
_PLAIN_DIGITS = 19
"""A number with fewer digits is below ``MAX_INT``."""


def parse_quantity(value: object) -> Fraction:
    """Read a quantity as an exact fraction.

    Raises:
        RemoteContractError: it is not a number, or not in the grammar.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, float):
        value = repr(value)
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) and len(value) <= _MAX_TEXT else None
    if match is None:
        raise RemoteContractError(f"quantity {_shown(value)} is not a number; use a whole number of units such as 4")
    sign, digits, binary, decimal, exponent = match.groups()
    number = Fraction(digits)
    if binary:
        number *= _BINARY[binary]
    elif decimal:
        number *= _DECIMAL[decimal]
    elif exponent:
        number *= Fraction(10) ** int(exponent)
    return -number if sign == "-" else number


def parse_count(value: object) -> int:
    """Read a quantity that must be a whole, non-negative number of units.

    Raises:
        RemoteContractError: malformed, negative, fractional or beyond int64.
    """
    if type(value) is str and len(value) < _PLAIN_DIGITS and value.isascii() and value.isdigit():
        return int(value)  # The fast path for nearly every pod: fractions cost ten times as much.
    number = parse_quantity(value)
    if number < 0:
        raise RemoteContractError(f"quantity {_shown(value)} is negative; use a whole number of units such as 4")
    if number.denominator != 1:
        raise RemoteContractError(f"quantity {_shown(value)} is not a whole number; use a whole number such as 4")
    if number > MAX_INT:
        raise RemoteContractError(f"quantity {_shown(value)} is too large; at most {MAX_INT} units are accepted")
    return int(number)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
