"""The pods of this node, what their records say, and what the kubelet really gave them.

Pure state with one owner. Calls of the kubelet name no pod, so what ``note_allocated`` writes is a guess until
``reconcile`` brings the kubelet's own record (podresources, or its checkpoint), which always wins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

from gcushare.core.errors import GcushareError
from gcushare.core.matching import Candidate
from gcushare.core.nodes import PodRef
from gcushare.core.requests import split_over_cards
from gcushare.device_plugin.choices import DEFAULT_LONGEST_WAIT_S
from gcushare.device_plugin.pods.annotation_diff import RecordWrite, compute_write
from gcushare.device_plugin.pods.force_deleted import ForceDeletedPods
from gcushare.device_plugin.pods.kubelet_allocations import KubeletAllocations
from gcushare.device_plugin.pods.pending_allocations import PendingAllocation, PendingAllocations
from gcushare.device_plugin.pods.pod import (
    DEFAULT_GRACE_S,
    NO_SIZES,
    CardCounts,
    PodEntry,
    UnreadablePod,
    age,
    bound_request,
    exchange_promises,
    find_refusal,
    peak_per_card,
)
from gcushare.device_plugin.pods.unrecorded import UnrecordedHolders, find_unrecorded, mirrored_keys
from gcushare.vendors import Vendor
from gcushare.wire.annotations.record import PodRecord
from gcushare.wire.kubelet.device_lists import DeviceIds
from gcushare.wire.objects import Pod
from gcushare.wire.pods import deletion_time_s, is_finished, pod_record, pod_ref


class PodStore:
    """The pods bound to this node, by uid. A pod of the same name with another uid is another pod."""

    def __init__(self, vendor: Vendor, *, longest_wait_s: float = DEFAULT_LONGEST_WAIT_S) -> None:
        self._vendor = vendor
        self._entries: dict[str, PodEntry] = {}
        self._unreadable: dict[str, UnreadablePod] = {}
        self._pending = PendingAllocations()
        self._shown = KubeletAllocations()
        self._ended: set[str] = set()
        """Keys of pods that were seen to end: the kubelet's record may show their ids a while longer."""
        self.gone = ForceDeletedPods(longest_wait_s)
        self.unrecorded = UnrecordedHolders()

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
            return self.forget(ref.uid, is_over=True)
        is_new = ref.uid not in self._entries
        is_reused = is_new and self._is_reused(ref)
        self._ended -= {ref.uid, str(ref)}
        self.gone.discard(ref.uid)
        self._unreadable.pop(ref.uid, None)
        record, record_error = self._read_record(pod)
        if reason := record_error or find_refusal(pod, self._vendor, record):
            self._unreadable[ref.uid] = UnreadablePod(ref, reason)
        entry = self._entries.get(ref.uid)
        if entry is None:
            entry = self._make_entry(pod, record)
            if entry is None:
                return False
            self._entries[ref.uid] = entry
        entry.take_record(record, pod.metadata.annotations, record_error=record_error)
        entry.ends_at_s = deletion_time_s(pod)
        entry.deletion_grace_s = float(pod.metadata.deletion_grace_period_seconds or 0)
        if is_new:
            # Without it a running pod would look like one that waits, and be taken for whoever the kubelet asks for.
            entry.held = self._shown.held_by(entry, by_name=not is_reused)
            self.unrecorded.drop(entry.keys)
        return is_new

    def _read_record(self, pod: Pod) -> tuple[PodRecord | None, str]:
        """A pod's record, and why it cannot be read.

        The pod is not over then: what the kubelet gave it stays in use, whatever somebody wrote on it.
        """
        try:
            return pod_record(pod, self._vendor), ""
        except GcushareError as error:
            return None, str(error)

    def _make_entry(self, pod: Pod, record: PodRecord | None) -> PodEntry | None:
        ref, grace_s = pod_ref(pod), pod.spec.termination_grace_period_seconds
        try:
            request = bound_request(pod, self._vendor, record)
        except GcushareError as error:
            self._unreadable[ref.uid] = UnreadablePod(ref, str(error))
            return None
        if request is None:
            self._unreadable.pop(ref.uid, None)
            return None
        return PodEntry(ref, request, None, {}, grace_s=DEFAULT_GRACE_S if grace_s is None else float(grace_s))

    def _is_reused(self, ref: PodRef) -> bool:
        """Whether what the kubelet shows under a pod's name may be that of another pod, which had the name before."""
        name = str(ref)
        return (
            name in self._ended
            or self.gone.is_named(name)
            or any(other.ref.uid != ref.uid and str(other.ref) == name for other in self._entries.values())
        )

    def forget(self, uid: str, *, is_over: bool = False) -> bool:
        """Drop a pod that is gone; False where it was not here.

        ``is_over``: nothing of it runs any more. Where that is not known its cards stay in use until nothing of it can
        run any more (see ``ForceDeletedPods``).
        """
        entry, unreadable = self._entries.pop(uid, None), self._unreadable.pop(uid, None)
        ref = entry.ref if entry is not None else unreadable.pod if unreadable is not None else None
        if ref is None:
            return False
        if is_over:
            self._note_ended(ref)
        elif entry is not None and entry.taken_cards:
            self.gone.add(
                ref,
                entry.taken_cards,
                is_whole=entry.is_whole,
                grace_s=entry.grace_s,
                machine_uid=entry.machine_uid,
            )
        return True

    def _note_ended(self, ref: PodRef) -> None:
        self.unrecorded.drop((ref.uid, str(ref)))
        self._ended.add(ref.uid)
        if all(str(other.ref) != str(ref) for other in self._entries.values()):
            self._ended.add(str(ref))

    def end_gone(
        self, shown: Collection[str], now_s: float, *, wall_s: float = 0.0, running: Collection[str] | None = None
    ) -> None:
        """Free the cards of pods that are gone and cannot run any more; arguments as in ``ForceDeletedPods.end``."""
        here = {str(entry.ref) for entry in self._entries.values()}
        for ref in self.gone.end(frozenset(shown) - here, now_s, wall_s=wall_s, running=running):
            self._note_ended(ref)

    def retain(self, uids: Collection[str]) -> None:
        """Forget every pod but these: a full list has ended."""
        for uid in [uid for uid in (*self._entries, *self._unreadable) if uid not in uids]:
            self.forget(uid)

    def candidates(self, *, whole: bool = False) -> list[Candidate]:
        """The pods that a call of the kubelet for memory, or for whole cards, can mean.

        Those are the pods with containers that hold no ids yet.
        """
        displaced = self._find_displaced()
        return [
            entry.as_candidate(is_displaced=entry.ref.uid in displaced)
            for entry in self._entries.values()
            if entry.is_whole == whole and entry.served < len(entry.request.containers) and not entry.is_in_doubt
        ]

    def promised(self) -> dict[int, int]:
        """Units per card that are kept for waiting pods and that the kubelet has not handed out yet."""
        displaced = self._find_displaced()
        promised: dict[int, int] = {}
        for entry in self._entries.values():
            if entry.is_waiting and not entry.is_whole and entry.ref.uid not in displaced:
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
        was handed out and is not shown yet counts too. Of pods about which the kubelet's record was never asked, the
        records that say so are believed.
        """
        shown = self._shown.cards(whole=whole, without=self._ended)
        entries = [entry for entry in self._entries.values() if entry.is_whole == whole]
        taken = {index for entry in entries for index in entry.taken_cards}
        claimed = {index for entry in entries if entry.is_in_doubt for index in entry.promise}
        return shown | self._pending.cards(whole=whole) | taken | claimed | self.gone.cards(whole=whole)

    def users_of(self, card_index: int, *, whole: bool) -> list[str]:
        """The pods known here that have a card, for messages."""
        known = [
            str(entry.ref)
            for entry in self._entries.values()
            if entry.is_whole == whole
            and card_index in (entry.taken_cards or (entry.promise if entry.claims_cards else ()))
        ]
        others = (*self.unrecorded.users_of(card_index, whole=whole), *self.gone.users_of(card_index, whole=whole))
        return sorted((*known, *others))

    def note_unrecorded(self, now_s: float) -> None:
        """Find who holds cards by the kubelet's record, as it was read last, and is no pod whose record will say so."""
        known = {key for entry in self._entries.values() for key in (entry.ref.uid, str(entry.ref))}
        known |= {key for gone in self.gone.pods for key in (*gone.uids, str(gone.ref))}
        known |= self._ended | mirrored_keys(self._entries.values(), self._shown)
        names = {uid: str(pod.pod) for uid, pod in self._unreadable.items()}
        self.unrecorded.note(find_unrecorded(self._shown, known, names), now_s)

    def _find_displaced(self) -> frozenset[str]:
        """Waiting pods whose cards were handed out in the name of a pod that turned out to hold others.

        Who really has them is known as soon as the kubelet's record shows that allocation; until then these pods must
        not be served from what is kept for others on the same card. One pod per allocation, the youngest first.
        """
        loose = [(pending.whole, pending.counts) for pending in self._pending if not self._is_placed(pending)]
        found: list[str] = []
        if loose:
            waiting = (e for e in self._entries.values() if e.is_waiting)
            for entry in sorted(waiting, key=lambda e: (not e.is_forgotten, age(e)), reverse=True):
                share = (entry.is_whole, entry.first_share)
                if share in loose:
                    loose.remove(share)
                    found.append(entry.ref.uid)
        return frozenset(found)

    def _is_placed(self, pending: PendingAllocation) -> bool:
        entry = self._entries.get(pending.uid)
        return (
            entry is not None
            and pending.container in entry.unconfirmed
            and entry.held.get(pending.container) is pending.counts
        )

    def note_allocated(
        self,
        uid: str,
        container: str,
        counts: CardCounts,
        now_s: float,
        *,
        whole: bool = False,
        ids: DeviceIds | None = None,
    ) -> None:
        """Remember what was handed out, likely to this pod's container ("" where none is known to be meant)."""
        self._pending.add(PendingAllocation(uid, container, dict(counts), now_s, whole, ids))
        self._place_pending()

    def fresh_ids(self) -> list[DeviceIds]:
        """The units of memory that were handed out and that the kubelet's record has not shown yet."""
        return self._pending.ids()

    def with_hidden_ids(self, cards: Collection[int]) -> dict[str, tuple[int, ...]]:
        """The pods of which podresources hides units of these cards, by uid, with the cards that they have."""
        hidden = ((uid, entry.hidden_cards) for uid, entry in self._entries.items() if not entry.is_whole)
        return {uid: having for uid, having in hidden if not set(having).isdisjoint(cards)}

    @property
    def pending_allocations(self) -> int:
        """Allocations that the kubelet's record has not shown yet."""
        return len(self._pending)

    def reconcile(self, shown: KubeletAllocations, *, asked: Collection[str] | None = None) -> None:
        """Take what the kubelet's record shows now.

        Every container that it shows for the first time confirms one pending allocation of the same units and card:
        the one made for it, else one that was made for the wrong pod. ``asked`` are the pods that were known when it
        was read, None for all: the silence of a record on others says nothing.
        """
        entries = self._entries.values()
        names = {entry.machine_uid: str(entry.ref) for entry in entries if entry.machine_uid}
        names |= {entry.ref.uid: str(entry.ref) for entry in entries}
        for pod, container, is_whole in shown.not_in(self._shown, names):
            self._confirm(pod, container, shown.counts((pod, container, is_whole)), is_whole)
        self._shown = shown
        self._ended &= shown.pods
        self._pending.note_record(lambda pending: self._is_past(pending, shown.pods))
        for entry in entries:
            entry.held = shown.held_by(entry)
            entry.unconfirmed = set()
            entry.is_checked = entry.is_checked or asked is None or entry.ref.uid in asked
        self._place_pending()
        exchange_promises(entries)

    def missing_from(self, shown: frozenset[str]) -> list[str]:
        """The uids of pods that have their cards, as far as was known, and that the kubelet's record does not show.

        A kubelet that has just started shows no pod until it has looked at it again.
        """
        return [
            uid
            for entry in self._entries.values()
            if (entry.held.keys() - entry.unconfirmed or entry.claims_cards) and shown.isdisjoint(entry.keys)
            for uid in entry.uids
        ]

    def partly_shown_in(self, shown: frozenset[str]) -> list[str]:
        """The uids of pods that podresources shows without the whole cards that only their init containers asked for.

        By what they ask for, not by what they are known to hold: that was filled in by the look before, and a look that
        therefore asked for nothing would take those cards away again.
        """
        return [
            uid
            for entry in self._entries.values()
            if entry.has_cards_of_init_alone and not shown.isdisjoint(entry.keys)
            for uid in entry.uids
        ]

    def _is_past(self, pending: PendingAllocation, shown: Collection[str]) -> bool:
        """Whether one for an ordinary init container has had its time: a later container of that pod is shown."""
        entry = self._entries.get(pending.uid)
        if entry is None or not entry.is_init(pending.container):
            return False
        return any(key in shown for key in entry.keys)

    def may_continue_another(self, amount: int, *, whole: bool = False) -> bool:
        """Whether a call may be for a further container of a pod whose first one was taken for another.

        Only the kubelet's record shows it; before, the call could be answered from another pod's card, and the pod
        would be torn over two.
        """
        handed_out = {sum(pending.counts.values()) for pending in self._pending if pending.whole == whole}
        return bool(handed_out) and any(
            before.amount in handed_out and container.amount == amount and entry.served <= position
            for entry in self._entries.values()
            if entry.is_whole == whole
            for position, (before, container) in enumerate(pairwise(entry.request.containers))
        )

    def end_pending(self, made_before_s: float, *, believe: bool) -> None:
        """End pending allocations that the kubelet's record did not confirm in time.

        ``believe`` them where the record cannot be read at all; where it can and does not show them, drop them: the
        pod was not admitted after all.
        """
        for pending in self._pending.end(made_before_s, believe=believe):
            entry = self._entries.get(pending.uid)
            if entry is not None and pending.container in entry.unconfirmed:
                entry.unconfirmed.discard(pending.container)
                # podresources never shows an ordinary init container, so its absence there says nothing.
                if not believe and not entry.is_init(pending.container):
                    del entry.held[pending.container]

    def _confirm(self, key: str, container: str, counts: CardCounts, is_whole: bool) -> None:
        def is_exact(pending: PendingAllocation) -> bool:
            entry = self._entries.get(pending.uid)
            return entry is not None and key in entry.keys and pending.container == container

        self._pending.confirm(counts, whole=is_whole, is_exact=is_exact)

    def _place_pending(self) -> None:
        for pending in self._pending:
            entry = self._entries.get(pending.uid)
            if entry is not None and pending.container not in entry.held:
                entry.held[pending.container] = pending.counts
                entry.unconfirmed.add(pending.container)

    def writes(self, uuids: Mapping[int, str], units: CardCounts, now_ns: int) -> list[RecordWrite]:
        """What the records must say, by creation and uid.

        Pods served completely whose record does not say so, and waiting pods whose kept cards were exchanged.
        """
        found = [compute_write(entry, self._vendor, uuids, units, now_ns) for entry in self._entries.values()]
        due = [write for write in found if write is not None]
        return sorted(due, key=lambda write: (write.pod.created, write.pod.uid))

    def note_written(self, write: RecordWrite) -> None:
        """Remember what was just written, before its echo comes back by the watch."""
        entry = self._entries.get(write.pod.uid)
        if entry is not None:
            entry.note_written(write.cards, is_served=write.assigned)

    def held_units(self, sizes: CardCounts = NO_SIZES) -> dict[int, int]:
        """Units per card that are held here, pending allocations included; of a whole card all of its ``sizes``."""
        held = self.unrecorded.units(sizes)
        for entry in self._entries.values():
            for index, units in peak_per_card(entry, sizes).items():
                held[index] = held.get(index, 0) + units
        return held
