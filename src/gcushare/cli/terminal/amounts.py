"""Amounts for people: one unit for a whole table, whatever units the nodes use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from gcushare.core.units import MemoryUnit

UNKNOWN_UNIT = "units"
"""The heading if no node reports its unit, as with another system's plugin."""

_DECIMALS = 3
"""Digits after the point: exact for every decimal unit; MiB in a table of GiB are rounded."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The unit of a table. ``per_gib`` is None if no unit is known; amounts are then shown unconverted."""

    label: str
    per_gib: int | None

    def amount(self, units: int, unit: MemoryUnit | None) -> Fraction:
        """Convert ``units`` of a node that counts in ``unit``; an unknown unit counts as this one."""
        if unit is None or self.per_gib is None:
            return Fraction(units)
        return Fraction(units * self.per_gib, unit.per_gib)

    def is_native(self, unit: MemoryUnit | None) -> bool:
        """Whether a node counts in this very unit."""
        return (unit.per_gib if unit is not None else None) == self.per_gib


def choose_scale(units: Iterable[MemoryUnit | None]) -> Scale:
    """Choose the unit of a table: the nodes' own if they agree, else GB or GiB."""
    known = {unit for unit in units if unit is not None}
    if not known:
        return Scale(UNKNOWN_UNIT, None)
    if len({unit.per_gib for unit in known}) == 1:
        unit = min(known, key=lambda each: each.name)
        return Scale(unit.label, unit.per_gib)
    return Scale("GiB" if any(unit.label.endswith("iB") for unit in known) else "GB", 1)


def show_amount(amount: Fraction) -> str:
    """Write an amount without needless digits: ``16``, ``1.5``, ``0.333``."""
    if amount.denominator == 1:
        return str(amount.numerator)
    return f"{float(amount):.{_DECIMALS}f}".rstrip("0").rstrip(".")


def percent_of(part: Fraction | int, whole: Fraction | int) -> int:
    """Return whole percents, rounded down as in upstream gpushare's table; 0 if the whole is 0."""
    return int(part * 100 / whole) if whole else 0
