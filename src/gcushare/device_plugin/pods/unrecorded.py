"""Who holds cards beside the pods whose records say so: what the kubelet gave out counts, whoever has it. Pure.

A pod may hold ids although its request is none that is granted, or although this plugin has never seen it. No record on
a pod names such a holder, so the node's inventory does, after a moment: the pod may be about to come by the watch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Closure, UnrecordedHolder
from gcushare.device_plugin.pods.force_deleted import ForceDeletedPod
from gcushare.device_plugin.pods.kubelet_allocations import KubeletAllocations
from gcushare.device_plugin.pods.pod import CardCounts, PodEntry
from gcushare.wire.annotations.inventory import MAX_UNRECORDED

PATIENCE_S = 2.0
"""A holder that is not known by then is no pod whose watch event is late."""
OTHERS = "others"
"""What holders are called that are too many to be named one by one."""


def make_holder(pod: str, memory: Iterable[CardCounts], whole: Iterable[CardCounts]) -> UnrecordedHolder:
    """Add up what one pod's containers hold, each container's units or whole cards by card index."""
    units: dict[int, int] = {}
    for counts in memory:
        for index, count in counts.items():
            units[index] = units.get(index, 0) + count
    return UnrecordedHolder(pod=pod, units=units, whole=tuple(sorted({index for cards in whole for index in cards})))


def find_unrecorded(
    shown: KubeletAllocations, known: Collection[str], names: Mapping[str, str]
) -> dict[str, UnrecordedHolder]:
    """The holders that are shown and are not ``known``, by the kubelet's key; ``names`` of pods by uid."""
    return {
        key: make_holder(names.get(key, key), shown.memory.get(key, {}).values(), shown.whole.get(key, {}).values())
        for key in shown.pods.difference(known)
    }


def mirrored_keys(entries: Iterable[PodEntry], shown: KubeletAllocations) -> set[str]:
    """The uids by which a checkpoint knows static pods, of whose cards their mirrors' records say as much as it does.

    Any author may write this annotation, so it is believed only where it hides nothing.
    """
    found: set[str] = set()
    for entry in entries:
        key = entry.machine_uid
        if key in shown.pods and entry.claims_cards:
            holder = make_holder(key, shown.memory.get(key, {}).values(), shown.whole.get(key, {}).values())
            is_whole = entry.is_whole and not holder.units
            is_memory = not entry.is_whole and not holder.whole
            named = entry.record.card_indexes if entry.record is not None else entry.promise
            is_all_named = {*holder.units, *holder.whole} <= set(named)
            if is_all_named and (is_whole or (is_memory and sum(holder.units.values()) <= entry.request.total_units)):
                found.add(key)
    return found


@dataclass(slots=True)
class UnrecordedHolders:
    """The holders that no pod's record names, by the kubelet's key, and since when each was seen."""

    now: Mapping[str, UnrecordedHolder] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)

    def update(self, holders: Mapping[str, UnrecordedHolder], now_s: float) -> None:
        """Take in who they are now."""
        self.now = holders
        self._since = {key: self._since.get(key, now_s) for key in holders}

    def drop(self, keys: Collection[str]) -> None:
        """Take in that some are known now, or have ended."""
        if not self.now.keys().isdisjoint(keys):
            self.now = {key: holder for key, holder in self.now.items() if key not in keys}

    def units(self, sizes: CardCounts) -> dict[int, int]:
        """Units per card that they hold; of a whole card all of its ``sizes``."""
        held: dict[int, int] = {}
        for holder in self.now.values():
            for index, units in (*holder.units.items(), *((index, sizes.get(index, 0)) for index in holder.whole)):
                held[index] = held.get(index, 0) + units
        return held

    def users_of(self, card_index: int, *, whole: bool) -> list[str]:
        """The names of those that hold a card, for messages."""
        return [h.pod for h in self.now.values() if card_index in (h.whole if whole else h.units)]

    def is_young(self, now_s: float) -> bool:
        """Whether some were not seen for long enough to be published."""
        return any(now_s - self._since[key] < PATIENCE_S for key in self.now)

    def lasting(self, now_s: float) -> tuple[UnrecordedHolder, ...]:
        """Those to publish, by name; the last of too many stand for all the others."""
        by_pod: dict[str, list[UnrecordedHolder]] = {}
        for key, holder in self.now.items():
            if now_s - self._since[key] >= PATIENCE_S:
                by_pod.setdefault(holder.pod, []).append(holder)
        found = [_add_up(pod, by_pod[pod]) for pod in sorted(by_pod)]
        named, rest = found[: MAX_UNRECORDED - 1], found[MAX_UNRECORDED - 1 :]
        return tuple(found) if len(rest) <= 1 else (*named, _add_up(OTHERS, rest))


def _add_up(pod: str, holders: Sequence[UnrecordedHolder]) -> UnrecordedHolder:
    """One holder with what all of these have."""
    whole = (dict.fromkeys(holder.whole, 1) for holder in holders)
    return make_holder(pod, (holder.units for holder in holders), whole)


def closures_of(card_index: int, gone: Iterable[ForceDeletedPod], modes: Collection[str]) -> tuple[Closure, ...]:
    """What keeps a card closed to one use: of the pods that are gone, for each use the one that ends last."""
    last: dict[str, Closure] = {}
    for pod in gone:
        use = SERVES_MEMORY if pod.is_whole else SERVES_WHOLE
        if card_index in pod.cards and use in modes:
            closure = Closure(use=use, pod=str(pod.ref), until=pod.until_s)
            last[use] = max(last.get(use, closure), closure, key=_end)
    return tuple(sorted(last.values(), key=_end))


def _end(closure: Closure) -> tuple[bool, int, str, str]:
    """A sort key: an end that is not known is the last."""
    return (not closure.until, closure.until, closure.pod, closure.use)
