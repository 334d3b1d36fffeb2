"""filter and prioritize: which of the scheduler's nodes can hold the pod, and how much the policy likes each.

The path of a filter call: decode the pod, find the list of names again, refresh the shape's index by the nodes that
changed, name the best. Nothing on it walks all nodes. What a refusal costs (reasons for every node, an Event with the
numbers) is prepared only when no node fits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gcushare.core.fit_index import FitIndex
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.explain.pending_reasons import judge_refusal
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.node_names import MIN_REORDERED_BYTES, NameList, NameLists
from gcushare.scheduler_extender.verbs.request import SchedulingRequest
from gcushare.wire.extender_api import (
    SCORE_ENDS,
    FilterArguments,
    NodeItem,
    decode_node_items,
    encode_filter_answer,
    encode_host,
    encode_name,
    encode_node_items_answer,
    encode_reasons,
    encode_scores,
    join_reasons,
)

KEPT_REASON = "card memory is kept for a pod that preempts others there"
"""Why a node with room is refused; kube-scheduler puts the number of such nodes before it."""

Notice = Callable[[SchedulingRequest], None]
"""Takes note of a pod that was answered; must return at once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer's body, and the words that metrics count it under."""

    body: bytes
    result: str
    vendor: str
    reason: str = ""
    """Why it is a refusal or an error: one of a few words; empty for all others."""


class FilterService:
    """Answers filter and prioritize for one vendor. ``best`` is how many nodes filter names, None for all that fit.

    ``refusals`` takes each pod that fits none of the nodes asked about, ``offers`` each that fits some.
    """

    def __init__(
        self, state: VendorState, *, best: int | None, refusals: Notice, offers: Notice = lambda _: None
    ) -> None:
        self._state = state
        self._best = best
        self._refusals = refusals
        self._offers = offers
        self.lists = NameLists()
        self.totals = ClusterTotals(state.ledger, state.changes)

    def filter(self, arguments: FilterArguments, asking: SchedulingRequest | None) -> Answer:
        """Name the nodes that can hold the pod, or the best of them; None asks for no card of this vendor.

        Raises:
            RemoteContractError: the nodes of the request cannot be read.
        """
        if arguments.node_names is None:
            return self._filter_items(self._items(arguments), asking)
        names = self.lists.get(arguments.node_names, self._state.most_nodes_asked)
        if asking is None:
            return self._answer(encode_filter_answer(names.encoded), "not_asking")
        return self._filter_names(names, asking)

    def prioritize(self, arguments: FilterArguments, asking: SchedulingRequest | None) -> Answer:
        """Give every node of the request a score from 0 to 10.

        Raises:
            RemoteContractError: the nodes of the request cannot be read.
        """
        if arguments.node_names is None:
            names = NameList([item.name for item in self._items(arguments)], is_kept=False)
        else:
            names = self.lists.get(arguments.node_names, self._state.most_nodes_asked, MIN_REORDERED_BYTES)
        if asking is None:
            scores = (encode_host(name) + SCORE_ENDS[0] for name in names.encoded)
            return self._answer(encode_scores(scores), "not_asking")
        return self._answer(names.answer_scores(self._state.indexes.get(asking.shape)), "scored")

    def _items(self, arguments: FilterArguments) -> list[NodeItem]:
        return decode_node_items(arguments.nodes or b"{}", self._state.most_nodes_asked)

    def _offer(self, asking: SchedulingRequest, nodes: frozenset[str], body: bytes) -> Answer:
        """Answer with nodes that have room; the pod may be bound to one of them."""
        self._state.offered.note(asking.pod.uid, nodes)
        self._offers(asking)
        return self._answer(body, "fits")

    def _answer(self, body: bytes, result: str) -> Answer:
        return Answer(body, result, self._state.vendor.name)

    def _refusal(self, body: bytes, asking: SchedulingRequest) -> Answer:
        reason = judge_refusal(self._state, asking.shape, self.totals)
        return Answer(body, "refused", self._state.vendor.name, reason.value)

    def _reason(self, asking: SchedulingRequest) -> str:
        vendor = self._state.vendor
        return vendor.refused_whole_reason if asking.shape.request.whole else vendor.refused_reason

    def _refuse(self, asking: SchedulingRequest, names: NameList) -> None:
        self._state.asked.note(asking.pod.uid, names.distinct)
        self._refusals(asking)

    def _filter_names(self, names: NameList, asking: SchedulingRequest) -> Answer:
        index = self._state.indexes.get(asking.shape)
        reason = self._reason(asking)
        if closed := self._state.nominations.closed_to(asking) & names.names.keys():
            return self._filter_beside(names, asking, closed)
        if self._best is None:
            if any(map(index.fits, names.order)):
                return self._offer(asking, names.distinct, names.answer_all(index, reason))
        elif best := index.best(names.names, self._best):
            return self._offer(asking, frozenset(best), names.answer_best(best))
        if not names.order:
            return self._answer(encode_filter_answer(()), "empty")
        self._refuse(asking, names)
        return self._refusal(names.answer_none(index, reason), asking)

    def _filter_beside(self, names: NameList, asking: SchedulingRequest, closed: Collection[str]) -> Answer:
        """Answer while room of some nodes is kept for preemptors; rare, so that nothing is prepared for it."""
        index, reason = self._state.indexes.get(asking.shape), self._reason(asking)
        open_names = {name: None for name in names.order if name not in closed}
        fitting = index.best(open_names, len(open_names) if self._best is None else self._best)
        kept = [name for name in names.order if name in closed]
        if fitting and self._best is not None:
            return self._answer(encode_filter_answer(map(encode_name, fitting)), "fits")
        chosen = frozenset(fitting)
        failed = join_reasons(
            encode_reasons(map(encode_name, kept), KEPT_REASON),
            encode_reasons((encode_name(name) for name in open_names if name not in chosen), reason),
        )
        body = encode_filter_answer(map(encode_name, fitting), failed)
        if fitting:
            return self._answer(body, "fits")
        self._refuse(asking, names)
        return self._refusal(body, asking)

    def _filter_items(self, items: list[NodeItem], asking: SchedulingRequest | None) -> Answer:
        """Answer a scheduler that does not know us to cache nodes: it sends whole nodes and wants them back."""
        if asking is None:
            return self._answer(encode_node_items_answer((item.raw for item in items), b"{}", b"{}"), "not_asking")
        index: FitIndex = self._state.indexes.get(asking.shape)
        closed = self._state.nominations.closed_to(asking)
        fitting = [item for item in items if index.fits(item.name) and item.name not in closed]
        if fitting and self._best is not None:
            chosen = set(index.best({item.name: None for item in fitting}, self._best))
            fitting = [item for item in fitting if item.name in chosen]
        failed = b"{}"
        if not fitting or self._best is None:
            refused = dict.fromkeys(item.name for item in items if not index.fits(item.name))
            kept = dict.fromkeys(item.name for item in items if item.name in closed)
            failed = join_reasons(
                encode_reasons(map(encode_name, kept), KEPT_REASON),
                encode_reasons(map(encode_name, refused), self._reason(asking)),
            )
        body = encode_node_items_answer((item.raw for item in fitting), failed, b"{}")
        if fitting:
            return self._offer(asking, frozenset(item.name for item in fitting), body)
        if not items:
            return self._answer(body, "empty")
        self._refuse(asking, NameList([item.name for item in items], is_kept=False))
        return self._refusal(body, asking)
