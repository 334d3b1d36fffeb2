"""What becomes known of the pods of this node, of the cards kept for them, and of those that they hold.

Pure state with one owner. Each ``on_`` method stores one input and computes the state of every pod (``states``). A call
of the kubelet names no pod, so the pod of a pending allocation is a guess until ``on_kubelet_read`` brings what the
kubelet itself says (podresources, or its checkpoint), which always wins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from gcushare.core.assignments import PodRef
from gcushare.core.cards import UnrecordedHolder
from gcushare.core.errors import GcushareError
from gcushare.core.requests import PodRequest
from gcushare.device_plugin.pods.allocations import CHECKPOINT, KubeletAllocations, PendingAllocation
from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.force_deleted import KILL_MARGIN_S
from gcushare.device_plugin.pods.holdings import PodHoldings
from gcushare.device_plugin.pods.pod import (
    DEFAULT_GRACE_S,
    PodEntry,
    PodState,
    UnreadablePod,
    find_refusal,
    new_entry,
)
from gcushare.device_plugin.pods.states import compute_states, exchange_promises
from gcushare.device_plugin.pods.unrecorded import find_unrecorded, make_holder
from gcushare.node.pods import CardCounts, PlainPod, plain_pod
from gcushare.wire.annotations import CORRECTED
from gcushare.wire.kubelet.plugin_messages import NO_IDS, DeviceIds
from gcushare.wire.objects import Pod
from gcushare.wire.pods import (
    deletion_time_s,
    has_stopped,
    is_finished,
    is_mirror,
    pod_record,
    pod_ref,
    readable_request,
)

MAX_ENDED = 1_000
"""Uids and names of ended pods that are kept: the kubelet forgets all that have ended when it admits the next one, and
it runs some hundred pods."""


class PodStore(PodHoldings):
    """The three inputs: the watch, the calls of the kubelet, and the kubelet's allocations.

    A pod of the same name with another uid is another pod.
    """

    def pod_applied(self, pod: Pod) -> bool:
        """Store a pod's newest state; True if the kubelet should be read: it is new, has ended or lost its record."""
        ref = pod_ref(pod)
        if not pod.is_bound or is_finished(pod):
            if is_over := has_stopped(pod):
                self.ended[ref.uid] = None
                self.gone.discard(ref.uid)
                if (request := readable_request(pod, self._vendor)[0]) is not None:
                    self.ended[str(ref)] = request
                    self._shown.set_apart(str(ref), request)
            return self.pod_deleted(ref.uid, is_over=is_over)
        is_new = ref.uid not in self.entries
        reuses_name = is_new and self._is_name_reused(ref)
        for key in (ref.uid, str(ref)):
            self.ended.pop(key, None)
        self.gone.discard(ref.uid)
        self._unreadable.pop(ref.uid, None)
        record, record_error = None, ""
        try:
            record = pod_record(pod, self._vendor)
        except GcushareError as error:
            record_error = str(error)  # The pod keeps what the kubelet gave it in any case.
        if reason := record_error or find_refusal(pod, self._vendor, record):
            self._unreadable[ref.uid] = UnreadablePod(ref, reason)
        entry = self.entries.get(ref.uid)
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
            self.entries[ref.uid] = entry
        entry.on_record_update(record, pod.metadata.annotations, error=record_error)
        entry.ends_at_s = deletion_time_s(pod)
        entry.deletion_grace_s = float(pod.metadata.deletion_grace_period_seconds or 0)
        if is_new:
            if not reuses_name:
                self._shown.set_apart(str(ref), entry.request)
            # Without it a running pod would look like a waiting one, and the next call would seem to be for it.
            entry.shown = self._shown.held_by(entry, by_name=not reuses_name)
        if is_new or entry.is_recorded:
            self.unrecorded.drop(entry.keys)
        compute_states(self.entries, self._pending)
        return is_new or (bool(entry.shown) and not entry.is_recorded)

    def pod_deleted(self, uid: str, *, is_over: bool = False) -> bool:
        """Remove a pod that was deleted; False if it was not here.

        ``is_over``: all its containers have ended. Otherwise its cards stay in use until no container of it can run any
        more (see ``ForceDeletedPods``).
        """
        is_known = self._remove(uid, is_over=is_over)
        compute_states(self.entries, self._pending)
        return is_known

    def pods_retained(self, uids: Collection[str]) -> None:
        """Remove every pod but these: they are all that a full list has."""
        for uid in [uid for uid in (*self.entries, *self._others) if uid not in uids]:
            self._remove(uid, is_over=False)
        self.is_listed = True
        compute_states(self.entries, self._pending)

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
        compute_states(self.entries, self._pending)

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """Answer one call of the kubelet. If that ends in an error, the kubelet does not admit the call's pod."""
        try:
            yield
        except GcushareError:
            # It was one that is partly served, or what is stored for that one was another's.
            self._pending.disown({e.ref.uid for e in self.entries.values() if e.state is PodState.PARTLY_SERVED})
            compute_states(self.entries, self._pending)
            raise

    def end_pending(self, made_before_s: float, *, is_readable: bool) -> None:
        """End the pending allocations that the kubelet did not show in time.

        If its allocations are readable, those pods were not admitted, and their cards are free. If they are not, what
        was given out counts.
        """
        self._pending.end(made_before_s, is_accepted=not is_readable)
        compute_states(self.entries, self._pending)

    def on_kubelet_read(self, shown: KubeletAllocations, *, asked: Collection[str] | None = None) -> None:
        """Store the kubelet's allocations.

        Every container that they show for the first time confirms one pending allocation of the same units and card:
        the one made for it, or else one made for the wrong pod. ``asked`` are the pods that were known before the read,
        None for all: what is not shown of a later pod means nothing.
        """
        entries = self.entries.values()
        # One source has names and the other uids: what it cannot show may come back with the next read.
        is_by_uid = shown.source == CHECKPOINT
        kept = [each for each in self.ended.items() if each[0] in shown.pods or ("/" in each[0]) is is_by_uid]
        self.ended = {key: request for key, request in kept[-MAX_ENDED:] if is_by_uid or request or "/" not in key}
        asking = {str(entry.ref): entry.request for entry in entries}
        for name, request in {**self.ended, **asking}.items():
            if request is not None:
                shown.set_apart(name, request)
        names = self._names()
        new = []
        for pod, container, is_whole in shown.not_in(self._shown, names):
            uids = {uid for uid, entry in self.entries.items() if pod in entry.keys}
            new.append((shown.counts((pod, container, is_whole)), is_whole, container, uids))
        for each in sorted(new, key=lambda each: not self._pending.names(*each)):
            self._pending.confirm(*each)
        self._pending.accepted.clear()
        self._shown = shown
        for entry in entries:
            entry.shown = shown.held_by(entry)
            entry.is_checked = entry.is_checked or asked is None or entry.ref.uid in asked
        compute_states(self.entries, self._pending)
        if exchange_promises(entries):
            compute_states(self.entries, self._pending)

    def on_record_written(self, write: RecordWrite) -> None:
        """Store what is being written on a pod, before the watch shows it."""
        entry = self.entries.get(write.pod.uid)
        if entry is not None:
            entry.on_record_written(write.cards, write.annotations.get(CORRECTED, ""))
            compute_states(self.entries, self._pending)

    def end_gone(
        self, shown: Collection[str], now_s: float, *, wall_s: float = 0.0, running: Collection[str] | None = None
    ) -> None:
        """Free the cards of deleted pods that cannot run any more; arguments as in ``ForceDeletedPods.end``.

        A finalizer may keep a pod's object for good. Once its time is over, only what the kubelet shows counts.
        """
        for entry in self.entries.values():
            since_s = entry.overdue_since_s(self._longest_wait_s)
            entry.is_overdue = since_s is not None and wall_s > since_s + KILL_MARGIN_S
            if entry.is_overdue and not entry.held:
                entry.promise = ()
        compute_states(self.entries, self._pending)
        shown = frozenset(shown).difference(self._names().values())
        for ref in self.gone.end(shown, now_s, wall_s=wall_s, running=running):
            self._end(ref)

    @property
    def is_to_compare(self) -> bool:
        """Whether a checkpoint has yet to be compared with the pods, see ``close_unknown``, and can be."""
        return not (self.is_compared or self._pending) and self.is_listed and self.gone.has_former

    def close_unknown(self, checkpoint: KubeletAllocations) -> None:
        """Keep the cards of pods closed that a checkpoint names, and that were gone when the pods were first listed.

        The kubelet names pods that have ended until it admits the next one, and on a full node none may come. Or such a
        pod was deleted by force and still runs; how long is not known, and most such pods have ended by themselves. Not
        a static pod, whose uid is no UUID: it runs without its mirror too.
        """
        if not self.is_to_compare:
            return
        self.is_compared = True
        closed = [self.gone.cards(whole=is_whole) for is_whole in (False, True)]
        known = self._names().keys() | self.ended.keys() | self.gone.uids
        for (uid, is_whole), cards in checkpoint.cards_of_pods().items():
            is_unknown = uid not in known and "-" in uid
            if is_unknown and cards <= closed[is_whole]:
                self.ended[uid] = None  # The plugin before had closed them: their time does not begin again.
            elif is_unknown:
                self.gone.add(PodRef(uid, "uid", uid), cards, is_whole=is_whole, grace_s=DEFAULT_GRACE_S)

    def find_unrecorded(self, now_s: float) -> None:
        """Find the holders of cards that no pod's record names, in the kubelet's allocations as they were read last."""
        known = {key for entry in self.entries.values() for key in entry.keys}
        gone = {key for gone in self.gone.pods for key in (gone.ref.uid, str(gone.ref))}
        known |= gone.difference(str(other.ref) for other in self._others.values()) | self.ended.keys()
        unwritten = [_holder(each) for each in self.entries.values() if each.shown and not each.is_recorded]
        self.unrecorded.update(find_unrecorded(self._shown, known, self._names()), now_s, unwritten=unwritten)

    def _is_name_reused(self, ref: PodRef) -> bool:
        """Whether what the kubelet shows under a pod's name may be of another pod, which had the name before."""
        name = str(ref)
        return (
            name in self.ended
            or self.gone.is_named(name)
            or any(other.ref.uid != ref.uid and str(other.ref) == name for other in self.entries.values())
        )

    def _remove(self, uid: str, *, is_over: bool) -> bool:
        other = self._others.pop(uid, None)
        entry, unreadable = self.entries.pop(uid, None), self._unreadable.pop(uid, None)
        ref = entry.ref if entry is not None else unreadable.pod if unreadable is not None else None
        if ref is None:
            return other is not None and is_mirror(other.annotations)
        if is_over:
            self._end(ref, entry.request if entry is not None else None)
        elif entry is not None and (cards := entry.taken_cards):
            grace_s = max(entry.grace_s, entry.deletion_grace_s)
            self.gone.add(ref, cards, is_whole=entry.is_whole, grace_s=grace_s)
        return True

    def _end(self, ref: PodRef, request: PodRequest | None = None) -> None:
        """Store that all containers of a pod have ended."""
        self.unrecorded.drop((ref.uid, str(ref)))
        self.ended[ref.uid] = None
        if all(str(other.ref) != str(ref) for other in self.entries.values()):
            self.ended.setdefault(str(ref), request)


def _holder(entry: PodEntry) -> UnrecordedHolder:
    """What a pod holds, for the node to say in place of its record."""
    memory, whole = ((), (entry.taken_cards,)) if entry.is_whole else ((entry.units_by_card(),), ())
    return make_holder(str(entry.ref), memory, whole)
