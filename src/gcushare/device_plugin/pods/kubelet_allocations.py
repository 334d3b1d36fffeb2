"""The kubelet's allocations: which pod holds which ids, by podresources or by the kubelet's checkpoint. Pure.

Records on pods are corrected by them. Ids of other plugins' layouts are listed apart and never count as cards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gcushare.device_plugin.pods.pod import PodEntry
from gcushare.node.pods import CardCounts
from gcushare.wire.kubelet.device_ids import decode_whole_card_id, is_whole_card_id
from gcushare.wire.kubelet.device_lists import DeviceIds

CHECKPOINT = "checkpoint"
"""The ``source`` of allocations that were read from the checkpoint."""
ContainerKey = tuple[str, str, bool]
"""A container that holds ids: its pod's key, its name, and whether it holds whole cards."""
Holdings = dict[str, Mapping[str, CardCounts]]
"""A pod's key -> container name -> units per card, or 1 per whole card."""


@dataclass(frozen=True, slots=True)
class ForeignHolding:
    """A container that holds ids of another layout: it was started under another plugin."""

    pod: str
    container: str
    ids: int
    example: str


@dataclass(slots=True)
class KubeletAllocations:
    """Memory and whole cards by pod: its uid, or ``namespace/name`` if the source is podresources; and foreign ids."""

    source: str = ""
    memory: Holdings = field(default_factory=dict)
    whole: Holdings = field(default_factory=dict)
    foreign: list[ForeignHolding] = field(default_factory=list)
    completed: set[str] = field(default_factory=set)
    """The uids of pods whose ids are all shown. A checkpoint shows all ids of every pod."""
    _held: dict[str, list[DeviceIds]] = field(default_factory=dict)

    def add(self, pod: str, container: str, ids: DeviceIds) -> None:
        """Count one container's units of memory."""
        if ids.foreign:
            self.foreign.append(ForeignHolding(pod, container, len(ids.foreign), ids.foreign[0]))
        counts = ids.count_by_card()
        if counts:
            self.memory[pod] = {**self.memory.get(pod, {}), container: counts}
            self._held.setdefault(pod, []).append(ids)

    def add_whole(self, pod: str, container: str, ids: Sequence[str]) -> None:
        """Count one container's whole cards."""
        foreign = [device_id for device_id in ids if not is_whole_card_id(device_id)]
        if foreign:
            self.foreign.append(ForeignHolding(pod, container, len(foreign), foreign[0]))
        cards = {decode_whole_card_id(device_id): 1 for device_id in ids if is_whole_card_id(device_id)}
        if cards:
            self.whole[pod] = {**self.whole.get(pod, {}), container: cards}

    def add_missing(self, other: KubeletAllocations, pods: Iterable[str]) -> None:
        """Add what another source shows of these pods, if this one shows nothing of them."""
        here = self.pods
        for pod in pods:
            if pod not in here:
                self.memory |= {pod: other.memory[pod]} if pod in other.memory else {}
                self.whole |= {pod: other.whole[pod]} if pod in other.whole else {}
                self._held |= {pod: other._held[pod]} if pod in other._held else {}

    def add_hidden(self, checkpoint: KubeletAllocations, pods: Iterable[str]) -> None:
        """Add the ids of memory that a checkpoint names of these pods: podresources hides those of init containers.

        Of a pod that the checkpoint does not name, ids may stay hidden: it knows static pods by another uid.
        """
        for pod in pods:
            if pod in checkpoint._held:
                self._held[pod] = [*self._held.get(pod, ()), *checkpoint._held[pod]]
                self.completed.add(pod)

    def hides_ids_of(self, pod: str) -> bool:
        """Whether a pod may hold ids that are not shown here."""
        return self.source != CHECKPOINT and pod not in self.completed

    @property
    def whole_cards(self) -> frozenset[int]:
        """The cards that a pod holds whole."""
        return frozenset(
            index for containers in self.whole.values() for cards in containers.values() for index in cards
        )

    def held_ids(self, card_index: int) -> frozenset[str]:
        """The held ids of one card, as text. Not stored: a node may have hundreds of thousands."""
        return frozenset(
            entry[2:].decode()
            for of_pod in self._held.values()
            for ids in of_pod
            for entry in ids.of_card(card_index, len(ids))
        )

    @property
    def pods(self) -> frozenset[str]:
        """The keys of the pods that hold anything."""
        return frozenset(self.memory.keys() | self.whole.keys())

    def counts(self, key: ContainerKey) -> CardCounts:
        """What one of its containers holds."""
        pod, container, is_whole = key
        return self._of_kind(is_whole=is_whole)[pod][container]

    def held_by(self, entry: PodEntry, *, by_name: bool = True) -> dict[str, CardCounts]:
        """What a pod's asking containers hold; ``by_name`` False if its name may stand for an earlier pod."""
        kind = self._of_kind(is_whole=entry.is_whole)
        for key in entry.keys if by_name else entry.uids:
            if found := kind.get(key):
                return {c.name: found[c.name] for c in entry.request.containers if found.get(c.name)}
        return {}

    def cards(self, *, whole: bool, without: Collection[str]) -> frozenset[int]:
        """The cards whose memory a pod holds, or that it holds whole; ``without`` are pods to leave out."""
        return frozenset(
            index
            for key, containers in self._of_kind(is_whole=whole).items()
            if key not in without
            for counts in containers.values()
            for index in counts
        )

    def not_in(self, before: KubeletAllocations, names: Mapping[str, str]) -> list[ContainerKey]:
        """The containers that an earlier read did not show, sorted, each once.

        ``names`` are known pods' names by uid: one source names a pod by its uid, the other by its name.
        """
        known = {_by_name(key, names) for key in before._keys()}
        new: dict[ContainerKey, ContainerKey] = {}
        for key in sorted(self._keys()):
            name = _by_name(key, names)
            if name not in known:
                new.setdefault(name, key)
        return list(new.values())

    def _keys(self) -> Iterator[ContainerKey]:
        for is_whole, found in ((False, self.memory), (True, self.whole)):
            for pod, containers in found.items():
                for container in containers:
                    yield pod, container, is_whole

    def _of_kind(self, *, is_whole: bool) -> Holdings:
        return self.whole if is_whole else self.memory


def _by_name(key: ContainerKey, names: Mapping[str, str]) -> ContainerKey:
    return (names.get(key[0], key[0]), *key[1:])
