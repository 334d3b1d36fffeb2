"""The pods of this node, what their records say, and what the kubelet really gave them.

Pure state with one owner. Calls of the kubelet name no pod, so what ``note_allocated`` writes is a guess until
``reconcile`` brings the kubelet's own record (podresources, or its checkpoint), which always wins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from gcushare.core.errors import GcushareError
from gcushare.core.matching import Candidate
from gcushare.core.nodes import PodRef
from gcushare.core.requests import split_over_cards
from gcushare.device_plugin.pod_entry import NO_SIZES, CardCounts, PodEntry, age, bound_request, peak_per_card
from gcushare.vendors import Vendor
from gcushare.wire.keys import CARD_UUID, CORRECTED
from gcushare.wire.objects import Pod
from gcushare.wire.pods import is_finished, pod_record, pod_ref
from gcushare.wire.records import PodRecord, encode_record

Holdings = Mapping[str, Mapping[str, CardCounts]]
"""The kubelet's record: pod key -> container name -> units per card, or 1 per whole card."""
NO_HOLDINGS: Holdings = {}


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
    whole: bool = False


class PodBook:
    """The pods bound to this node, by uid. A pod of the same name with another uid is another pod."""

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor
        self._entries: dict[str, PodEntry] = {}
        self._unreadable: dict[str, UnreadablePod] = {}
        self._guesses: list[_Guess] = []
        self._shown: Mapping[tuple[str, str, bool], CardCounts] = {}
        self._was_read = False
        self._ended: set[str] = set()
        """Keys of pods that were seen to end: the kubelet's record may show their ids a while longer."""

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
            self._ended |= {ref.uid, str(ref)}
            return self.forget(ref.uid)
        self._ended -= {ref.uid, str(ref)}
        self._unreadable.pop(ref.uid, None)
        try:
            record = pod_record(pod, self._vendor)
            request = bound_request(pod, self._vendor, record)
        except GcushareError as error:
            # It is not over: what the kubelet gave it stays in use, whatever somebody wrote on it.
            self._unreadable[ref.uid] = UnreadablePod(ref, str(error))
            return self._entries.pop(ref.uid, None) is not None
        if request is None:
            return self._entries.pop(ref.uid, None) is not None
        entry = self._entries.get(ref.uid)
        is_new = entry is None
        if entry is None:
            entry = self._entries[ref.uid] = PodEntry(ref, request, None, {})
        entry.take_record(record, pod.metadata.annotations)
        return is_new

    def forget(self, uid: str) -> bool:
        """Drop a pod that is gone or finished; False where it was not here."""
        entry, unreadable = self._entries.pop(uid, None), self._unreadable.pop(uid, None)
        ref = entry.ref if entry is not None else unreadable.pod if unreadable is not None else None
        if ref is None:
            return False
        self._ended.add(uid)
        if all(str(other.ref) != str(ref) for other in self._entries.values()):
            self._ended.add(str(ref))
        return True

    def retain(self, uids: Collection[str]) -> None:
        """Forget every pod but these: a full list has ended."""
        for uid in [uid for uid in (*self._entries, *self._unreadable) if uid not in uids]:
            self.forget(uid)

    def candidates(self, *, whole: bool = False) -> list[Candidate]:
        """The pods that a call of the kubelet for memory, or for whole cards, can mean.

        Those are the pods with containers that hold no ids yet.
        """
        unsettled = self._unsettled()
        return [
            entry.as_candidate(is_unsettled=entry.ref.uid in unsettled)
            for entry in self._entries.values()
            if entry.is_whole == whole and entry.served < len(entry.request.containers)
        ]

    def promised(self) -> dict[int, int]:
        """Units per card that are kept for waiting pods and that the kubelet has not handed out yet."""
        unsettled = self._unsettled()
        promised: dict[int, int] = {}
        for entry in self._entries.values():
            if entry.promise and not (entry.held or entry.is_whole) and entry.ref.uid not in unsettled:
                for index, units in split_over_cards(entry.request.total_units, entry.promise).items():
                    promised[index] = promised.get(index, 0) + units
        return promised

    def promised_whole(self) -> dict[int, str]:
        """The cards that are kept whole for waiting pods, and the uid of the pod that each is kept for."""
        return {
            index: entry.ref.uid
            for entry in self._entries.values()
            if entry.is_whole and not entry.is_complete
            for index in set(entry.promise).difference(entry.held_cards)
        }

    def cards_in_use(self, *, whole: bool) -> frozenset[int]:
        """The cards whose memory, or whose whole device, has been handed out to somebody who has not ended.

        What the kubelet shows counts whether or not its pod is known here (a list may be older than the pod), and what
        was handed out and is not shown yet counts too. Where the kubelet's record was never read, the pods' own records
        that say so are believed.
        """
        shown = {
            index
            for (key, _, is_whole), counts in self._shown.items()
            if is_whole == whole and key not in self._ended
            for index in counts
        }
        guessed = {index for guess in self._guesses if guess.whole == whole for index in guess.counts}
        taken = {index for entry in self._entries.values() if entry.is_whole == whole for index in entry.taken_cards}
        if not self._was_read:
            taken |= {i for e in self._entries.values() if e.is_whole == whole and _is_assigned(e) for i in e.promise}
        return frozenset(shown | guessed | taken)

    def users_of(self, card_index: int, *, whole: bool) -> list[str]:
        """The pods known here that have a card, for messages."""
        return sorted(
            str(entry.ref)
            for entry in self._entries.values()
            if entry.is_whole == whole
            and card_index in (entry.taken_cards or (entry.promise if _is_assigned(entry) else ()))
        )

    def _unsettled(self) -> frozenset[str]:
        """Waiting pods whose cards were handed out in the name of a pod that turned out to hold others.

        Who really has them is known as soon as the kubelet's record shows that allocation; until then these pods must
        not be served from what is kept for others on the same card. One pod per allocation, the youngest first.
        """
        loose = [(guess.whole, guess.counts) for guess in self._guesses if not self._is_placed(guess)]
        found: list[str] = []
        if loose:
            for entry in sorted((e for e in self._entries.values() if e.promise and not e.held), key=age, reverse=True):
                share = (entry.is_whole, entry.first_share)
                if share in loose:
                    loose.remove(share)
                    found.append(entry.ref.uid)
        return frozenset(found)

    def _is_placed(self, guess: _Guess) -> bool:
        entry = self._entries.get(guess.uid)
        return (
            entry is not None and guess.container in entry.guessed and entry.held.get(guess.container) is guess.counts
        )

    def note_allocated(
        self, uid: str, container: str, counts: CardCounts, now_s: float, *, whole: bool = False
    ) -> None:
        """Remember a guess: these were handed out, likely to this pod's container ("" where nobody is meant)."""
        self._guesses.append(_Guess(uid, container, dict(counts), now_s, whole))
        self._place_guesses()

    @property
    def open_guesses(self) -> int:
        """Allocations that the kubelet's record has not shown yet."""
        return len(self._guesses)

    def reconcile(self, holdings: Holdings, whole: Holdings = NO_HOLDINGS) -> None:
        """Take the kubelet's record of memory and of whole cards, by pod uid, or ``namespace/name`` without one.

        Every container that it shows for the first time settles one open guess of the same units and card: the one
        made for it, else one that was made for the wrong pod.
        """
        self._was_read = True
        shown = {
            (key, name, is_whole): counts
            for is_whole, found in ((False, holdings), (True, whole))
            for key, containers in found.items()
            for name, counts in containers.items()
        }
        for key, name, is_whole in sorted(shown.keys() - self._shown.keys()):
            self._settle(key, name, shown[key, name, is_whole], is_whole)
        self._shown = shown
        self._ended &= {key for key, _, _ in shown}
        self._guesses = [guess for guess in self._guesses if not self._is_past(guess, holdings.keys() | whole.keys())]
        for entry in self._entries.values():
            kind = whole if entry.is_whole else holdings
            found = kind.get(entry.ref.uid) or kind.get(str(entry.ref)) or {}
            asking = {container.name for container in entry.request.containers}
            entry.held = {name: dict(counts) for name, counts in found.items() if name in asking and counts}
            entry.guessed = set()
        self._place_guesses()
        self._inherit_promises()

    def missing_from(self, shown: frozenset[str]) -> list[str]:
        """The uids of pods that have their cards, as far as was known, and that the kubelet's record does not show.

        A kubelet that has just started shows no pod until it has looked at it again.
        """
        return [
            uid
            for uid, entry in self._entries.items()
            if (entry.held.keys() - entry.guessed or _is_assigned(entry)) and shown.isdisjoint((uid, str(entry.ref)))
        ]

    def _is_past(self, guess: _Guess, shown: Collection[str]) -> bool:
        """Whether a guess for an ordinary init container has had its time: a later container of that pod is shown."""
        entry = self._entries.get(guess.uid)
        if entry is None or not entry.is_init(guess.container):
            return False
        return entry.ref.uid in shown or str(entry.ref) in shown

    def may_continue_another(self, amount: int, *, whole: bool = False) -> bool:
        """Whether a call may be for a further container of a pod whose first one was guessed for another.

        Only the kubelet's record tells; until it has, the call could be answered from another pod's card, and the pod
        would be torn over two.
        """
        handed_out = {sum(guess.counts.values()) for guess in self._guesses if guess.whole == whole}
        return bool(handed_out) and any(
            before.amount in handed_out and container.amount == amount and entry.served <= position
            for entry in self._entries.values()
            if entry.is_whole == whole
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

    def _settle(self, key: str, container: str, counts: CardCounts, is_whole: bool) -> None:
        def rank(guess: _Guess) -> tuple[bool, float]:
            entry = self._entries.get(guess.uid)
            is_exact = entry is not None and key in (guess.uid, str(entry.ref)) and guess.container == container
            return (not is_exact, guess.made_at_s)

        meant = [guess for guess in self._guesses if guess.whole == is_whole and guess.counts == counts]
        if meant:
            self._guesses.remove(min(meant, key=rank))

    def _inherit_promises(self) -> None:
        """Give the cards kept for a pod that got others to the pod whose cards it got.

        Pods of equal requests only ever change places, so all of them fit as they were planned.
        """
        waiting = sorted((e for e in self._entries.values() if e.promise and not e.held), key=age)
        for moved in sorted((e for e in self._entries.values() if e.promise and e.is_complete), key=age):
            if set(moved.promise) == set(moved.taken_cards):
                continue
            for heir in waiting:
                if heir.request.cards == moved.request.cards and set(heir.promise) == set(moved.taken_cards):
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

    def held_units(self, sizes: CardCounts = NO_SIZES) -> dict[int, int]:
        """Units per card that pods of this node hold, guesses included; of a whole card all of its ``sizes``."""
        held: dict[int, int] = {}
        for entry in self._entries.values():
            for index, units in peak_per_card(entry, sizes).items():
                held[index] = held.get(index, 0) + units
        return held

    def _write_for(
        self, entry: PodEntry, uuids: Mapping[int, str], units: CardCounts, now_ns: int
    ) -> RecordWrite | None:
        record = entry.record
        recorded = record.card_indexes if record is not None else ()
        is_served = entry.is_complete
        cards = entry.taken_cards if is_served else entry.promise
        moved = bool(recorded) and set(recorded) != set(cards)
        if not cards or not (moved or (is_served and (record is None or not record.assigned))):
            return None
        truth = replace(
            record or PodRecord(card_indexes=cards, card_units=0, pod_units=0, assign_time_ns=now_ns),
            card_indexes=cards,
            card_units=max(units.get(index, 0) for index in cards) if entry.is_whole else units.get(cards[0], 0),
            pod_units=sum(units.get(i, 0) for i in cards) if entry.is_whole else entry.request.total_units,
            assigned=is_served,
            whole=entry.is_whole,
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


def _is_assigned(entry: PodEntry) -> bool:
    return entry.record is not None and entry.record.assigned


def _names(cards: Iterable[int]) -> str:
    return ",".join(str(index) for index in cards)
