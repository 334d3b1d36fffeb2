"""filter and prioritize: which of the scheduler's nodes can hold the pod, and how much the policy likes each.

The path of a filter call: decode the pod, find the list of names again, refresh the shape's index by the nodes that
changed, name the best. Nothing on it walks all nodes. What a refusal costs (reasons for every node, an Event with the
numbers) is prepared only when no node fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gcushare.core.fitting import FitIndex
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.asking import Asking
from gcushare.scheduler_extender.name_lists import MIN_REORDERED_BYTES, NameList, NameLists
from gcushare.scheduler_extender.state import VendorState
from gcushare.scheduler_extender.waiting_reasons import judge_refusal
from gcushare.wire.extender import (
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
)

Notice = Callable[[Asking], None]
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

    def filter(self, arguments: FilterArguments, asking: Asking | None) -> Answer:
        """Name the nodes that can hold the pod, or the best of them; None asks for no card of this vendor.

        Raises:
            RemoteContractError: the nodes of the request cannot be read.
        """
        if arguments.node_names is None:
            return self._filter_items(decode_node_items(arguments.nodes or b"{}"), asking)
        names = self.lists.get(arguments.node_names)
        if asking is None:
            return self._answer(encode_filter_answer(names.encoded), "not_asking")
        return self._filter_names(names, asking)

    def prioritize(self, arguments: FilterArguments, asking: Asking | None) -> Answer:
        """Give every node of the request a score from 0 to 10.

        Raises:
            RemoteContractError: the nodes of the request cannot be read.
        """
        if arguments.node_names is None:
            names = NameList([item.name for item in decode_node_items(arguments.nodes or b"{}")])
        else:
            names = self.lists.get(arguments.node_names, MIN_REORDERED_BYTES)
        if asking is None:
            scores = (encode_host(name) + SCORE_ENDS[0] for name in names.encoded)
            return self._answer(encode_scores(scores), "not_asking")
        return self._answer(names.answer_scores(self._state.indexes.get(asking.shape)), "scored")

    def _answer(self, body: bytes, result: str) -> Answer:
        return Answer(body, result, self._state.vendor.name)

    def _refusal(self, body: bytes, asking: Asking) -> Answer:
        reason = judge_refusal(self._state, asking.shape, self.totals)
        return Answer(body, "refused", self._state.vendor.name, reason.value)

    def _reason(self, asking: Asking) -> str:
        vendor = self._state.vendor
        return vendor.refused_whole_reason if asking.shape.request.whole else vendor.refused_reason

    def _refuse(self, asking: Asking, names: NameList) -> None:
        self._state.asked.note(asking.pod.uid, names.distinct)
        self._refusals(asking)

    def _filter_names(self, names: NameList, asking: Asking) -> Answer:
        index = self._state.indexes.get(asking.shape)
        reason = self._reason(asking)
        if self._best is None:
            if any(map(index.fits, names.order)):
                self._offers(asking)
                return self._answer(names.answer_all(index, reason), "fits")
        elif (best := names.answer_best(index, self._best)) is not None:
            self._offers(asking)
            return self._answer(best, "fits")
        if not names.order:
            return self._answer(encode_filter_answer(()), "empty")
        self._refuse(asking, names)
        return self._refusal(names.answer_none(index, reason), asking)

    def _filter_items(self, items: list[NodeItem], asking: Asking | None) -> Answer:
        """Answer a scheduler that does not know us to cache nodes: it sends whole nodes and wants them back."""
        if asking is None:
            return self._answer(encode_node_items_answer((item.raw for item in items), b"{}", b"{}"), "not_asking")
        index: FitIndex = self._state.indexes.get(asking.shape)
        fitting = [item for item in items if index.fits(item.name)]
        if fitting and self._best is not None:
            chosen = set(index.best({item.name: None for item in fitting}, self._best))
            fitting = [item for item in fitting if item.name in chosen]
        failed = b"{}"
        if not fitting or self._best is None:
            refused = dict.fromkeys(item.name for item in items if not index.fits(item.name))
            failed = encode_reasons(map(encode_name, refused), self._reason(asking))
        body = encode_node_items_answer((item.raw for item in fitting), failed, b"{}")
        if fitting:
            self._offers(asking)
            return self._answer(body, "fits")
        if not items:
            return self._answer(body, "empty")
        self._refuse(asking, NameList([item.name for item in items], is_kept=False))
        return self._refusal(body, asking)
