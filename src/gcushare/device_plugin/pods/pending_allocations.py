"""The answered Allocate calls that the kubelet's allocations do not show yet, with the likely pod of each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from gcushare.node.pods import CardCounts
from gcushare.wire.kubelet.device_lists import DeviceIds


@dataclass(frozen=True, slots=True)
class PendingAllocation:
    """One answered Allocate call and the container that it was probably for ("" if none is known)."""

    uid: str
    container: str
    counts: CardCounts
    made_at_s: float
    whole: bool = False
    ids: DeviceIds | None = None
    """The ids of units of memory; None for whole cards."""


class PendingAllocations:
    """The allocations that the kubelet does not show yet, oldest first.

    ``accepted`` are those whose time is up and that count as made all the same, until the kubelet is read again.
    """

    def __init__(self) -> None:
        self._open: list[PendingAllocation] = []
        self.accepted: list[PendingAllocation] = []

    def __iter__(self) -> Iterator[PendingAllocation]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, pending: PendingAllocation) -> None:
        """Add one that was just made."""
        self._open.append(pending)

    def confirm(self, counts: CardCounts, *, whole: bool, container: str, uids: Collection[str]) -> None:
        """Remove the allocation that the kubelet now shows for this container of a pod with one of these uids.

        If none of these counts was made for it, the oldest of these counts was.
        """
        equal = [each for each in self._open if each.whole == whole and each.counts == counts]
        exact = [each for each in equal if each.container == container and each.uid in uids]
        if equal:
            self._open.remove(min(exact or equal, key=lambda each: each.made_at_s))

    def on_kubelet_read(self, is_past: Callable[[PendingAllocation], bool]) -> None:
        """Remove the accepted ones, and those that the kubelet will never show because they are past."""
        self._open = [pending for pending in self._open if not is_past(pending)]
        self.accepted.clear()

    def end(self, made_before_s: float, *, is_accepted: Callable[[PendingAllocation], bool]) -> None:
        """End the allocations made before a time: each is accepted or dropped."""
        self.accepted += [each for each in self._open if each.made_at_s < made_before_s and is_accepted(each)]
        self._open = [each for each in self._open if each.made_at_s >= made_before_s]

    def cards(self, *, whole: bool) -> frozenset[int]:
        """The cards that were given out: their memory, or the whole card."""
        return frozenset(index for pending in self._open if pending.whole == whole for index in pending.counts)

    def ids(self) -> list[DeviceIds]:
        """The units of memory that were given out and that the kubelet has not shown, accepted ones included."""
        return [pending.ids for pending in (*self.accepted, *self._open) if pending.ids is not None]
