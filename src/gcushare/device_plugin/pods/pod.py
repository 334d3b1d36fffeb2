"""One pod as the plugin knows it: what it asks for, what its record says, what is kept for it, what it really holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gcushare.core.errors import GcushareError
from gcushare.core.matching import Candidate
from gcushare.core.nodes import PodRef
from gcushare.core.requests import ContainerKind, PodRequest, split_over_cards
from gcushare.vendors import Vendor
from gcushare.wire.annotations.record import PodRecord
from gcushare.wire.objects import Pod
from gcushare.wire.pods import NO_OPTIONS, PodOptions, pod_request

CardCounts = Mapping[int, int]
"""Units (ids) per card index; 1 per card that is held whole."""
NO_SIZES: CardCounts = {}
STATIC_POD_UID = "kubernetes.io/config.hash"
"""Annotation of a static pod's mirror: the uid that the kubelet knows the pod by, the API server's is the mirror's."""
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a static pod's mirror. The API server lets no one change it, and the kubelet runs no other with it."""
DEFAULT_GRACE_S = 30.0
"""Kubernetes' own default of ``terminationGracePeriodSeconds``."""


@dataclass(frozen=True, slots=True)
class UnreadablePod:
    """A pod whose request or record cannot be read, or whose request is none that is granted, and why."""

    pod: PodRef
    reason: str


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
    is_recorded_here: bool = False
    """Whether it was served completely, and its record was written from here since."""
    held: dict[str, CardCounts] = field(default_factory=dict)
    unconfirmed: set[str] = field(default_factory=set)
    record_error: str = ""
    """Why its record cannot be read; it is then as good as none, and is written again once the truth is known."""
    is_checked: bool = False
    """Whether the kubelet's record was asked about this pod since it is here."""
    grace_s: float = DEFAULT_GRACE_S
    """How long its containers may take to end."""
    ends_at_s: float | None = None
    """When they are to have ended, in seconds since the epoch; None while its deletion was not asked for."""
    deletion_grace_s: float = 0.0
    """How long before that its deletion was asked for: whoever did chose this time, which may not be its author's."""

    @property
    def is_whole(self) -> bool:
        """Whether it asks for whole cards, not for memory."""
        return self.request.cards.whole

    @property
    def is_static(self) -> bool:
        """Whether it is a static pod's mirror."""
        return MIRROR in self.annotations

    @property
    def machine_uid(self) -> str:
        """The uid by which its machine knows a static pod: its checkpoint and its processes; "" of any other pod."""
        return self.annotations.get(STATIC_POD_UID, "") if self.is_static else ""

    @property
    def uids(self) -> tuple[str, ...]:
        """The uids by which the kubelet's checkpoint may name it."""
        return tuple(uid for uid in (self.ref.uid, self.machine_uid) if uid)

    @property
    def keys(self) -> tuple[str, ...]:
        """Those by which either source of the kubelet's record may name it."""
        return (*self.uids, str(self.ref))

    def overdue_since_s(self, longest_wait_s: float) -> float | None:
        """When a pod that is being deleted should have ended, having had this time at most; None where it is not."""
        return None if self.ends_at_s is None else self.ends_at_s - max(0.0, self.deletion_grace_s - longest_wait_s)

    def take_record(self, record: PodRecord | None, annotations: Mapping[str, str], *, record_error: str = "") -> None:
        """Take the record's newest state in; cards that somebody else wrote into a waiting pod's are kept from now on.

        Of a pod that was served completely, and of a record that cannot be read, nothing changes a promise.
        """
        cards = record.card_indexes if record is not None else ()
        is_news = cards != (self.record.card_indexes if self.record is not None else ()) and cards != self.written
        if is_news and not record_error and not self.is_complete:
            self.promise = cards
        self.record, self.annotations, self.record_error = record, annotations, record_error

    def note_written(self, cards: tuple[int, ...], *, is_served: bool) -> None:
        """Remember what was written into its record, and for a pod that was ``is_served`` completely or still waits.

        What was planned for a served one is over then: who is bound later was placed beside it as it stands.
        """
        self.written = cards
        if is_served:
            self.promise, self.is_recorded_here = cards, True

    @property
    def claims_cards(self) -> bool:
        """Whether its record says that it was given its cards, or may have before it became unreadable."""
        return bool(self.record_error) or (self.record is not None and self.record.assigned)

    @property
    def is_in_doubt(self) -> bool:
        """Whether it may hold what it claims, which the kubelet's record has not been asked about yet."""
        return self.claims_cards and not self.is_checked and not self.held

    @property
    def is_waiting(self) -> bool:
        """Whether cards are kept for it of which it was given nothing yet."""
        return bool(self.promise) and not self.held and not self.is_in_doubt

    @property
    def is_forgotten(self) -> bool:
        """Whether its record says that it was given its cards, and the kubelet knows of none: its checkpoint was lost.

        It runs on, on those cards. Only a kubelet that admits it again gives it others.
        """
        is_recorded = self.is_recorded_here or (self.record is not None and self.record.assigned)
        return is_recorded and not (self.held or self.is_in_doubt or self.record_error)

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
        return self.served == len(self.request.containers) and not self.unconfirmed

    def is_init(self, name: str) -> bool:
        """Whether a container is an ordinary init container."""
        return any(c.name == name and c.kind is ContainerKind.INIT for c in self.request.containers)

    @property
    def held_cards(self) -> tuple[int, ...]:
        return tuple(sorted({index for counts in self.held.values() for index in counts}))

    @property
    def has_cards_of_init_alone(self) -> bool:
        """Whether only ordinary init containers ask for some of its whole cards."""
        asked = sum(c.whole_cards for c in self.request.containers if c.kind is not ContainerKind.INIT)
        return self.is_whole and asked < self.request.cards.cards

    @property
    def taken_cards(self) -> tuple[int, ...]:
        """The cards that it has: those it holds, and of whole ones those too that its init containers held.

        The kubelet keeps an ordinary init container's whole cards for the pod, and podresources does not show them.
        """
        held = self.held_cards
        if self.is_whole and held and len(self.promise) == self.request.cards.cards and set(held) <= set(self.promise):
            return tuple(sorted(self.promise))
        return held

    @property
    def hidden_cards(self) -> tuple[int, ...]:
        """The cards of which it may hold more than podresources shows: it leaves ordinary init containers out."""
        if self.is_in_doubt:
            return self.promise
        return self.held_cards if any(c.kind is ContainerKind.INIT for c in self.request.containers) else ()

    @property
    def first_share(self) -> CardCounts:
        """What the kubelet hands out first of what is kept for it."""
        first = self.request.containers[0]
        if self.is_whole:
            return dict.fromkeys(sorted(self.promise)[: first.whole_cards], 1)
        return split_over_cards(first.units, self.promise)

    def as_candidate(self, *, is_displaced: bool = False) -> Candidate:
        """The pod as matching sees it; one of memory that is half served is bound to the card that it already holds."""
        cards = self.promise if self.is_whole else self.held_cards or self.promise
        assume_time = self.record.assign_time_ns if self.record else 0
        return Candidate(self.ref, self.request, cards, assume_time, self.served, is_displaced, self.is_forgotten)


def bound_request(pod: Pod, vendor: Vendor, record: PodRecord | None) -> PodRequest | None:
    """What the kubelet gives a bound pod, whether or not it would have been granted; None where it asks for no card.

    Once cards were chosen, the record says over how many memory is spread: what an author writes on the pod afterwards
    is no request any more. Cards that do not divide the memory were the kubelet's doing, not a choice. Without a record
    that can be read, options that can be read are the best guess, and others are left out: they decide nothing now.

    Raises:
        RemoteContractError, Refused: the amounts cannot be read, or are of memory and of whole cards.
    """
    if record is None:
        try:
            return pod_request(pod, vendor, is_bound=True)
        except GcushareError:
            return pod_request(pod, vendor, options=NO_OPTIONS, is_bound=True)
    request = pod_request(pod, vendor, options=NO_OPTIONS, is_bound=True)
    count = len(record.card_indexes)
    if request is None or request.cards.whole or any(container.units % count for container in request.containers):
        return request
    return pod_request(pod, vendor, options=PodOptions(cards=count), is_bound=True)


def find_refusal(pod: Pod, vendor: Vendor, record: PodRecord | None) -> str:
    """Why a bound pod's request is none that the extender grants; "" where it is one, or where it asks for no card."""
    try:
        pod_request(pod, vendor, options=None if record is None else NO_OPTIONS)
    except GcushareError as error:
        return str(error)
    return ""


def age(entry: PodEntry) -> tuple[int, str, str]:
    """A sort key: when its cards were chosen, then its creation."""
    return (entry.record.assign_time_ns if entry.record is not None else 0, entry.ref.created, entry.ref.uid)


def peak_per_card(entry: PodEntry, sizes: CardCounts = NO_SIZES) -> dict[int, int]:
    """Units per card that a pod holds; ``sizes`` are the cards' units, all of which a pod has that holds one whole.

    Its containers' ids overlap where init containers' are used again.
    """
    cards = entry.taken_cards
    if entry.is_whole:
        return {index: sizes.get(index, 0) for index in cards}
    if len(cards) == 1 and entry.served == len(entry.request.containers):
        return {cards[0]: entry.request.total_units}
    sums: dict[int, int] = {}
    for counts in entry.held.values():
        for index, units in counts.items():
            sums[index] = sums.get(index, 0) + units
    return sums


def exchange_promises(entries: Collection[PodEntry]) -> None:
    """Give the cards kept for a pod that got others to the pod whose cards it got.

    Pods of equal requests only ever change places, so all of them fit as they were planned. Again until no one is left
    to change with: after a restart the records tell of several changes at once, one of which makes way for the next.
    """
    waiting = sorted((e for e in entries if e.is_waiting and not e.is_forgotten), key=age)
    moved = sorted((e for e in entries if e.promise and e.is_complete), key=age)
    while any(_change_places(each, waiting) for each in moved):
        pass


def _change_places(moved: PodEntry, waiting: Iterable[PodEntry]) -> bool:
    """Whether one of those that wait got what was kept for a pod that has other cards now: its cards' own."""
    if set(moved.promise) == set(moved.taken_cards):
        return False
    for successor in waiting:
        if successor.request.cards == moved.request.cards and set(successor.promise) == set(moved.taken_cards):
            successor.promise, moved.promise = moved.promise, successor.promise
            return True
    return False
