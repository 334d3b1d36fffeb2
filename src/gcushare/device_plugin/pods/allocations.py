"""What the kubelet gave to which pod: the allocations that it shows, and those that it does not show yet. Pure.

It shows them by podresources or by its checkpoint. podresources leaves out ordinary init containers, and pods that a
kubelet which has just started did not admit yet: of those the checkpoint is read too. Ids of other plugins' layouts are
listed apart and never count as cards. An answered Allocate call is pending, with its likely pod, until it is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from gcushare.core.requests import PodRequest
from gcushare.device_plugin.pods.pod import PodEntry
from gcushare.node.pods import CardCounts
from gcushare.wire.kubelet.device_ids import decode_whole_card_id, is_whole_card_id
from gcushare.wire.kubelet.plugin_messages import NO_IDS, DeviceIds, device_ids

CHECKPOINT = "checkpoint"
"""The ``source`` of allocations that were read from the checkpoint."""
ANOTHER = " (another)"
"""Ends the key of what a second pod of one name holds."""


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


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What the kubelet stored with a container's ids: ``body`` is the ContainerAllocateResponse as it was given."""

    pod: str
    numbers: tuple[int, ...]
    body: bytes


@dataclass(slots=True)
class KubeletAllocations:
    """Memory and whole cards by pod: its uid, or ``namespace/name`` if the source is podresources; and foreign ids."""

    source: str = ""
    memory: Holdings = field(default_factory=dict)
    whole: Holdings = field(default_factory=dict)
    foreign: list[ForeignHolding] = field(default_factory=list)
    answers: list[StoredAnswer] = field(default_factory=list)
    """What the containers were given, in a checkpoint alone; those of ended pods may be among them."""
    _held: dict[str, list[DeviceIds]] = field(default_factory=dict)

    def add(self, pod: str, container: str, ids: DeviceIds, answer: bytes = b"") -> None:
        """Count one container's units of memory."""
        if ids.foreign:
            self.foreign.append(ForeignHolding(pod, container, len(ids.foreign), ids.foreign[0]))
        counts = ids.count_by_card()
        if counts:
            pod += ANOTHER * (container in self.memory.get(pod, {}))
            self.memory[pod] = {**self.memory.get(pod, {}), container: counts}
            self._held.setdefault(pod, []).append(ids)
            self.answers += [StoredAnswer(pod, tuple(sorted(counts)), answer)] if answer else []

    def add_whole(self, pod: str, container: str, ids: Sequence[str], answer: bytes = b"") -> None:
        """Count one container's whole cards."""
        foreign = [device_id for device_id in ids if not is_whole_card_id(device_id)]
        if foreign:
            self.foreign.append(ForeignHolding(pod, container, len(foreign), foreign[0]))
        cards = {decode_whole_card_id(device_id): 1 for device_id in ids if is_whole_card_id(device_id)}
        if cards:
            pod += ANOTHER * (container in self.whole.get(pod, {}))
            self.whole[pod] = {**self.whole.get(pod, {}), container: cards}
            self.answers += [StoredAnswer(pod, tuple(sorted(cards)), answer)] if answer else []

    def set_apart(self, pod: str, request: PodRequest) -> None:
        """Show as another pod's what is shown under a pod's name and is not what it asks for.

        podresources gives a static pod without a namespace the name of its mirror. Anyone may delete that, and create a
        pod of its name.
        """
        amounts = {each.name: each.amount for each in request.containers}
        for is_whole in (False, True):
            kind, is_asked = self._of_kind(is_whole=is_whole), is_whole == request.cards.whole
            for container, counts in [each for key in (pod, pod + ANOTHER) for each in kind.pop(key, {}).items()]:
                is_own = is_asked and amounts.get(container) == sum(counts.values())
                key = pod if is_own and container not in kind.get(pod, {}) else pod + ANOTHER
                kind[key] = {**kind.get(key, {}), container: counts}
        if pod + ANOTHER in self.memory:
            self._held[pod + ANOTHER] = [*self._held.pop(pod, ()), *self._held.get(pod + ANOTHER, ())]

    def add_missing(self, other: KubeletAllocations, pods: Iterable[str]) -> None:
        """Add what another source shows under these keys, if this one shows nothing under them.

        podresources names pods by their names, and a checkpoint by their uids.
        """
        here = self.pods
        for pod in pods:
            if pod not in here:
                self.memory |= {pod: other.memory[pod]} if pod in other.memory else {}
                self.whole |= {pod: other.whole[pod]} if pod in other.whole else {}
                self._held |= {pod: other._held[pod]} if pod in other._held else {}

    def find_holder(self, ids: DeviceIds) -> tuple[str, CardCounts] | None:
        """Find the pod whose containers hold these ids of memory: its key, and its units by card, each id once.

        Init containers' ids are given to later containers again. None if no pod is shown with all of them.
        """
        wanted = frozenset(ids.text())
        for pod, held in self._held.items():
            if wanted and wanted <= (all_ids := frozenset(chain.from_iterable(each.text() for each in held))):
                return pod, device_ids(sorted(all_ids)).count_by_card()
        return None

    def held_ids(self, card_index: int, *, without: Collection[str] = ()) -> frozenset[str]:
        """The held ids of one card, as text, but for those of pods ``without``. Not stored: there may be very many."""
        return ids_of_card(
            card_index, chain.from_iterable(ids for pod, ids in self._held.items() if pod not in without)
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
        """What a pod's asking containers hold; ``by_name`` False if its name may stand for an earlier pod.

        A checkpoint may lack the last container: the kubelet writes it after podresources shows what was given out.
        """
        kind, found = self._of_kind(is_whole=entry.is_whole), dict[str, CardCounts]()
        for key in reversed(entry.keys if by_name else entry.keys[:1]):
            found |= kind.get(key, {})
        return {c.name: found[c.name] for c in entry.request.containers if found.get(c.name)}

    def cards(self, *, whole: bool, without: Collection[str]) -> frozenset[int]:
        """The cards whose memory a pod holds, or that it holds whole; ``without`` are pods to leave out."""
        return frozenset(
            index
            for key, containers in self._of_kind(is_whole=whole).items()
            if key not in without
            for counts in containers.values()
            for index in counts
        )

    def cards_of_pods(self) -> dict[tuple[str, bool], frozenset[int]]:
        """The cards of each pod by its key, and whether it holds them whole."""
        kinds = ((False, self.memory), (True, self.whole))
        return {(pod, whole): frozenset(chain(*held.values())) for whole, kind in kinds for pod, held in kind.items()}

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


_ENTRY_HEAD_BYTES = 2
"""Tag and length, before the id."""


def ids_of_card(card_index: int, granted: Iterable[DeviceIds]) -> frozenset[str]:
    """Those of some ids of memory that are of one card, as text."""
    entries = chain.from_iterable(ids.of_card(card_index, len(ids)) for ids in granted)
    return frozenset(entry[_ENTRY_HEAD_BYTES:].decode() for entry in entries)


def _by_name(key: ContainerKey, names: Mapping[str, str]) -> ContainerKey:
    return (names.get(key[0], key[0]), *key[1:])


@dataclass(frozen=True, slots=True)
class PendingAllocation:
    """One answered Allocate call and the container that it was probably for ("" if none is known)."""

    uid: str
    container: str
    counts: CardCounts
    made_at_s: float
    whole: bool = False
    ids: DeviceIds = NO_IDS


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

    def disown(self, uids: Collection[str]) -> None:
        """Count what was stored for these pods as of unknown ones."""
        self._open = [replace(each, uid="", container="") if each.uid in uids else each for each in self._open]

    def names(self, counts: CardCounts, whole: bool, container: str, uids: Collection[str]) -> bool:
        """Whether one of these counts was made for this container of a pod with one of these uids."""
        made = (each for each in self._open if (each.whole, each.container) == (whole, container))
        return any(each.counts == counts and each.uid in uids for each in made)

    def confirm(self, counts: CardCounts, whole: bool, container: str, uids: Collection[str]) -> None:
        """Remove the allocation that the kubelet now shows for this container of a pod with one of these uids.

        If none of these counts was made for it, the oldest of these counts was, first of all one for a container of its
        name.
        """
        equal = [each for each in self._open if each.whole == whole and each.counts == counts]
        of_name = [each for each in equal if each.container == container]
        exact = [each for each in of_name if each.uid in uids]
        if equal:
            self._open.remove(min(exact or of_name or equal, key=lambda each: each.made_at_s))

    def end(self, made_before_s: float, *, is_accepted: bool) -> None:
        """End the allocations made before a time: accept them, or drop them."""
        self.accepted += [each for each in self._open if each.made_at_s < made_before_s and is_accepted]
        self._open = [each for each in self._open if each.made_at_s >= made_before_s]

    def cards(self, *, whole: bool) -> frozenset[int]:
        """The cards that were given out: their memory, or the whole card."""
        return frozenset(index for pending in self._open if pending.whole == whole for index in pending.counts)

    def units(self) -> Counter[int]:
        """Units of memory per card that were given out and that the kubelet has not shown."""
        found: Counter[int] = Counter()
        for pending in self._open:
            found.update({} if pending.whole else pending.counts)
        return found

    def ids(self) -> list[DeviceIds]:
        """The units of memory that were given out and that the kubelet has not shown, accepted ones included."""
        return [pending.ids for pending in (*self.accepted, *self._open) if not pending.whole]
