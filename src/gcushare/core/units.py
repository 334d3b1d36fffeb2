"""Memory units: the quantum in which a card's memory is granted.

Every unit divides a GiB (2**30 bytes) into a whole number of parts, so bytes and units convert without floating
point. The manual's "GB" is 2**30 bytes as far as its tables show (a 16 GB card counts 16 units).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gcushare.core.errors import ConfigError

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class MemoryUnit:
    """One quantum of card memory.

    ``name`` is the value on the command line and in the inventory, ``per_gib`` the number of units in 2**30 bytes,
    ``label`` the text in a table's heading.
    """

    name: str
    per_gib: int
    label: str

    def units_in(self, memory_bytes: int) -> int:
        """Whole units that fit into ``memory_bytes``; ``remainder_bytes`` is the rest."""
        return memory_bytes * self.per_gib // GIB

    def bytes_of(self, units: int) -> int:
        """The bytes in ``units``, rounded down to a whole byte."""
        return units * GIB // self.per_gib

    def remainder_bytes(self, memory_bytes: int) -> int:
        """Bytes of a card that are in no unit: the loss from rounding."""
        return memory_bytes - self.bytes_of(self.units_in(memory_bytes))

    def units_covering(self, memory_bytes: int) -> int:
        """The fewest units that hold ``memory_bytes``. Use it for the driver's reserve, which must not be too small."""
        return -(-memory_bytes * self.per_gib // GIB)


MEMORY_UNITS: tuple[MemoryUnit, ...] = (
    MemoryUnit("GiB", 1, "GiB"),
    MemoryUnit("MiB", 1024, "MiB"),
    MemoryUnit("1", 1, "GB"),
    MemoryUnit("0.1", 10, "0.1GB"),
    MemoryUnit("0.01", 100, "0.01GB"),
    MemoryUnit("0.001", 1000, "0.001GB"),
)
"""Every unit a node may use: Aliyun's two names and the four numbers of the Enflame manual, chapter 4.2."""

_BY_NAME = {unit.name: unit for unit in MEMORY_UNITS}
MEMORY_UNIT_NAMES: tuple[str, ...] = tuple(_BY_NAME)


def parse_memory_unit(name: str) -> MemoryUnit:
    """Find a unit by its exact name.

    Raises:
        ConfigError: the name is unknown; the message lists the known ones.
    """
    unit = _BY_NAME.get(name)
    if unit is None:
        raise ConfigError(f"memory unit {name!r} is not known; accepted: {', '.join(MEMORY_UNIT_NAMES)}")
    return unit


def finest_unit(
    memory_bytes: Sequence[int], names: Sequence[str], fits: Callable[[Sequence[int]], bool]
) -> MemoryUnit | None:
    """Choose the finest of ``names`` whose units per card satisfy ``fits``; None if not even the coarsest does."""
    for unit in sorted((_BY_NAME[name] for name in names), key=lambda unit: -unit.per_gib):
        if fits([unit.units_in(size) for size in memory_bytes]):
            return unit
    return None


def choose_counted(nodes: Mapping[int, int], own: int, *, is_given: bool) -> int | None:
    """Choose what pods count in: units per GiB; None while all nodes have one unit, which is then the pods'.

    ``nodes``: how many nodes have each. ``own``: an admin's, if ``is_given``, else the vendor's. Where no node has the
    vendor's, it is that of most nodes: one node cannot close the others.
    """
    units = [unit for unit, count in nodes.items() if count]
    if is_given or (len(units) > 1 and own in units):
        return own
    return max(units, key=lambda unit: (nodes[unit], -unit)) if len(units) > 1 else None
