"""Whether a node's memory unit may change: what pods hold are numbers, which mean other amounts afterwards."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gcushare.core.cards import Inventory
from gcushare.core.errors import Refused
from gcushare.core.units import parse_memory_unit
from gcushare.core.wording import some_names

MAX_NAMES = 10
"""Pods named in one message."""


@dataclass(frozen=True, slots=True)
class Holders:
    """The pods that hold units of memory; None where that is not known, and why."""

    pods: Collection[str] | None
    unknown: str = ""


def check_unit_change(before: str | None, now: str, holders: Holders) -> None:
    """Refuse another unit while pods hold units of the old one, and while nobody can say whether any do.

    Raises:
        Refused: names the pods, and what to do.
    """
    if before is None or _is_same(before, now):
        return
    change = f"the memory unit changes from {before!r} to {now!r} while"
    if holders.pods is None:
        raise Refused(
            f"{change} it is not known who holds units of the old one: {holders.unknown}; see to that, or set "
            f"--memory-unit {before}"
        )
    if holders.pods:
        names = some_names(sorted(holders.pods), MAX_NAMES)
        raise Refused(
            f"{change} pods hold units of the old one ({names}): delete these pods, or set --memory-unit {before}"
        )


class UnitDoubt:
    """The unit of a plugin before this one, where it became known only after a list in another unit was told.

    Nothing new may be given out then until it is known that nobody holds units of that one. None: there is no doubt.
    """

    def __init__(self) -> None:
        self.unit: str | None = None

    def begin(self, former: Inventory | None, offered: Inventory | None) -> bool:
        """Take in what the Node said of before when it was first seen; True where that is another unit than offered."""
        if former is None or offered is None or _is_same(former.unit.name, offered.unit.name):
            return False
        self.unit = former.unit.name
        return True

    def settle(self, offered: Inventory, holders: Holders) -> str:
        """Say why there is still a doubt; "" where there is none, or none any more."""
        try:
            check_unit_change(self.unit, offered.unit.name, holders)
        except Refused as refusal:
            return str(refusal)
        self.unit = None
        return ""


def _is_same(before: str, now: str) -> bool:
    return parse_memory_unit(before).per_gib == parse_memory_unit(now).per_gib
