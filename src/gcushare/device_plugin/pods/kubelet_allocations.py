"""What the kubelet's record showed when it was read last. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from gcushare.device_plugin.pods.pod import CardCounts, PodEntry

Holdings = Mapping[str, Mapping[str, CardCounts]]
"""The kubelet's record: pod key -> container name -> units per card, or 1 per whole card."""
NO_HOLDINGS: Holdings = {}
ContainerKey = tuple[str, str, bool]
"""A container that is shown: its pod's key, its name, and whether what it holds are whole cards."""


@dataclass(frozen=True, slots=True)
class KubeletAllocations:
    """Memory and whole cards by pod: its uid, or ``namespace/name`` where the source has no uids."""

    memory: Holdings
    whole: Holdings

    @classmethod
    def of(cls, memory: Holdings, whole: Holdings) -> Self:
        """Keep what a record shows now, whatever becomes of the record."""
        return cls(*({pod: dict(containers) for pod, containers in kind.items()} for kind in (memory, whole)))

    @property
    def pods(self) -> frozenset[str]:
        """The keys of the pods that hold anything."""
        return frozenset(self.memory.keys() | self.whole.keys())

    def counts(self, key: ContainerKey) -> CardCounts:
        """What one of its containers holds."""
        pod, container, is_whole = key
        return self._of_kind(is_whole=is_whole)[pod][container]

    def held_by(self, entry: PodEntry, *, by_name: bool = True) -> dict[str, CardCounts]:
        """What a pod's asking containers hold; ``by_name`` False where its name may stand for another pod."""
        kind = self._of_kind(is_whole=entry.is_whole)
        found = kind.get(entry.ref.uid) or (kind.get(str(entry.ref)) if by_name else None) or {}
        asking = {container.name for container in entry.request.containers}
        return {name: dict(counts) for name, counts in found.items() if name in asking and counts}

    def cards(self, *, whole: bool, without: Collection[str]) -> frozenset[int]:
        """The cards whose memory, or whose whole device, somebody holds; ``without`` what these pods hold."""
        return frozenset(
            index
            for key, containers in self._of_kind(is_whole=whole).items()
            if key not in without
            for counts in containers.values()
            for index in counts
        )

    def not_in(self, before: KubeletAllocations, names: Mapping[str, str]) -> list[ContainerKey]:
        """The containers that an earlier record did not show, sorted, each once.

        ``names`` by uid of the pods that are known: one source names a pod by its uid, the other by its name.
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


NOTHING_SHOWN = KubeletAllocations(NO_HOLDINGS, NO_HOLDINGS)
