"""The pods of this node, the cards kept for them, and the cards that they hold.

Pure state with one owner. Each ``on_`` method stores one input and computes the state of every pod (``states``). A call
of the kubelet names no pod, so the pod of a pending allocation is a guess until ``on_kubelet_read`` brings what the
kubelet itself says (podresources, or its checkpoint), which always wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from itertools import chain, pairwise

from gcushare.core.assignments import PodRef
from gcushare.core.cards import UnrecordedHolder
from gcushare.core.errors import GcushareError
from gcushare.core.matching import Candidate
from gcushare.core.requests import split_over_cards
from gcushare.device_plugin.pods.allocations import KubeletAllocations, PendingAllocation, PendingAllocations
from gcushare.device_plugin.pods.annotation_diff import RecordWrite, compute_write
from gcushare.device_plugin.pods.force_deleted import KILL_MARGIN_S, ForceDeletedPods
from gcushare.device_plugin.pods.pod import (
    NEEDS_CARDS,
    PodEntry,
    PodState,
    UnreadablePod,
    find_refusal,
    new_entry,
)
from gcushare.device_plugin.pods.states import compute_states, exchange_promises
from gcushare.device_plugin.pods.unrecorded import UnrecordedHolders, find_unrecorded, make_holder
from gcushare.node.node_settings import DEFAULT_LONGEST_WAIT_S
from gcushare.node.pods import NO_SIZES, CardCounts, PlainPod, PodWithCards, SharedGrant, machine_uids, plain_pod
from gcushare.vendors import Vendor
from gcushare.wire.annotations import CORRECTED
from gcushare.wire.kubelet.plugin_messages import NO_IDS, DeviceIds
from gcushare.wire.objects import Pod
from gcushare.wire.pods import deletion_time_s, is_finished, is_mirror, pod_record, pod_ref

_AS_RECORDED = (PodState.UNVERIFIED, PodState.FORGOTTEN)
"""States of pods that run with what their record says, as far as is known."""


class PodStore:
    """The pods bound to this node, by uid. A pod of the same name with another uid is another pod."""

    def __init__(
        self, vendor: Vendor, *, longest_wait_s: float = DEFAULT_LONGEST_WAIT_S, allows_bursts: bool = True
    ) -> None:
        self._vendor = vendor
        self._longest_wait_s = longest_wait_s
        self._allows_bursts = allows_bursts
        self._entries: dict[str, PodEntry] = {}
        self._others: dict[str, PlainPod] = {}  # They ask for no cards, or their request cannot be read.
        self._unreadable: dict[str, UnreadablePod] = {}
        self._pending = PendingAllocations()
        self._shown = KubeletAllocations()
        self._ended: set[str] = set()
        """Uids and names of pods that ended. The kubelet may show their ids a while longer."""
        self.gone = ForceDeletedPods(longest_wait_s)
        self.unrecorded = UnrecordedHolders()
        self.is_listed = False
        """Whether all pods of the node are known: the API server has listed them."""

    # The three inputs: the watch, the calls of the kubelet, and the kubelet's allocations

    def pod_applied(self, pod: Pod) -> bool:
        """Store a pod's newest state; True if the kubelet should be read: it is new, has ended or lost its record."""
        ref = pod_ref(pod)
        if not pod.is_bound or is_finished(pod):
            self._ended |= {ref.uid, str(ref)}
            return self.pod_deleted(ref.uid, is_over=True)
        is_new = ref.uid not in self._entries
        reuses_name = is_new and self._is_name_reused(ref)
        self._ended -= {ref.uid, str(ref)}
        self.gone.discard(ref.uid)
        self._unreadable.pop(ref.uid, None)
        record, record_error = None, ""
        try:
            record = pod_record(pod, self._vendor)
        except GcushareError as error:
            record_error = str(error)  # The pod keeps what the kubelet gave it in any case.
        if reason := record_error or find_refusal(pod, self._vendor, record):
            self._unreadable[ref.uid] = UnreadablePod(ref, reason)
        entry = self._entries.get(ref.uid)
        if entry is None:
            try:
                entry = new_entry(pod, self._vendor, record, may_burst=self._allows_bursts)
                if entry is None:
                    self._unreadable.pop(ref.uid, None)
            except GcushareError as error:
                self._unreadable[ref.uid] = UnreadablePod(ref, str(error))
            if entry is None:
                is_known = ref.uid in self._others
                self._others[ref.uid] = plain_pod(pod, PlainPod)
                return is_mirror(pod.metadata.annotations) and not is_known
            self._others.pop(ref.uid, None)
            self._entries[ref.uid] = entry
        entry.on_record_update(record, pod.metadata.annotations, error=record_error)
        entry.ends_at_s = deletion_time_s(pod)
        entry.deletion_grace_s = float(pod.metadata.deletion_grace_period_seconds or 0)
        if is_new:
            # Without it a running pod would look like a waiting one, and the next call would seem to be for it.
            entry.shown = self._shown.held_by(entry, by_name=not reuses_name)
        if is_new or entry.is_recorded:
            self.unrecorded.drop(entry.keys)
        compute_states(self._entries, self._pending)
        return is_new or (bool(entry.shown) and not entry.is_recorded)

    def pod_deleted(self, uid: str, *, is_over: bool = False) -> bool:
        """Remove a pod that was deleted; False if it was not here.

        ``is_over``: all its containers have ended. Otherwise its cards stay in use until no container of it can run any
        more (see ``ForceDeletedPods``).
        """
        is_known = self._remove(uid, is_over=is_over)
        compute_states(self._entries, self._pending)
        return is_known

    def pods_retained(self, uids: Collection[str]) -> None:
        """Remove every pod but these: they are all that a full list has."""
        for uid in [uid for uid in (*self._entries, *self._others) if uid not in uids]:
            self._remove(uid, is_over=False)
        self.is_listed = True
        compute_states(self._entries, self._pending)

    def on_allocate(
        self,
        uid: str,
        container: str,
        counts: CardCounts,
        now_s: float,
        *,
        whole: bool = False,
        ids: DeviceIds = NO_IDS,
    ) -> None:
        """Store what was given out, probably to this pod's container ("" if it is not known to which)."""
        self._pending.add(PendingAllocation(uid, container, dict(counts), now_s, whole, ids))
        compute_states(self._entries, self._pending)

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """Answer one call of the kubelet. If that ends in an error, the kubelet does not admit the call's pod."""
        try:
            yield
        except GcushareError:
            # It was one that is partly served, or what is stored for that one was another's.
            self._pending.disown({e.ref.uid for e in self._entries.values() if e.state is PodState.PARTLY_SERVED})
            compute_states(self._entries, self._pending)
            raise

    def end_pending(self, made_before_s: float, *, is_readable: bool) -> None:
        """End the pending allocations that the kubelet did not show in time.

        If its allocations are readable, those pods were not admitted, and their cards are free. If they are not, what
        was given out counts.
        """
        self._pending.end(made_before_s, is_accepted=not is_readable)
        compute_states(self._entries, self._pending)

    def on_kubelet_read(self, shown: KubeletAllocations, *, asked: Collection[str] | None = None) -> None:
        """Store the kubelet's allocations.

        Every container that they show for the first time confirms one pending allocation of the same units and card:
        the one made for it, or else one made for the wrong pod. ``asked`` are the pods that were known before the read,
        None for all: what is not shown of a later pod means nothing.
        """
        entries = self._entries.values()
        names = self._names()
        new = []
        for pod, container, is_whole in shown.not_in(self._shown, names):
            uids = {uid for uid, entry in self._entries.items() if pod in entry.keys}
            new.append((shown.counts((pod, container, is_whole)), is_whole, container, uids))
        for each in sorted(new, key=lambda each: not self._pending.names(*each)):
            self._pending.confirm(*each)
        self._pending.accepted.clear()
        self._shown = shown
        self._ended &= shown.pods
        for entry in entries:
            entry.shown = shown.held_by(entry)
            entry.is_checked = entry.is_checked or asked is None or entry.ref.uid in asked
        compute_states(self._entries, self._pending)
        if exchange_promises(entries):
            compute_states(self._entries, self._pending)

    def on_record_written(self, write: RecordWrite) -> None:
        """Store what is being written on a pod, before the watch shows it."""
        entry = self._entries.get(write.pod.uid)
        if entry is not None:
            corrected = write.annotations.get(CORRECTED, "")
            entry.on_record_written(write.cards, is_served=write.assigned, corrected=corrected)
            compute_states(self._entries, self._pending)

    def end_gone(
        self, shown: Collection[str], now_s: float, *, wall_s: float = 0.0, running: Collection[str] | None = None
    ) -> None:
        """Free the cards of deleted pods that cannot run any more; arguments as in ``ForceDeletedPods.end``.

        A finalizer may keep a pod's object for good. Once its time is over, only what the kubelet shows counts.
        """
        for entry in self._entries.values():
            since_s = entry.overdue_since_s(self._longest_wait_s)
            entry.is_overdue = since_s is not None and wall_s > since_s + KILL_MARGIN_S
            if entry.is_overdue and not entry.held:
                entry.promise = ()
        compute_states(self._entries, self._pending)
        shown = frozenset(shown) - {str(entry.ref) for entry in self._entries.values()}
        for ref in self.gone.end(shown, now_s, wall_s=wall_s, running=running):
            self._end(ref)

    def find_unrecorded(self, now_s: float) -> None:
        """Find the holders of cards that no pod's record names, in the kubelet's allocations as they were read last."""
        known = {key for entry in self._entries.values() for key in entry.keys}
        known |= {key for gone in self.gone.pods for key in (gone.ref.uid, str(gone.ref))} | self._ended
        unwritten = [_holder(each) for each in self._entries.values() if each.shown and not each.is_recorded]
        self.unrecorded.update(find_unrecorded(self._shown, known, self._names()), now_s, unwritten=unwritten)

    # What follows from them

    @property
    def entries(self) -> Mapping[str, PodEntry]:
        """The pods that ask for cards, by uid."""
        return self._entries

    @property
    def everyone(self) -> Mapping[str, PodWithCards]:
        """All pods by uid, also ``_others`` with what the kubelet shows that they hold."""
        for pod in self._others.values():
            pod.units, pod.is_whole = self.unrecorded.holding_of(str(pod.ref))
        return {**self._others, **self._entries}

    def shared(self) -> tuple[SharedGrant, ...]:
        """None: the kubelet gives each id to one pod."""
        return ()

    @property
    def ended(self) -> Set[str]:
        """Uids and names of pods that ended, and that the kubelet may still show."""
        return self._ended

    @property
    def unreadable(self) -> tuple[UnreadablePod, ...]:
        """The pods whose request or record cannot be read, with the reasons."""
        return tuple(self._unreadable.values())

    @property
    def pending_allocations(self) -> int:
        """How many allocations the kubelet does not show yet."""
        return len(self._pending)

    def candidates(self, *, whole: bool = False) -> list[Candidate]:
        """The pods that a call of the kubelet for memory, or for whole cards, can be for."""
        entries = (e for e in self._entries.values() if e.is_whole == whole and e.state in NEEDS_CARDS)
        return [each.as_candidate(self._closed_to(each)) for each in entries]

    def doubtful(self, amount: int, *, whole: bool = False) -> list[Candidate]:
        """Pods with a container of this amount whose calls are unconfirmed: the next call may be for them."""
        uids = {pending.uid for pending in self._pending if pending.whole == whole}
        found = [self._entries[uid] for uid in sorted(uids) if uid in self._entries]
        able = (e for e in found if any(c.amount == amount for c in e.request.containers))
        return [each.as_candidate(self._closed_to(each)) for each in able]

    def _closed_to(self, entry: PodEntry) -> frozenset[int]:
        """The cards that pods hold with which a pod shares no card.

        What the kubelet does not show yet may be another pod's, and closes no card.
        """
        if entry.apart is None:
            return frozenset()
        others = self.apart_from(entry.ref.uid)
        cards = {index for each in others if each.state is PodState.SERVED for index in each.taken_cards}
        return frozenset(cards.union(*(each.promise for each in others if each.state in _AS_RECORDED)))

    def apart_from(self, uid: str) -> list[PodEntry]:
        """The other pods with which a pod shares no card."""
        group = self._entries[uid].apart if uid in self._entries else None
        return [e for e in self._entries.values() if group is not None and e.apart == group and e.ref.uid != uid]

    def promised(self) -> dict[int, int]:
        """Units per card that are kept for pods that hold nothing yet."""
        promised: Counter[int] = Counter()
        for entry in self._entries.values():
            if entry.state in (PodState.WAITING, PodState.FORGOTTEN) and not entry.is_whole:
                promised.update(split_over_cards(entry.request.total_units, entry.promise))
        return promised

    def promised_whole(self) -> dict[int, str]:
        """The cards that are kept whole for pods that do not hold them yet, with the uid of the pod of each."""
        return {
            index: entry.ref.uid
            for entry in self._entries.values()
            if entry.is_whole and entry.state is not PodState.SERVED
            for index in set(entry.promise).difference(entry.taken_cards)
        }

    def cards_in_use(self, *, whole: bool) -> frozenset[int]:
        """The cards whose memory, or whose whole device, was given to a pod that has not ended.

        What the kubelet shows counts even if its pod is not known here (a list may be older than the pod), and so do
        pending allocations. A pod that the kubelet was not asked about has what its record says.
        """
        shown = self._shown.cards(whole=whole, without=self._ended)
        entries = [entry for entry in self._entries.values() if entry.is_whole == whole]
        taken = {index for entry in entries for index in entry.taken_cards}
        recorded = {index for entry in entries if entry.state is PodState.UNVERIFIED for index in entry.promise}
        return shown | self._pending.cards(whole=whole) | taken | recorded | self.gone.cards(whole=whole)

    def cards_wanted(self) -> frozenset[int]:
        """The cards that pods have in any use, or were bound to get: their numbers must go on meaning these cards."""
        promised = (index for entry in self._entries.values() for index in entry.promise)
        return frozenset(promised) | self.cards_used

    @property
    def cards_used(self) -> frozenset[int]:
        """The cards that pods have in any use."""
        return self.cards_in_use(whole=False) | self.cards_in_use(whole=True)

    @property
    def is_settled(self) -> bool:
        """Whether all pods are known, none waits for its cards, and no call of the kubelet is unconfirmed."""
        is_waiting = any(entry.state in NEEDS_CARDS for entry in self._entries.values())
        return self.is_listed and not self._pending and not is_waiting

    def cards_of_unknown(self) -> frozenset[int]:
        """The cards whose memory was given to pods that the watch does not show, or not yet."""
        holders = self.unrecorded.now.values()
        pending = (each.counts for each in self._pending if not each.uid and not each.whole)
        return frozenset(index for counts in (*(each.units for each in holders), *pending) for index in counts)

    def users_of(self, card_index: int, *, whole: bool) -> list[str]:
        """The names of the pods that have a card, for messages."""
        known = [
            str(entry.ref)
            for entry in self._entries.values()
            if entry.is_whole == whole
            and card_index in (entry.taken_cards or (entry.promise if entry.may_be_assigned else ()))
        ]
        others = (*self.unrecorded.users_of(card_index, whole=whole), *self.gone.users_of(card_index, whole=whole))
        return sorted((*known, *others))

    def holders(self) -> list[str]:
        """The names of the pods that have cards of this node, or were bound to get them."""
        entries = (entry for entry in self._entries.values() if entry.state is not PodState.OVERDUE)
        found = {str(entry.ref) for entry in entries} | {str(pod.pod) for pod in self.unreadable}
        is_taken = False
        for whole in (False, True):
            for index in self.cards_in_use(whole=whole):
                is_taken = True
                found.update(self.users_of(index, whole=whole))
        return sorted(found) or ["a pod that the kubelet does not show yet"] * is_taken

    def users_with_units(self, card_index: int, size: int) -> dict[str, int]:
        """The names of the pods that have a card, with their units of it; ``size`` are the card's, if held whole."""
        sizes = {card_index: size}
        having = (entry for entry in self._entries.values() if card_index in entry.taken_cards)
        found = {str(entry.ref): entry.units_by_card(sizes)[card_index] for entry in having}
        for holder in self.unrecorded.now.values():
            found[holder.pod] = holder.units.get(card_index, 0) + size * (card_index in holder.whole)
        return {name: units for name, units in found.items() if units}

    def held_units(self, sizes: CardCounts = NO_SIZES) -> Counter[int]:
        """Units per card that pods hold, pending allocations included; ``sizes`` are the units of whole cards."""
        held = self.unrecorded.units(sizes)
        for entry in self._entries.values():
            held.update(entry.units_by_card(sizes))
        return held

    def unrecorded_units(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """Units per card that the kubelet gave to pods that no record names."""
        return self.unrecorded.units(sizes)

    def unconfirmed_units(self) -> Mapping[int, int]:
        """Units per card that were given out, and that the kubelet does not show yet: they may be of any pod."""
        return self._pending.units()

    def fresh_ids(self) -> list[DeviceIds]:
        """The units of memory that were given out and that the kubelet does not show yet."""
        return self._pending.ids()

    def missing_from(self, shown: frozenset[str]) -> list[str]:
        """The uids of pods that have their cards as far as is known, and that the kubelet does not show.

        A kubelet that has just started shows a pod only after it has admitted it again.
        """
        recorded = [
            entry.ref.uid
            for entry in self._entries.values()
            if (entry.shown or entry.may_be_assigned) and shown.isdisjoint(entry.keys)
        ]
        others = {holder.pod for holder in self.unrecorded.now.values()}
        return recorded + [
            uid for uid, name in self._names().items() if name in others and shown.isdisjoint((uid, name))
        ]

    def hidden_in(self, found: KubeletAllocations) -> list[str]:
        """The uids of pods with ordinary init containers that podresources hides, and that no earlier read showed.

        What the read before this one showed of the others is added to it: no container's ids ever change.
        """
        with_inits = [entry for entry in self._entries.values() if entry.inits]
        hidden = [entry for entry in with_inits if entry.inits - entry.shown.keys()]
        shown = {entry.ref.uid for entry in with_inits if str(entry.ref) in found.pods}
        found.add_missing(self._shown, shown.difference(entry.ref.uid for entry in hidden))
        return [entry.ref.uid for entry in hidden if self._pending or entry.ref.uid in shown]

    def cards_in_doubt(self) -> frozenset[int]:
        """The cards where pods may hold more units than the kubelet has shown."""
        unverified = (entry.promise for entry in self._entries.values() if entry.state is PodState.UNVERIFIED)
        hidden = (entry.taken_cards for entry in self._entries.values() if entry.inits - entry.shown.keys())
        return frozenset(chain.from_iterable((*unverified, *hidden)))

    def may_continue_another(self, amount: int, *, whole: bool = False) -> bool:
        """Whether a call may be for a further container of a pod whose first one was taken for another pod's.

        Only the kubelet's allocations show it. Before they do, the answer could name another pod's card, and the pod
        would get parts of two.
        """
        given_out = {sum(pending.counts.values()) for pending in self._pending if pending.whole == whole}
        return bool(given_out) and any(
            before.amount in given_out and container.amount == amount and entry.served <= position
            for entry in self._entries.values()
            if entry.is_whole == whole
            for position, (before, container) in enumerate(pairwise(entry.request.containers))
        )

    def writes(self, uuids: Mapping[int, str], units: CardCounts, now_ns: int) -> list[RecordWrite]:
        """The records that must be written, by creation and uid of their pods (see ``compute_write``)."""
        found = (compute_write(entry, self._vendor, uuids, units, now_ns) for entry in self._entries.values())
        return sorted(filter(None, found), key=lambda write: (write.pod.created, write.pod.uid))

    def _names(self) -> dict[str, str]:
        """The names of the pods by the uids that a checkpoint has of them, static pods among them."""
        pods: dict[str, PodWithCards] = {**self._others, **self._entries}
        return {on_machine: str(pods[uid].ref) for uid, on_machine in machine_uids(pods.values()).items()}

    def _is_name_reused(self, ref: PodRef) -> bool:
        """Whether what the kubelet shows under a pod's name may be of another pod, which had the name before."""
        name = str(ref)
        return (
            name in self._ended
            or self.gone.is_named(name)
            or any(other.ref.uid != ref.uid and str(other.ref) == name for other in self._entries.values())
        )

    def _remove(self, uid: str, *, is_over: bool) -> bool:
        other = self._others.pop(uid, None)
        entry, unreadable = self._entries.pop(uid, None), self._unreadable.pop(uid, None)
        ref = entry.ref if entry is not None else unreadable.pod if unreadable is not None else None
        if ref is None:
            return other is not None and is_mirror(other.annotations)
        if is_over:
            self._end(ref)
        elif entry is not None and (cards := entry.taken_cards):
            self.gone.add(ref, cards, is_whole=entry.is_whole, grace_s=entry.grace_s)
        return True

    def _end(self, ref: PodRef) -> None:
        """Store that all containers of a pod have ended."""
        self.unrecorded.drop((ref.uid, str(ref)))
        self._ended.add(ref.uid)
        if all(str(other.ref) != str(ref) for other in self._entries.values()):
            self._ended.add(str(ref))


def _holder(entry: PodEntry) -> UnrecordedHolder:
    """What a pod holds, for the node to say in place of its record."""
    memory, whole = ((), (entry.taken_cards,)) if entry.is_whole else ((entry.units_by_card(),), ())
    return make_holder(str(entry.ref), memory, whole)
