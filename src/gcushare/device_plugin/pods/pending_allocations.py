"""What was handed out since the kubelet's record was read last, and for whom it probably was. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gcushare.device_plugin.pods.pod import CardCounts
from gcushare.wire.kubelet.device_lists import DeviceIds


@dataclass(frozen=True, slots=True)
class PendingAllocation:
    """One Allocate, and for whom it probably was."""

    uid: str
    container: str
    counts: CardCounts
    made_at_s: float
    whole: bool = False
    ids: DeviceIds | None = None
    """The units of memory themselves, where they are known."""


class PendingAllocations:
    """The allocations that nothing has confirmed yet, oldest first."""

    def __init__(self) -> None:
        self._open: list[PendingAllocation] = []
        self._believed: list[DeviceIds] = []

    def __iter__(self) -> Iterator[PendingAllocation]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, pending: PendingAllocation) -> None:
        """Remember one."""
        self._open.append(pending)

    def confirm(self, counts: CardCounts, *, whole: bool, is_exact: Callable[[PendingAllocation], bool]) -> None:
        """End the allocation that the record has answered by showing these: one that ``is_exact``, else the oldest."""
        meant = [pending for pending in self._open if pending.whole == whole and pending.counts == counts]
        if meant:
            self._open.remove(min(meant, key=lambda pending: (not is_exact(pending), pending.made_at_s)))

    def note_record(self, is_past: Callable[[PendingAllocation], bool]) -> None:
        """Take in that the kubelet's record was read: those that it will never show are over."""
        self._open = [pending for pending in self._open if not is_past(pending)]
        self._believed.clear()

    def end(self, made_before_s: float, *, believe: bool) -> list[PendingAllocation]:
        """End and return those made before; ``believe`` them where no record can be read."""
        ended = [pending for pending in self._open if pending.made_at_s < made_before_s]
        self._open = [pending for pending in self._open if pending.made_at_s >= made_before_s]
        if believe:
            self._believed += [pending.ids for pending in ended if pending.ids is not None]
        return ended

    def cards(self, *, whole: bool) -> frozenset[int]:
        """The cards of which memory, or which as a whole, were handed out."""
        return frozenset(index for pending in self._open if pending.whole == whole for index in pending.counts)

    def ids(self) -> list[DeviceIds]:
        """The units of memory that were handed out and that no record has shown, believed ones among them."""
        return [*self._believed, *(pending.ids for pending in self._open if pending.ids is not None)]
