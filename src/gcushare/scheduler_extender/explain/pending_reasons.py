"""Count the waiting pods by reason, for the metrics; ``service`` explains a single pod."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable

from gcushare.core.fit_index import Shape
from gcushare.core.totals import UnitTotals
from gcushare.scheduler_extender.state.scheduling_request import RejectedRequest, SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState

MAX_SEARCHED_SHAPES = 16
"""Shapes whose indexes are asked for one answer; after a change of many nodes each takes milliseconds to follow."""

MAX_SEARCHED_SETS = 16
"""Sets of nodes, each for a shape, that are searched for one answer."""


class PendingReason(enum.Enum):
    """Why a pod is not bound; the values are the metric's label."""

    FITS = "fits"
    """A node has room: the scheduler has not asked yet, or something else than card memory keeps the pod."""
    ELSEWHERE = "elsewhere"
    """A node has room, but the scheduler did not ask about it the last time: a nodeSelector, an affinity, a taint or
    another resource keeps the pod from there, or it took a sample. None of those that it asked about has room."""
    KEPT = "kept"
    """A node has room, of those that the scheduler asked about, but it is kept for another pod there."""
    FRAGMENTED = "fragmented"
    """The cluster has enough free units, but no node has them where one pod could use them."""
    FULL = "full"
    """Too little is free, or too little of the cards that the pod's annotations allow."""
    NEVER = "never"
    """No node could hold it even if every pod ended."""
    REFUSED = "refused"
    """The request is malformed, or asks for what cannot be granted."""
    GATED = "gated"
    """kube-scheduler leaves it alone until its scheduling gates are removed."""
    CLAIM = "claim"
    """It waits for a claim, which kube-scheduler allocates; explain says what keeps it."""
    UNKNOWN = "unknown"
    """It is choosy or wants several cards, which only the scheduler's own indexes can tell, and has none lately."""


def count_pending(state: VendorState, totals: Iterable[UnitTotals]) -> dict[PendingReason, int]:
    """Count the waiting pods by reason, with 0 for the others. Pods whose binding is under way do not wait.

    For plain requests no node is examined: a scrape must not delay the scheduler's calls.
    """
    counts = dict.fromkeys(PendingReason, 0)
    counts[PendingReason.CLAIM] = len(state.claiming)
    shapes: dict[Shape, Counter[tuple[frozenset[str] | None, frozenset[str]]]] = {}
    sums, search, reserved = list(totals), _ShapeSearch(state), state.ledger.reserved
    for uid, waiting in state.waiting.items():
        if uid in reserved:
            continue
        if isinstance(waiting, RejectedRequest):
            counts[PendingReason.REFUSED] += 1
        elif waiting.gates:
            counts[PendingReason.GATED] += 1
        else:
            shapes.setdefault(waiting.shape, Counter())[state.refused_on.get(uid), search.find_kept(waiting)] += 1
    for shape, pods in sorted(shapes.items(), key=lambda item: -item[1].total()):
        reason = search.evaluate(shape, sums)
        for (asked, kept), number in pods.items():
            if reason is not PendingReason.FITS or (asked is None and not kept):
                counts[reason] += number
            else:
                counts[search.narrow(shape, asked, kept)] += number
    return counts


class _ShapeSearch:
    """Searches the indexes of the shapes that the scheduler asked for, within the limits of one answer."""

    def __init__(self, state: VendorState) -> None:
        self._state = state
        self._shapes = 0
        self._sets = 0
        self._kept: dict[tuple[Shape, int, str], frozenset[str]] = {}

    def find_kept(self, request: SchedulingRequest) -> frozenset[str]:
        """The nodes whose room is kept from a pod."""
        nominations = self._state.nominations
        if not nominations:
            return frozenset()
        key = nominations.find_peers(request)
        if key not in self._kept:
            if len(self._kept) >= MAX_SEARCHED_SETS:
                return frozenset()
            self._kept[key] = nominations.closed_to(request)
        return self._kept[key]

    def evaluate(self, shape: Shape, totals: list[UnitTotals]) -> PendingReason:
        """Why pods of a shape wait. The sums tell for whole cards and for memory of one card, any of them."""
        request, index = shape.request, None
        is_choosy = request.selection is not None or request.per_gib or self._state.ledger.has_odd
        if is_choosy or not (request.whole or request.cards == 1):
            self._shapes += 1
            index = self._state.indexes.find(shape) if self._shapes <= MAX_SEARCHED_SHAPES else None
            if index is None:
                return PendingReason.UNKNOWN
        if any(each.fits(request) for each in totals) if index is None else index.fitting:
            return PendingReason.FITS
        if not (any(each.can_ever_fit(request) for each in totals) if index is None else index.after_preemption):
            return PendingReason.NEVER
        # A choosy pod may use a part of the free units only: which, the sums cannot tell.
        is_choosy = request.excludes_cards or request.linked or request.apart is not None
        is_free = not is_choosy and any(each.fits_in_sum(request) for each in totals)
        return PendingReason.FRAGMENTED if is_free else PendingReason.FULL

    def narrow(self, shape: Shape, asked: frozenset[str] | None, kept: frozenset[str]) -> PendingReason:
        """Why a pod waits although some node has room: whether it was asked about, and whether its room is kept."""
        self._sets += 1
        index = self._state.indexes.find(shape) if self._sets <= MAX_SEARCHED_SETS else None
        if index is None:
            return PendingReason.UNKNOWN
        if asked is None:
            return PendingReason.FITS if any(name not in kept for name in index.fitting) else PendingReason.KEPT
        few, many = sorted((asked, index.fitting), key=len)
        if any(name in many and name not in kept for name in few):
            return PendingReason.FITS
        return (
            PendingReason.KEPT if any(name in asked and index.fits(name) for name in kept) else PendingReason.ELSEWHERE
        )
