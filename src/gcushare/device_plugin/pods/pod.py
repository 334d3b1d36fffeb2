"""One pod of this node: what it asks for, what its record says, which cards are kept for it, which it holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from gcushare.core.assignments import ApartGroup, PodRef
from gcushare.core.errors import GcushareError
from gcushare.core.matching import Candidate
from gcushare.core.requests import (
    CardRequest,
    CardSelection,
    ContainerKind,
    PodRequest,
    effective_request,
    split_over_cards,
)
from gcushare.node.pods import NO_SIZES, CardCounts, overdue_since_s
from gcushare.vendors import Vendor
from gcushare.wire.annotations import PodRecord, corrected_text
from gcushare.wire.objects import Pod
from gcushare.wire.pod_options import NO_OPTIONS, PodOptions, memory_limit, pod_options, recorded_apart
from gcushare.wire.pods import pod_ref, pod_request

DEFAULT_GRACE_S = 30.0
"""Kubernetes' own default of ``terminationGracePeriodSeconds``."""


@dataclass(frozen=True, slots=True)
class UnreadablePod:
    """A pod whose request or record cannot be read, or whose request the extender would not grant, and why."""

    pod: PodRef
    reason: str


class PodState(Enum):
    """What a bound pod that asks for cards has of them."""

    WAITING = "It holds nothing. Cards are kept for it if a record says which."
    DISPLACED = "It waits, and units like those kept for it were given out; the kubelet does not show yet to which pod."
    UNVERIFIED = "Its record may say that it has its cards, and the kubelet was not read since."
    PARTLY_SERVED = "Some of its containers hold cards; the kubelet asks for the next one."
    UNCONFIRMED = "All its containers were served; the kubelet does not show all of that yet."
    SERVED = "All its containers hold cards, and the kubelet shows it."
    FORGOTTEN = "Its record says that it has its cards, and the kubelet knows of none: its checkpoint was lost."
    OVERDUE = "It should have ended by now, and the kubelet shows nothing of it: nothing is kept for it."


NEEDS_CARDS = frozenset({PodState.WAITING, PodState.DISPLACED, PodState.PARTLY_SERVED, PodState.FORGOTTEN})
"""A call of the kubelet may be for a pod in one of these states; for a forgotten one only if for no other."""


@dataclass(slots=True)
class PodEntry:
    """One bound, unfinished pod of this node that asks for cards.

    Three things say which cards are its own: what its ``record`` names, the ``promise`` that is kept for it, and what
    its containers hold: ``shown`` by the kubelet, or in ``held`` also what was given out since. The pod store computes
    ``held`` and ``state`` at every event; nothing else writes them.
    """

    ref: PodRef
    request: PodRequest
    record: PodRecord | None
    annotations: Mapping[str, str]
    promise: tuple[int, ...] = ()
    """The cards that are kept for it: those of its record, or of a pod with an equal request that got its own cards."""
    is_recorded_here: bool = False
    """Whether its record was written from here after it was served."""
    assign_time_ns: int = 0
    """When its cards were chosen, as its record said until it was served: what is written afterwards does not count."""
    corrected: dict[frozenset[int], str] = field(default_factory=dict)
    """What its record says of a correction, if it names these cards: as first seen, and as written here."""
    record_error: str = ""
    """Why its record cannot be read. It then counts as none, and is written again once the kubelet shows the cards."""
    is_checked: bool = False
    """Whether the kubelet's allocations were read since this pod is known."""
    selection: CardSelection | None = None
    """The cards that its author allowed when it came; None for all."""
    may_burst: bool = True
    """Whether the admin lets pods of this node use more than their grants."""
    grace_s: float = DEFAULT_GRACE_S
    """How long its containers may take to end."""
    ends_at_s: float | None = None
    """When its containers have to end, in seconds since the epoch; None if its deletion was not requested."""
    deletion_grace_s: float = 0.0
    """How long before ``ends_at_s`` its deletion was requested. The client of that request chose this time."""
    is_overdue: bool = False
    """Whether the time in which it had to end is over."""
    shown: dict[str, CardCounts] = field(default_factory=dict)
    """What the kubelet shows that its containers hold; while it cannot be read, also what was given out long ago."""
    held: dict[str, CardCounts] = field(default_factory=dict)
    """What its containers hold: ``shown``, and what was given to it since."""
    state: PodState = PodState.WAITING

    @property
    def is_whole(self) -> bool:
        """Whether it asks for whole cards, not for memory."""
        return self.request.cards.whole

    @property
    def limit(self) -> int:
        """The units of each card that it may use while no other pod needs them; 0 if only those it requests."""
        return memory_limit(self.annotations, self.request.cards) if self.may_burst else 0

    @property
    def rules(self) -> tuple[CardRequest, CardSelection | None, int]:
        """All that decides which cards it may have. Pods with equal rules may change places."""
        return self.request.cards, self.selection, self.limit

    @property
    def keys(self) -> tuple[str, str]:
        """The keys by which the checkpoint or podresources may name it."""
        return self.ref.uid, str(self.ref)

    def overdue_since_s(self, longest_wait_s: float) -> float | None:
        """When a pod that is being deleted should have ended, given at most this time; None if it is not deleted."""
        return overdue_since_s(self.ends_at_s, self.deletion_grace_s, longest_wait_s)

    def on_record_update(self, record: PodRecord | None, annotations: Mapping[str, str], *, error: str = "") -> None:
        """Use the newest record. Cards that another program wrote on a pod that was not served are now kept for it.

        A record that cannot be read (``error``) changes no promise, and no record changes that of a served pod.
        """
        cards = record.card_indexes if record is not None else ()
        is_changed = cards != (self.record.card_indexes if self.record is not None else ())
        if is_changed and not error and self.state is not PodState.SERVED:
            self.promise = cards
        if record is not None and (self.state is not PodState.SERVED or not self.assign_time_ns):
            self.assign_time_ns = record.assign_time_ns
        if record is not None and not self.corrected:
            is_this_life = bool(record.uid) or record.assigned
            self.corrected[frozenset(cards)] = corrected_text(annotations) if is_this_life else ""
        self.record, self.annotations, self.record_error = record, annotations, error

    def on_record_written(self, cards: tuple[int, ...], corrected: str) -> None:
        """Store what was written: it is planned where it is."""
        self.corrected[frozenset(cards)] = corrected
        self.promise, self.is_recorded_here = cards, True

    @property
    def may_be_assigned(self) -> bool:
        """Whether its record says that it was given its cards, or may have before it became unreadable."""
        return bool(self.record_error) or (self.record is not None and self.record.assigned)

    def find_state(self) -> PodState:
        """Compute its state from what it holds and what its record says.

        Never ``DISPLACED``: which of the waiting pods are displaced depends on the other pods of the node.
        """
        if self.held:
            if self.served < len(self.request.containers):
                return PodState.PARTLY_SERVED
            is_confirmed = not self.unconfirmed and self.inits <= self.held.keys()
            return PodState.SERVED if is_confirmed else PodState.UNCONFIRMED
        if self.is_overdue:
            return PodState.OVERDUE
        if self.may_be_assigned and not self.is_checked:
            return PodState.UNVERIFIED
        if not self.record_error and (self.is_recorded_here or self.may_be_assigned):
            return PodState.FORGOTTEN
        return PodState.WAITING

    @property
    def unconfirmed(self) -> Set[str]:
        """The containers that the kubelet does not show yet with what they hold."""
        return self.held.keys() - self.shown.keys()

    @property
    def served(self) -> int:
        """How many of its asking containers were served, in the kubelet's order.

        A container that holds ids proves that all before it were served.
        """
        containers = self.request.containers
        return next((at for at in range(len(containers), 0, -1) if containers[at - 1].name in self.held), 0)

    @property
    def inits(self) -> frozenset[str]:
        """The ordinary init containers that ask for cards. What they were given stays the pod's."""
        return frozenset(each.name for each in self.request.containers if each.kind is ContainerKind.INIT)

    @property
    def taken_cards(self) -> tuple[int, ...]:
        """The cards that its containers hold."""
        return tuple(sorted({index for counts in self.held.values() for index in counts}))

    @property
    def is_recorded(self) -> bool:
        """Whether its record names all the cards that it holds, so that these count as its own."""
        return self.record is not None and set(self.taken_cards) <= set(self.record.card_indexes)

    @property
    def first_share(self) -> CardCounts:
        """The part of its promise that the kubelet gives out first."""
        first = self.request.containers[0]
        if self.is_whole:
            return dict.fromkeys(sorted(self.promise)[: first.whole_cards], 1)
        return split_over_cards(first.units, self.promise)

    def units_by_card(self, sizes: CardCounts = NO_SIZES) -> dict[int, int]:
        """Compute the units per card that it holds. A whole card counts as all of its units, which ``sizes`` has.

        Containers' ids overlap: those of init containers are used again. So the rule for a pod's request is applied to
        each card, and what that does not explain is taken for an equal split.
        """
        cards, containers = self.taken_cards, self.request.containers
        if self.is_whole:
            return {index: sizes.get(index, 0) for index in cards}
        units = {
            index: effective_request(
                (each.kind, self.held.get(each.name, NO_SIZES).get(index, 0)) for each in containers
            )
            for index in cards
        }
        total = self.request.total_units
        if self.served == len(containers) and sum(units.values()) != total:
            return split_over_cards(total, cards)
        return units

    def entitled_units(self) -> CardCounts:
        """All that it was granted, divided over its cards, until each of its containers was given its part."""
        cards = self.taken_cards or self.promise
        if self.is_whole or not cards or self.served == len(self.request.containers):
            return NO_SIZES
        return split_over_cards(self.request.total_units, cards)

    @property
    def placed_s(self) -> float:
        """When its cards were chosen, else when it was created, in seconds since the epoch."""
        if self.assign_time_ns:
            return self.assign_time_ns / 1e9
        try:
            return datetime.fromisoformat(self.ref.created).timestamp()
        except (ValueError, OverflowError):
            return 0.0

    @property
    def age(self) -> tuple[int, str, str]:
        """A sort key, oldest first: when its cards were chosen, then its creation."""
        return (self.assign_time_ns, self.ref.created, self.ref.uid)

    @property
    def apart(self) -> ApartGroup | None:
        """The pods with which it shares no card."""
        return self.selection.apart if self.selection is not None else None

    def as_candidate(self, closed: frozenset[int] = frozenset()) -> Candidate:
        """The pod as matching needs it. A pod of memory that is partly served needs the card that it already holds.

        Each call of the kubelet asks this of every pod that waits, and those hold nothing. ``closed``: see `Candidate`.
        """
        holds = bool(self.held)
        return Candidate(
            self.ref,
            self.request,
            (holds and not self.is_whole and self.taken_cards) or self.promise,
            assume_time_ns=self.assign_time_ns,
            served=self.served if holds else 0,
            held=self.units_by_card() if holds else NO_SIZES,
            selection=self.selection,
            is_displaced=self.state is PodState.DISPLACED,
            is_forgotten=self.state is PodState.FORGOTTEN,
            is_ending=self.ends_at_s is not None and not self.held,
            closed=closed,
        )


def new_entry(pod: Pod, vendor: Vendor, record: PodRecord | None, *, may_burst: bool) -> PodEntry | None:
    """A bound pod that holds nothing yet, without its record; None if it asks for no card, or is a mirror.

    Raises:
        RemoteContractError, Refused: the amounts cannot be read, or are of memory and of whole cards.
    """
    request = _bound_request(pod, vendor, record)
    if request is None:
        return None
    seconds = pod.spec.termination_grace_period_seconds
    grace_s = DEFAULT_GRACE_S if seconds is None else float(seconds)
    selection = _authors_selection(pod, request.cards, vendor)
    return PodEntry(pod_ref(pod), request, None, {}, selection=selection, may_burst=may_burst, grace_s=grace_s)


def _bound_request(pod: Pod, vendor: Vendor, record: PodRecord | None) -> PodRequest | None:
    """Read what the kubelet gives a bound pod, even if the extender would refuse it; None if it asks for no card.

    Once cards were chosen, the record says over how many memory is spread: annotations that the author adds later
    change no request. A number of cards that does not divide the memory was the kubelet's choice and is ignored.
    Without a readable record the pod's options decide if they can be read, and are left out otherwise.
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


def _authors_selection(pod: Pod, request: CardRequest, vendor: Vendor) -> CardSelection | None:
    """The cards that a pod's author allows, None for all. Options that the extender would refuse allow all."""
    annotations = pod.metadata.annotations
    apart = None if request.whole else recorded_apart(pod, vendor)
    try:
        selection = pod_options(annotations).selection
    except GcushareError:
        return CardSelection(apart=apart) if apart is not None else None
    limit = memory_limit(annotations, request)
    is_plain = not limit and apart is None
    return selection if is_plain else replace(selection or CardSelection(), limit=limit, apart=apart)


def find_refusal(pod: Pod, vendor: Vendor, record: PodRecord | None) -> str:
    """Say why the extender would refuse a bound pod's request; "" if it would not, or if the pod asks for no card."""
    try:
        pod_request(pod, vendor, options=None if record is None else NO_OPTIONS)
    except GcushareError as error:
        return str(error)
    return ""
