"""Names in claims: of the templates that a memory request is turned into, and of the devices that cards are.

The admission policy writes such a name into the pod and the extender makes the template that it names: the
name alone says what is asked for. ``gcu-memory-5`` is five units of one card, ``gcu-memory-5-cards-2`` five units of
each of two cards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gcushare.core.units import MemoryUnit

MAX_UNITS = 10**9
"""More than any card has in any unit (a card of 192 GiB is 196,608 MiB): a larger number is a mistake or an attack."""
MAX_CARDS = 32
"""Results that one claim may have, by Kubernetes' own limit."""

_DEVICE_PREFIX = "card-"
_SIZE = re.compile(r"-([1-9][0-9]{0,9})(?:-cards-([1-9][0-9]?))?")


@dataclass(frozen=True, slots=True)
class ClaimSize:
    """What a claim asks for: ``units`` of each of ``cards`` different cards."""

    units: int
    cards: int = 1

    def template_name(self, prefix: str) -> str:
        """The name of the template for this size; ``prefix`` is the vendor's."""
        name = f"{prefix}-{self.units}"
        return name if self.cards == 1 else f"{name}-cards-{self.cards}"


def parse_template_name(name: str, prefix: str) -> ClaimSize | None:
    """Read a template's name; None if it is not one of ours, or if its numbers are out of bounds."""
    if not name.startswith(prefix):
        return None
    match = _SIZE.fullmatch(name, len(prefix))
    if match is None:
        return None
    size = ClaimSize(int(match[1]), int(match[2] or 1))
    is_canonical = size.template_name(prefix) == name
    return size if is_canonical and size.units <= MAX_UNITS and size.cards <= MAX_CARDS else None


def unit_bytes(unit: MemoryUnit) -> int:
    """The bytes that one unit is in slices and claims: a whole number, so that a claim's amount is a multiple of it.

    ``units * unit_bytes(unit)``, not ``unit.bytes_of(units)``, is what a claim asks for: a GB has no whole thousandth,
    and the scheduler would round the latter up to another unit.
    """
    return unit.bytes_of(1)


def claimed_units(memory_bytes: int, unit: MemoryUnit) -> int:
    """The units that a claim of so many bytes takes, rounded up as the scheduler rounds them."""
    return -(-memory_bytes // unit_bytes(unit))


def device_name(index: int) -> str:
    """The name of a card's device in the slices."""
    return f"{_DEVICE_PREFIX}{index}"


def parse_device_name(name: str) -> int | None:
    """Read a card's index from a device's name; None if the device is not one of ours."""
    digits = name.removeprefix(_DEVICE_PREFIX)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 6:
        return None
    return int(digits) if device_name(int(digits)) == name else None
