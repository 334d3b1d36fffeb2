"""filter and prioritize: which of the scheduler's nodes can hold the pod, and how much the policy likes each.

The path of a filter call: decode the pod, find the list of names again, refresh the shape's index by the nodes that
changed, name the best. Nothing on it walks all nodes. What a refusal costs (reasons for every node, an Event with the
numbers) is prepared only when no node fits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gcushare.core.fit_index import FitIndex
from gcushare.core.placement import NamedNodes
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.explain.pending_reasons import evaluate_refusal
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
    """Answers filter and prioritize for one vendor. ``named``: which of the nodes that fit filter names.

    ``refusals`` takes each pod that fits none of the nodes asked about, ``offers`` each that fits some.
    """

    def __init__(
        self, state: VendorState, *, named: NamedNodes, refusals: Notice, offers: Notice = lambda _: None
    ) -> None:
        self._state = state
        self._named = named
        self._refusals = refusals
        self._offers = offers
        self.lists = NameLists()
        self.totals = ClusterTotals(state.ledger, state.changes)

    def filter(self, arguments: FilterArguments, request: SchedulingRequest | None) -> Answer:
        """Name the nodes that can hold the pod, or the best of them; None asks for no card of this vendor.

        Raises:
            RemoteContractError: the nodes of the request cannot be read.
        """
        if arguments.node_names is None:
            return self._filter_items(self._items(arguments), request)
        names = self.lists.get(arguments.node_names, self._state.most_nodes_asked)
        if request is None:
            return self._answer(encode_filter_answer(names.encoded), "not_asking")
        return self._filter_names(names, request)

    def let_through(self, arguments: FilterArguments) -> Answer:
        """Answer for a pod that asks for 0 of our resources: any node will do, and kube-scheduler has us bind it.

        Raises:
            RemoteContractError: the nodes of the request cannot be read.
        """
        if arguments.node_names is None:
            names = frozenset(item.name for item in self._items(arguments))
        else:
            names = self.lists.get(arguments.node_names, self._state.most_nodes_asked).distinct
        self._state.let_through.note(arguments.pod.uid, names)
        return self.filter(arguments, None)

    def prioritize(self, arguments: FilterArguments, request: SchedulingRequest | None) -> Answer:
        """Give every node of the request a score from 0 to 10.

        Raises:
            RemoteContractError: the nodes of the request cannot be read.
        """
        if arguments.node_names is None:
            names = NameList([item.name for item in self._items(arguments)], is_kept=False)
        else:
            names = self.lists.get(arguments.node_names, self._state.most_nodes_asked, MIN_REORDERED_BYTES)
        if request is None:
            scores = (encode_host(name) + SCORE_ENDS[0] for name in names.encoded)
            return self._answer(encode_scores(scores), "not_asking")
        return self._answer(names.answer_scores(self._state.indexes.get(request.shape)), "scored")

    def _items(self, arguments: FilterArguments) -> list[NodeItem]:
        return decode_node_items(arguments.nodes or b"{}", self._state.most_nodes_asked)

    def _offer(self, request: SchedulingRequest, nodes: frozenset[str], body: bytes) -> Answer:
        """Answer with nodes that have room; the pod may be bound to one of them."""
        self._state.offered.note(request.pod.uid, nodes)
        self._offers(request)
        return self._answer(body, "fits")

    def _answer(self, body: bytes, result: str) -> Answer:
        return Answer(body, result, self._state.vendor.name)

    def _refusal(self, body: bytes, request: SchedulingRequest, *, is_kept: bool = False) -> Answer:
        reason = evaluate_refusal(self._state, request.shape, self.totals, is_kept=is_kept)
        return Answer(body, "refused", self._state.vendor.name, reason.value)

    def _reason(self, request: SchedulingRequest) -> str:
        vendor = self._state.vendor
        return vendor.refused_whole_reason if request.cards.whole else vendor.refused_reason

    def _refuse(self, request: SchedulingRequest, names: NameList) -> None:
        self._state.asked.note(request.pod.uid, names.distinct)
        self._refusals(request)

    def _filter_names(self, names: NameList, request: SchedulingRequest) -> Answer:
        index = self._state.indexes.get(request.shape)
        reason = self._reason(request)
        if closed := self._state.nominations.closed_to(request) & names.names.keys():
            return self._filter_beside(names, request, closed)
        if self._named.most is None:
            if any(map(index.fits, names.order)):
                return self._offer(request, names.distinct, names.answer_all(index, reason))
        elif best := self._best(index, names.names):
            return self._offer(request, frozenset(best), names.answer_best(best))
        if not names.order:
            return self._answer(encode_filter_answer(()), "empty")
        self._refuse(request, names)
        return self._refusal(names.answer_none(index, reason), request)

    def _best(self, index: FitIndex, among: Collection[str]) -> list[str]:
        most = len(among) if self._named.most is None else self._named.most
        return index.best(among, most, only_equal=self._named.only_equal)

    def _filter_beside(self, names: NameList, request: SchedulingRequest, closed: Collection[str]) -> Answer:
        """Answer while room of some nodes is kept for preemptors; rare, so that nothing is prepared for it."""
        index, reason = self._state.indexes.get(request.shape), self._reason(request)
        open_names = {name: None for name in names.order if name not in closed}
        fitting = self._best(index, open_names)
        kept = [name for name in names.order if name in closed]
        if fitting and self._named.most is not None:
            return self._offer(request, frozenset(fitting), encode_filter_answer(map(encode_name, fitting)))
        chosen = frozenset(fitting)
        failed = join_reasons(
            encode_reasons(map(encode_name, kept), KEPT_REASON),
            encode_reasons((encode_name(name) for name in open_names if name not in chosen), reason),
        )
        body = encode_filter_answer(map(encode_name, fitting), failed)
        if fitting:
            return self._offer(request, chosen, body)
        self._refuse(request, names)
        return self._refusal(body, request, is_kept=True)

    def _filter_items(self, items: list[NodeItem], request: SchedulingRequest | None) -> Answer:
        """Answer a scheduler that does not know us to cache nodes: it sends whole nodes and wants them back."""
        if request is None:
            return self._answer(encode_node_items_answer((item.raw for item in items), b"{}", b"{}"), "not_asking")
        index: FitIndex = self._state.indexes.get(request.shape)
        closed = self._state.nominations.closed_to(request)
        fitting = [item for item in items if index.fits(item.name) and item.name not in closed]
        if fitting and self._named.most is not None:
            chosen = set(self._best(index, {item.name: None for item in fitting}))
            fitting = [item for item in fitting if item.name in chosen]
        failed = b"{}"
        if not fitting or self._named.most is None:
            refused = dict.fromkeys(item.name for item in items if not index.fits(item.name))
            kept = dict.fromkeys(item.name for item in items if item.name in closed)
            failed = join_reasons(
                encode_reasons(map(encode_name, kept), KEPT_REASON),
                encode_reasons(map(encode_name, refused), self._reason(request)),
            )
        body = encode_node_items_answer((item.raw for item in fitting), failed, b"{}")
        if fitting:
            return self._offer(request, frozenset(item.name for item in fitting), body)
        if not items:
            return self._answer(body, "empty")
        self._refuse(request, NameList([item.name for item in items], is_kept=False))
        return self._refusal(body, request, is_kept=bool(closed))
