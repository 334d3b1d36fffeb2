"""The pods of this node, what their records say, and what the kubelet really gave them.

Pure state with one owner. Calls of the kubelet name no pod, so what ``note_allocated`` writes is a guess until
``reconcile`` brings the kubelet's own record (podresources, or its checkpoint), which always wins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from gcushare.core.errors import GcushareError
from gcushare.core.matching import Candidate
from gcushare.core.nodes import PodRef
from gcushare.core.requests import ContainerKind, PodRequest, split_over_cards
from gcushare.vendors import Vendor
from gcushare.wire.keys import CARD_UUID, CORRECTED
from gcushare.wire.objects import Pod
from gcushare.wire.pods import is_finished, pod_record, pod_ref, pod_request
from gcushare.wire.records import PodRecord, encode_record

CardCounts = Mapping[int, int]
"""Units (ids) per card index."""

Holdings = Mapping[str, Mapping[str, CardCounts]]
"""The kubelet's record: pod key -> container name -> units per card."""


@dataclass(slots=True)
class PodEntry:
    """One bound, unfinished pod of this node that asks for cards."""

    ref: PodRef
    request: PodRequest
    record: PodRecord | None
    annotations: Mapping[str, str]
    promise: tuple[int, ...] = ()
    """The cards that are kept for it: its record's, or those of a pod of its kind that was given its own."""
    written: tuple[int, ...] = ()
    """The cards that were last written into its record from here: their echo is no news."""
    held: dict[str, CardCounts] = field(default_factory=dict)
    guessed: set[str] = field(default_factory=set)

    def take_record(self, record: PodRecord | None, annotations: Mapping[str, str]) -> None:
        """Take the record's newest state in; cards that somebody else wrote into it are kept from now on."""
        cards = record.card_indexes if record is not None else ()
        if cards != (self.record.card_indexes if self.record is not None else ()) and cards != self.written:
            self.promise = cards
        self.record, self.annotations = record, annotations

    @property
    def served(self) -> int:
        """How many of its asking containers were served, in the kubelet's order.

        One that holds ids proves that all before it were: podresources never shows ordinary init containers.
        """
        positions = [at for at, container in enumerate(self.request.containers, start=1) if container.name in self.held]
        return max(positions, default=0)

    @property
    def is_complete(self) -> bool:
        """Whether every asking container was served, confirmed by the kubelet."""
        return self.served == len(self.request.containers) and not self.guessed

    def is_init(self, name: str) -> bool:
        """Whether a container is an ordinary init container."""
        return any(c.name == name and c.kind is ContainerKind.INIT for c in self.request.containers)

    @property
    def held_cards(self) -> tuple[int, ...]:
        return tuple(sorted({index for counts in self.held.values() for index in counts}))

    def as_candidate(self, *, is_unsettled: bool = False) -> Candidate:
        """The pod as matching sees it; a pod half served is bound to the card that it already holds."""
        cards = self.held_cards or self.promise
        assume_time = self.record.assign_time_ns if self.record else 0
        return Candidate(self.ref, self.request, cards, assume_time, self.served, is_unsettled)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWrite:
    """Annotations to write on one pod. ``corrected_from`` are the cards that the record named wrongly, else empty."""

    pod: PodRef
    annotations: Mapping[str, str]
    cards: tuple[int, ...]
    assigned: bool
    """False for a pod that still waits and whose cards were exchanged for another pod's."""
    corrected_from: tuple[int, ...] = ()
    placed_here: bool = False
    """The pod had no record at all: it was placed by this plugin."""


@dataclass(frozen=True, slots=True)
class UnreadablePod:
    """A pod whose request or record cannot be read, and why."""

    pod: PodRef
    reason: str


@dataclass(frozen=True, slots=True)
class _Guess:
    """One Allocate, and for whom it probably was."""

    uid: str
    container: str
    counts: CardCounts
    made_at_s: float


class PodBook:
    """The pods bound to this node, by uid. A pod of the same name with another uid is another pod."""

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor
        self._entries: dict[str, PodEntry] = {}
        self._unreadable: dict[str, UnreadablePod] = {}
        self._guesses: list[_Guess] = []
        self._shown: set[tuple[str, str]] = set()

    @property
    def entries(self) -> Mapping[str, PodEntry]:
        return self._entries

    @property
    def unreadable(self) -> tuple[UnreadablePod, ...]:
        return tuple(self._unreadable.values())

    def apply(self, pod: Pod) -> bool:
        """Take a pod's new state in; True where it is new here, or has ended, so that the kubelet should be asked."""
        ref = pod_ref(pod)
        if not pod.is_bound or is_finished(pod):
            return self.forget(ref.uid)
        self._unreadable.pop(ref.uid, None)
        try:
            request = pod_request(pod, self._vendor)
            record = pod_record(pod, self._vendor)
        except GcushareError as error:
            self._unreadable[ref.uid] = UnreadablePod(ref, str(error))
            return self.forget(ref.uid)
        if request is None:
            return self.forget(ref.uid)
        entry = self._entries.get(ref.uid)
        is_new = entry is None
        if entry is None:
            entry = self._entries[ref.uid] = PodEntry(ref, request, None, {})
        entry.take_record(record, pod.metadata.annotations)
        return is_new

    def forget(self, uid: str) -> bool:
        """Drop a pod that is gone or finished; False where it was not here."""
        return self._entries.pop(uid, None) is not None

    def retain(self, uids: Collection[str]) -> None:
        """Forget every pod but these: a full list has ended."""
        for uid in [uid for uid in self._entries if uid not in uids]:
            self.forget(uid)
        for uid in [uid for uid in self._unreadable if uid not in uids]:
            del self._unreadable[uid]

    def candidates(self) -> list[Candidate]:
        """The pods that a call of the kubelet can mean: those with containers that hold no ids yet."""
        unsettled = self._unsettled()
        return [
            entry.as_candidate(is_unsettled=entry.ref.uid in unsettled)
            for entry in self._entries.values()
            if entry.served < len(entry.request.containers)
        ]

    def promised(self) -> dict[int, int]:
        """Units per card that are kept for waiting pods and that the kubelet has not handed out yet."""
        unsettled = self._unsettled()
        promised: dict[int, int] = {}
        for entry in self._entries.values():
            if entry.promise and not entry.held and entry.ref.uid not in unsettled:
                for index, units in split_over_cards(entry.request.total_units, entry.promise).items():
                    promised[index] = promised.get(index, 0) + units
        return promised

    def _unsettled(self) -> frozenset[str]:
        """Waiting pods whose cards were handed out in the name of a pod that turned out to hold others.

        Who really has them is known as soon as the kubelet's record shows that allocation; until then these pods must
        not be served from what is kept for others on the same card. One pod per allocation, the youngest first.
        """
        loose = [guess.counts for guess in self._guesses if not self._is_placed(guess)]
        found: list[str] = []
        if loose:
            for entry in sorted(
                (e for e in self._entries.values() if e.promise and not e.held), key=_age, reverse=True
            ):
                share = split_over_cards(entry.request.containers[0].units, entry.promise)
                if share in loose:
                    loose.remove(share)
                    found.append(entry.ref.uid)
        return frozenset(found)

    def _is_placed(self, guess: _Guess) -> bool:
        entry = self._entries.get(guess.uid)
        return (
            entry is not None and guess.container in entry.guessed and entry.held.get(guess.container) is guess.counts
        )

    def note_allocated(self, uid: str, container: str, counts: CardCounts, now_s: float) -> None:
        """Remember a guess: these units were handed out, likely to this pod's container ("" where nobody is meant)."""
        self._guesses.append(_Guess(uid, container, dict(counts), now_s))
        self._place_guesses()

    @property
    def open_guesses(self) -> int:
        """Allocations that the kubelet's record has not shown yet."""
        return len(self._guesses)

    def reconcile(self, holdings: Holdings) -> None:
        """Take the kubelet's record, which is by pod uid, or ``namespace/name`` where it knows none.

        Every container that it shows for the first time settles one open guess of the same units and card: the one
        made for it, else one that was made for the wrong pod.
        """
        shown = {(key, name) for key, containers in holdings.items() for name in containers}
        for key, name in sorted(shown - self._shown):
            self._settle(key, name, holdings[key][name])
        self._shown = shown
        self._guesses = [guess for guess in self._guesses if not self._is_past(guess, holdings)]
        for entry in self._entries.values():
            found = holdings.get(entry.ref.uid) or holdings.get(str(entry.ref)) or {}
            asking = {container.name for container in entry.request.containers}
            entry.held = {name: dict(counts) for name, counts in found.items() if name in asking and counts}
            entry.guessed = set()
        self._place_guesses()
        self._inherit_promises()

    def _is_past(self, guess: _Guess, holdings: Holdings) -> bool:
        """Whether a guess for an ordinary init container has had its time: a later container of that pod is shown."""
        entry = self._entries.get(guess.uid)
        if entry is None or not entry.is_init(guess.container):
            return False
        return entry.ref.uid in holdings or str(entry.ref) in holdings

    def may_continue_another(self, units: int) -> bool:
        """Whether a call for ``units`` may be for a further container of a pod whose first one was guessed for another.

        Only the kubelet's record tells; until it has, the call could be answered from another pod's card, and the pod
        would be torn over two.
        """
        open_units = {sum(guess.counts.values()) for guess in self._guesses}
        return bool(open_units) and any(
            before.units in open_units and container.units == units and entry.served <= position
            for entry in self._entries.values()
            for position, (before, container) in enumerate(pairwise(entry.request.containers))
        )

    def end_guesses(self, made_before_s: float, *, believe: bool) -> None:
        """End guesses that the kubelet's record did not settle in time.

        ``believe`` them where the record cannot be read at all; where it can and does not show them, drop them: the
        pod was not admitted after all.
        """
        ended = [guess for guess in self._guesses if guess.made_at_s < made_before_s]
        self._guesses = [guess for guess in self._guesses if guess.made_at_s >= made_before_s]
        for guess in ended:
            entry = self._entries.get(guess.uid)
            if entry is not None and guess.container in entry.guessed:
                entry.guessed.discard(guess.container)
                # podresources never shows an ordinary init container, so its absence there says nothing.
                if not believe and not entry.is_init(guess.container):
                    del entry.held[guess.container]

    def _settle(self, key: str, container: str, counts: CardCounts) -> None:
        def rank(guess: _Guess) -> tuple[bool, float]:
            entry = self._entries.get(guess.uid)
            is_exact = entry is not None and key in (guess.uid, str(entry.ref)) and guess.container == container
            return (not is_exact, guess.made_at_s)

        meant = [guess for guess in self._guesses if guess.counts == counts]
        if meant:
            self._guesses.remove(min(meant, key=rank))

    def _inherit_promises(self) -> None:
        """Give the cards kept for a pod that got others to the pod whose cards it got.

        Pods of equal requests only ever change places, so all of them fit as they were planned.
        """
        waiting = sorted((e for e in self._entries.values() if e.promise and not e.held), key=_age)
        for moved in sorted((e for e in self._entries.values() if e.promise and e.is_complete), key=_age):
            if set(moved.promise) == set(moved.held_cards):
                continue
            for heir in waiting:
                if heir.request.cards == moved.request.cards and set(heir.promise) == set(moved.held_cards):
                    heir.promise, moved.promise = moved.promise, heir.promise
                    break

    def _place_guesses(self) -> None:
        for guess in self._guesses:
            entry = self._entries.get(guess.uid)
            if entry is not None and guess.container not in entry.held:
                entry.held[guess.container] = guess.counts
                entry.guessed.add(guess.container)

    def writes(self, uuids: Mapping[int, str], units: CardCounts, now_ns: int) -> list[RecordWrite]:
        """What the records must be told, by creation and uid.

        Pods served completely whose record does not say so, and waiting pods whose kept cards were exchanged.
        """
        due = [write for entry in self._entries.values() if (write := self._write_for(entry, uuids, units, now_ns))]
        return sorted(due, key=lambda write: (write.pod.created, write.pod.uid))

    def note_written(self, write: RecordWrite) -> None:
        """Remember what was just written, before its echo comes back by the watch."""
        entry = self._entries.get(write.pod.uid)
        if entry is not None:
            entry.written = write.cards

    def held_units(self) -> dict[int, int]:
        """Units per card that pods of this node hold, guesses included."""
        held: dict[int, int] = {}
        for entry in self._entries.values():
            for index, units in peak_per_card(entry).items():
                held[index] = held.get(index, 0) + units
        return held

    def _write_for(
        self, entry: PodEntry, uuids: Mapping[int, str], units: CardCounts, now_ns: int
    ) -> RecordWrite | None:
        record = entry.record
        recorded = record.card_indexes if record is not None else ()
        is_served = entry.is_complete
        cards = entry.held_cards if is_served else entry.promise
        moved = bool(recorded) and set(recorded) != set(cards)
        if not cards or not (moved or (is_served and (record is None or not record.assigned))):
            return None
        truth = replace(
            record or PodRecord(card_indexes=cards, card_units=0, pod_units=0, assign_time_ns=now_ns),
            card_indexes=cards,
            card_units=units.get(cards[0], 0),
            pod_units=entry.request.total_units,
            assigned=is_served,
            whole=entry.request.cards.whole,
        )
        annotations = encode_record(self._vendor, truth)
        annotations[CARD_UUID] = ",".join(uuids.get(index, "") for index in cards)
        if moved:
            annotations[CORRECTED] = f"{_names(recorded)}->{_names(cards)}"
        return RecordWrite(
            pod=entry.ref,
            annotations=annotations,
            cards=cards,
            assigned=is_served,
            corrected_from=recorded if moved else (),
            placed_here=not recorded,
        )


def _age(entry: PodEntry) -> tuple[int, str, str]:
    return (entry.record.assign_time_ns if entry.record is not None else 0, entry.ref.created, entry.ref.uid)


def peak_per_card(entry: PodEntry) -> dict[int, int]:
    """Units per card that a pod holds: its containers' ids overlap where init containers' are used again."""
    cards = entry.held_cards
    if len(cards) == 1 and entry.served == len(entry.request.containers):
        return {cards[0]: entry.request.total_units}
    sums: dict[int, int] = {}
    for counts in entry.held.values():
        for index, units in counts.items():
            sums[index] = sums.get(index, 0) + units
    return sums


def _names(cards: Iterable[int]) -> str:
    return ",".join(str(index) for index in cards)
