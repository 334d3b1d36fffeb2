"""Holders of cards that no pod's record names, which the node's inventory publishes instead. Pure.

A pod may hold ids although the extender would refuse its request, or although the watch never showed it. A static pod
has no record: anyone may write a mirror. Of another pod the record may not be written, or somebody removes it. Such a
holder is published after a moment only: the watch may be about to show its pod, or the record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Closure, UnrecordedHolder
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.force_deleted import ForceDeletedPod
from gcushare.node.pods import CardCounts
from gcushare.wire.nodes import MAX_UNRECORDED

PATIENCE_S = 2.0
"""A holder that the watch does not show by then is published."""
OTHERS = "others"
"""The name of the holders that are too many to be named one by one."""


def make_holder(pod: str, memory: Iterable[CardCounts], whole: Iterable[Iterable[int]]) -> UnrecordedHolder:
    """Add up what one pod's containers hold, each container's units or whole cards by card index."""
    units: Counter[int] = Counter()
    for counts in memory:
        units.update(counts)
    return UnrecordedHolder(pod=pod, units=units, whole=tuple(sorted({index for cards in whole for index in cards})))


def find_unrecorded(
    shown: KubeletAllocations, known: Collection[str], names: Mapping[str, str]
) -> dict[str, UnrecordedHolder]:
    """Find the holders that the kubelet shows and that are not ``known``, by key; ``names`` are pods' names by uid."""
    return {
        key: make_holder(names.get(key, key), shown.memory.get(key, {}).values(), shown.whole.get(key, {}).values())
        for key in shown.pods.difference(known)
    }


@dataclass(slots=True)
class UnrecordedHolders:
    """The holders of one node that no pod's record names, by the kubelet's key, and since when each is one.

    ``unwritten`` are those of the pods that should have a record.
    """

    now: Mapping[str, UnrecordedHolder] = field(default_factory=dict)
    unwritten: Collection[UnrecordedHolder] = ()
    _since: dict[str, float] = field(default_factory=dict)

    def update(
        self, holders: Mapping[str, UnrecordedHolder], now_s: float, *, unwritten: Collection[UnrecordedHolder] = ()
    ) -> None:
        """Replace the holders by those of the newest read."""
        self.now, self.unwritten = holders, unwritten
        self._since = {each.pod: self._since.get(each.pod, now_s) for each in (*holders.values(), *unwritten)}

    def drop(self, keys: Collection[str]) -> None:
        """Remove holders that are known pods now, have ended, or have their record again."""
        if not self.now.keys().isdisjoint(keys):
            self.now = {key: holder for key, holder in self.now.items() if key not in keys}
        self.unwritten = [holder for holder in self.unwritten if holder.pod not in keys]

    def units(self, sizes: CardCounts) -> Counter[int]:
        """Units per card that they hold; ``sizes`` are the units of whole cards."""
        held: Counter[int] = Counter()
        for holder in self.now.values():
            held.update(holder.units)
            held.update({index: sizes.get(index, 0) for index in holder.whole})
        return held

    def holding_of(self, pod: str) -> tuple[dict[int, int], bool]:
        """The units of each card that a pod of this name holds, and whether it holds whole cards."""
        holder = next((each for each in self.now.values() if each.pod == pod), None)
        if holder is None:
            return {}, False
        return {**holder.units, **dict.fromkeys(holder.whole, 0)}, bool(holder.whole)

    def users_of(self, card_index: int, *, whole: bool) -> list[str]:
        """The names of the holders of a card, for messages."""
        return [h.pod for h in self.now.values() if card_index in (h.whole if whole else h.units)]

    def is_young(self, now_s: float) -> bool:
        """Whether some are not known for long enough to be published."""
        return any(now_s - since_s < PATIENCE_S for since_s in self._since.values())

    def lasting(self, now_s: float) -> tuple[UnrecordedHolder, ...]:
        """The holders to publish, by name; of too many, the last one stands for all the others."""
        by_pod: dict[str, list[UnrecordedHolder]] = {}
        for holder in (*self.now.values(), *self.unwritten):
            if now_s - self._since[holder.pod] >= PATIENCE_S:
                by_pod.setdefault(holder.pod, []).append(holder)
        found = [_add_up(pod, by_pod[pod]) for pod in sorted(by_pod)]
        named, rest = found[: MAX_UNRECORDED - 1], found[MAX_UNRECORDED - 1 :]
        return tuple(found) if len(rest) <= 1 else (*named, _add_up(OTHERS, rest))


def _add_up(pod: str, holders: Sequence[UnrecordedHolder]) -> UnrecordedHolder:
    """Make one holder of several."""
    return make_holder(pod, (holder.units for holder in holders), (holder.whole for holder in holders))


def closures_of(card_index: int, gone: Iterable[ForceDeletedPod], modes: Collection[str]) -> tuple[Closure, ...]:
    """Find what keeps a card closed: for each use the deleted pod whose containers may run longest."""
    last: dict[str, Closure] = {}
    for pod in gone:
        use = SERVES_MEMORY if pod.is_whole else SERVES_WHOLE
        if card_index in pod.cards and use in modes:
            closure = Closure(use=use, pod=str(pod.ref), until=pod.until_s)
            last[use] = max(last.get(use, closure), closure, key=_end)
    return tuple(sorted(last.values(), key=_end))


def _end(closure: Closure) -> tuple[bool, int, str, str]:
    """A sort key; an unknown end is the last."""
    return (not closure.until, closure.until, closure.pod, closure.use)
