"""What the pods of this node hold, wait for and may still get: the questions about them, which change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain, pairwise

from gcushare.core.matching import Candidate
from gcushare.core.requests import PodRequest, split_over_cards
from gcushare.device_plugin.pods.allocations import KubeletAllocations, PendingAllocations
from gcushare.device_plugin.pods.annotation_diff import RecordWrite, compute_write
from gcushare.device_plugin.pods.force_deleted import ForceDeletedPods
from gcushare.device_plugin.pods.pod import NEEDS_CARDS, PodEntry, PodState, UnreadablePod
from gcushare.device_plugin.pods.unrecorded import UnrecordedHolders
from gcushare.node.node_settings import DEFAULT_LONGEST_WAIT_S
from gcushare.node.pods import NO_SIZES, CardCounts, PlainPod, PodWithCards, SharedGrant, machine_uids
from gcushare.vendors import Vendor
from gcushare.wire.kubelet.plugin_messages import DeviceIds

_AS_RECORDED = (PodState.UNVERIFIED, PodState.FORGOTTEN)
"""States of pods that run with what their record says, as far as is known."""


class PodHoldings:
    """The pods bound to this node, by uid. `store` takes the inputs."""

    def __init__(
        self, vendor: Vendor, *, longest_wait_s: float = DEFAULT_LONGEST_WAIT_S, allows_bursts: bool = True
    ) -> None:
        self._vendor = vendor
        self._longest_wait_s = longest_wait_s
        self._allows_bursts = allows_bursts
        self.entries: dict[str, PodEntry] = {}
        """The pods that ask for cards, by uid."""
        self._others: dict[str, PlainPod] = {}  # They ask for no cards, or their request cannot be read.
        self._unreadable: dict[str, UnreadablePod] = {}
        self._pending = PendingAllocations()
        self._shown = KubeletAllocations()
        self.ended: dict[str, PodRequest | None] = {}
        """Uids and names of pods that ended, in this order. The kubelet may show their ids a while longer.

        A name has what its pod asked for: a static pod may have that name too. None if that is not known; such a name
        counts until podresources is read.
        """
        self.gone = ForceDeletedPods(longest_wait_s)
        self.unrecorded = UnrecordedHolders()
        self.is_listed = False
        """Whether all pods of the node are known: the API server has listed them."""
        self.is_compared = False
        """Whether a checkpoint was read since then, see ``PodStore.close_unknown``."""

    @property
    def everyone(self) -> Mapping[str, PodWithCards]:
        """All pods by uid, also ``_others`` with what the kubelet shows that they hold."""
        for pod in self._others.values():
            pod.units, pod.is_whole = self.unrecorded.holding_of(str(pod.ref))
        return {**self._others, **self.entries}

    def shared(self) -> tuple[SharedGrant, ...]:
        """None: the kubelet gives each id to one pod."""
        return ()

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
        entries = (e for e in self.entries.values() if e.is_whole == whole and e.state in NEEDS_CARDS)
        return [each.as_candidate(self._closed_to(each)) for each in entries]

    def doubtful(self, amount: int, *, whole: bool = False) -> list[Candidate]:
        """Pods with a container of this amount whose calls are unconfirmed: the next call may be for them."""
        uids = {pending.uid for pending in self._pending if pending.whole == whole}
        found = [self.entries[uid] for uid in sorted(uids) if uid in self.entries]
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
        group = self.entries[uid].apart if uid in self.entries else None
        return [e for e in self.entries.values() if group is not None and e.apart == group and e.ref.uid != uid]

    def promised(self) -> dict[int, int]:
        """Units per card that are kept for pods that hold nothing yet."""
        promised: Counter[int] = Counter()
        for entry in self.entries.values():
            if entry.state in (PodState.WAITING, PodState.FORGOTTEN) and not entry.is_whole:
                promised.update(split_over_cards(entry.request.total_units, entry.promise))
        return promised

    def promised_whole(self) -> dict[int, str]:
        """The cards that are kept whole for pods that do not hold them yet, with the uid of the pod of each."""
        return {
            index: entry.ref.uid
            for entry in self.entries.values()
            if entry.is_whole and entry.state is not PodState.SERVED
            for index in set(entry.promise).difference(entry.taken_cards)
        }

    def cards_in_use(self, *, whole: bool) -> frozenset[int]:
        """The cards whose memory, or whose whole device, was given to a pod that has not ended.

        What the kubelet shows counts even if its pod is not known here (a list may be older than the pod), and so do
        pending allocations. A pod that the kubelet was not asked about has what its record says.
        """
        shown = self._shown.cards(whole=whole, without=self.ended)
        entries = [entry for entry in self.entries.values() if entry.is_whole == whole]
        taken = {index for entry in entries for index in entry.taken_cards}
        recorded = {index for entry in entries if entry.state is PodState.UNVERIFIED for index in entry.promise}
        return shown | self._pending.cards(whole=whole) | taken | recorded | self.gone.cards(whole=whole)

    def cards_wanted(self) -> frozenset[int]:
        """The cards that pods have in any use, or were bound to get: their numbers must go on meaning these cards."""
        promised = (index for entry in self.entries.values() for index in entry.promise)
        return frozenset(promised) | self.cards_used

    @property
    def cards_used(self) -> frozenset[int]:
        """The cards that pods have in any use."""
        return self.cards_in_use(whole=False) | self.cards_in_use(whole=True)

    @property
    def is_settled(self) -> bool:
        """Whether all pods are known, none waits for its cards, and no call of the kubelet is unconfirmed."""
        is_waiting = any(entry.state in NEEDS_CARDS for entry in self.entries.values())
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
            for entry in self.entries.values()
            if entry.is_whole == whole
            and card_index in (entry.taken_cards or (entry.promise if entry.may_be_assigned else ()))
        ]
        others = (*self.unrecorded.users_of(card_index, whole=whole), *self.gone.users_of(card_index, whole=whole))
        return sorted((*known, *others))

    def holders(self) -> list[str]:
        """The names of the pods that have cards of this node, or were bound to get them."""
        entries = (entry for entry in self.entries.values() if entry.state is not PodState.OVERDUE)
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
        having = (entry for entry in self.entries.values() if card_index in entry.taken_cards)
        found = {str(entry.ref): entry.units_by_card(sizes)[card_index] for entry in having}
        for holder in self.unrecorded.now.values():
            found[holder.pod] = holder.units.get(card_index, 0) + size * (card_index in holder.whole)
        return {name: units for name, units in found.items() if units}

    def held_units(self, sizes: CardCounts = NO_SIZES) -> Counter[int]:
        """Units per card that pods hold, pending allocations included; ``sizes`` are the units of whole cards."""
        held = self.unrecorded.units(sizes)
        for entry in self.entries.values():
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
            for entry in self.entries.values()
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
        with_inits = [entry for entry in self.entries.values() if entry.inits]
        hidden = [entry for entry in with_inits if entry.inits - entry.shown.keys()]
        shown = {entry.ref.uid for entry in with_inits if str(entry.ref) in found.pods}
        found.add_missing(self._shown, shown.difference(entry.ref.uid for entry in hidden))
        return [each.ref.uid for each in hidden if self._pending or not each.is_checked or each.ref.uid in shown]

    def cards_in_doubt(self) -> frozenset[int]:
        """The cards where pods may hold more units than the kubelet has shown."""
        unverified = (entry.promise for entry in self.entries.values() if entry.state is PodState.UNVERIFIED)
        hidden = (entry.taken_cards for entry in self.entries.values() if entry.inits - entry.shown.keys())
        return frozenset(chain.from_iterable((*unverified, *hidden)))

    def may_continue_another(self, amount: int, *, whole: bool = False) -> bool:
        """Whether a call may be for a further container of a pod whose first one was taken for another pod's.

        Only the kubelet's allocations show it. Before they do, the answer could name another pod's card, and the pod
        would get parts of two.
        """
        given_out = {sum(pending.counts.values()) for pending in self._pending if pending.whole == whole}
        return bool(given_out) and any(
            before.amount in given_out and container.amount == amount and entry.served <= position
            for entry in self.entries.values()
            if entry.is_whole == whole
            for position, (before, container) in enumerate(pairwise(entry.request.containers))
        )

    def writes(self, uuids: Mapping[int, str], units: CardCounts, now_ns: int) -> list[RecordWrite]:
        """The records that must be written, by creation and uid of their pods (see ``compute_write``)."""
        found = (compute_write(entry, self._vendor, uuids, units, now_ns) for entry in self.entries.values())
        return sorted(filter(None, found), key=lambda write: (write.pod.created, write.pod.uid))

    def _names(self) -> dict[str, str]:
        """The names of the pods by the uids that a checkpoint has of them, static pods among them."""
        pods: dict[str, PodWithCards] = {**self._others, **self.entries}
        return {on_machine: str(pods[uid].ref) for uid, on_machine in machine_uids(pods.values()).items()}
