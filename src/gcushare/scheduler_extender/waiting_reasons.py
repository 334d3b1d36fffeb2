"""Why the pods that wait do so, as counts for the metrics; a single pod's own reasons are ``explaining``'s."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable

from gcushare.core.fitting import Shape
from gcushare.core.totals import UnitTotals
from gcushare.scheduler_extender.state import VendorState

MAX_SEARCHED_SHAPES = 16
"""Shapes whose indexes are asked for one answer; after a change of many nodes each takes milliseconds to follow."""


class WaitReason(enum.Enum):
    """Why a pod is not bound; the values are the metric's label."""

    FITS = "fits"
    """A node has room: the scheduler has not asked yet, or something else than card memory keeps the pod."""
    FRAGMENTED = "fragmented"
    """The cluster has enough free units, but no node has them where one pod could use them."""
    FULL = "full"
    """Too little is free, or too little of the cards that the pod's annotations allow."""
    NEVER = "never"
    """No node could hold it even if every pod ended."""
    UNREADABLE = "unreadable"
    """The request is malformed, or asks for what nobody grants."""
    UNJUDGED = "unjudged"
    """It is choosy or wants several cards, which only the scheduler's own indexes can tell, and has none lately."""


def count_waiting(state: VendorState, totals: Iterable[UnitTotals]) -> dict[WaitReason, int]:
    """Count the waiting pods by reason, every reason included; pods whose binding is under way wait no more.

    Costs no look at any node for plain requests: a scrape must not hold the scheduler's calls up.
    """
    counts = dict.fromkeys(WaitReason, 0)
    shapes: Counter[Shape] = Counter()
    reserved = state.ledger.reserved
    for uid, waiting in state.waiting.items():
        if uid in reserved:
            continue
        if waiting.asking is None:
            counts[WaitReason.UNREADABLE] += 1
        else:
            shapes[waiting.asking.shape] += 1
    sums = list(totals)
    searched = 0
    for shape, pods in shapes.most_common():
        if _is_plain(shape):
            reason = _judge_plain(shape, sums)
        else:
            searched += 1
            reason = _search(state, shape, sums) if searched <= MAX_SEARCHED_SHAPES else WaitReason.UNJUDGED
        counts[reason] += pods
    return counts


def _is_plain(shape: Shape) -> bool:
    """Whether the sums over all nodes tell if a node has room: for whole cards, and for memory of one card, any."""
    request = shape.request
    return request.selection is None and (request.whole or request.cards == 1)


def _judge_plain(shape: Shape, totals: list[UnitTotals]) -> WaitReason:
    request = shape.request
    if any(each.fits(request) for each in totals):
        return WaitReason.FITS
    if not any(each.can_ever_fit(request) for each in totals):
        return WaitReason.NEVER
    return WaitReason.FRAGMENTED if any(each.would_do(request) for each in totals) else WaitReason.FULL


def _search(state: VendorState, shape: Shape, totals: list[UnitTotals]) -> WaitReason:
    index, request = state.indexes.find(shape), shape.request
    if index is None:
        return WaitReason.UNJUDGED
    if index.fitting:
        return WaitReason.FITS
    if not index.hopeful:
        return WaitReason.NEVER
    # A choosy pod may use a part of the free units only: which, the sums cannot tell.
    is_free = request.selection is None and any(each.would_do(request) for each in totals)
    return WaitReason.FRAGMENTED if is_free else WaitReason.FULL
