"""filter and prioritize: which of the scheduler's nodes can hold the pod, and how much the policy prefers each.

A filter call decodes the pod's identity and the names, updates the shape's index with the nodes that changed, and names
the best. It walks the nodes of the request, but not all nodes. Only if no node fits are the reasons for every node and
the numbers for an Event prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from gcushare.core.explain.verdicts import Verdict, evaluate
from gcushare.core.fit_index import FitIndex
from gcushare.core.totals import ClusterTotals
from gcushare.scheduler_extender.extender_settings import NamedNodes
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.request_metrics import VerbAnswer
from gcushare.wire.extender_api import AskedNodes, FilterArguments, decode_asked_nodes, encode_scores

KEPT_REASON = "card memory is kept for another pod there"
"""Why a node with room is refused; kube-scheduler puts the number of such nodes before it."""

APART_REASON = "the cards with room there hold pods that this one shares no card with (gcushare.io/apart)"
"""Why a node is refused that has room for a pod which is not kept apart."""

STARTING_REASON = "a pod of the same size and other rules is starting there"
"""Why a node with room is not named: bind would have to wait, and other nodes have room."""

DISTRUST_REASON = "card memory is counted there in another unit, or by another system"
"""Why a node is refused whose amount cannot be trusted; the log, explain and doctor name both counts."""

UNIT_REASON = "card memory is counted there in another unit than the pod's (gcushare.io/memory-unit)"
"""Why a node is refused on which the pod would get another amount than its author meant."""

NO_ROOM = "no_room"
"""The reason of such answers in the metrics; `PendingReason` says more of the pods that wait."""

Listener = Callable[[SchedulingRequest], None]
"""Called with a pod that was answered; must return at once."""


class FilterService:
    """Answers filter and prioritize for one vendor. ``named``: which of the nodes that fit filter names.

    ``refusals`` is called with each pod that fits none of the nodes asked about, ``offers`` with each that fits some.
    """

    def __init__(
        self, state: VendorState, *, named: NamedNodes, refusals: Listener, offers: Listener = lambda _: None
    ) -> None:
        self._state = state
        self._named = named
        self._refusals = refusals
        self._offers = offers
        self.totals = ClusterTotals(state.ledger, state.changes)

    def filter(self, arguments: FilterArguments, request: SchedulingRequest | None) -> VerbAnswer:
        """Name the nodes that can hold the pod, or the best of them; None asks for no card of this vendor.

        Raises:
            RemoteContractError: the nodes of the request cannot be read.
        """
        asked = self._read_nodes(arguments)
        if request is None:
            return self._answer(asked.encode_answer(asked.names), "not_asking")
        if not asked.names:
            return self._answer(asked.encode_answer(()), "empty")
        state, nominations = self._state, self._state.nominations
        index = state.indexes.get(request.shape)
        if request.group:
            nominations.begin_member(request)
        kept = nominations.closed_to(request) & asked.names.keys()
        open_names = {name: None for name in asked.names if name not in kept} if kept else asked.names
        held = state.ledger.assignment(request.pod.uid)  # Its Binding may have got no answer, and is sent again.
        named = [held.node] if held and held.node in asked.names else self._choose_quiet(index, open_names, request)
        if not named and (others := self._find_for_whole(request, asked)):
            return self._send_without_cards(request.pod.uid, asked, others)
        if not named:
            if request.group:
                nominations.refuse_member(request)
            return self._refuse(request, asked, index, kept)
        if request.group:
            nominations.expect_member(request, named[0])
        failed = {}
        if self._named.most is None and not request.group:
            fitting = index.fitting
            failed = dict.fromkeys(kept, KEPT_REASON) | dict.fromkeys(open_names.keys() - set(named), STARTING_REASON)
            failed |= self._refuse_all((name for name in open_names if name not in fitting), request)
        state.named_without_record.forget(request.pod.uid)
        state.refused_on.forget(request.pod.uid)
        state.named_with_record.record(request.pod.uid, frozenset(named))
        self._offers(request)
        return self._answer(asked.encode_answer(named, failed), "fits")

    def let_through(self, arguments: FilterArguments, claimed: SchedulingRequest | None) -> VerbAnswer:
        """Answer for a pod that is bound without a record: it asks by a claim, or for 0 of our resources.

        No node is refused: only kube-scheduler knows what it is allocating, and names nodes on which the claim fits. Of
        these the best for ``claimed`` is named; all of them without it, and if the ledger has room on none.

        Raises:
            RemoteContractError: the nodes of the request cannot be read.
        """
        asked = self._read_nodes(arguments)
        best = [] if claimed is None else self._best_for_claims(claimed, asked)
        return self._send_without_cards(arguments.pod.uid, asked, best or list(asked.names))

    def _best_for_claims(self, request: SchedulingRequest, asked: AskedNodes) -> list[str]:
        """The best node for a claim. One: among equals kube-scheduler would take the node with the fewest pods."""
        return self._state.claims_indexes.get(request.shape).best(asked.names, 1)

    def _find_for_whole(self, request: SchedulingRequest, asked: AskedNodes) -> list[str]:
        """Nodes on which kube-scheduler alone gives out whole cards: by a claim that it makes, or another plugin's."""
        if not request.cards.whole:
            return []
        if best := self._best_for_claims(request, asked):
            return best
        elsewhere = self._state.nodes.whole_elsewhere
        return [] if request.cards.excludes_cards else [name for name in asked.names if name in elsewhere]

    def _send_without_cards(self, uid: str, asked: AskedNodes, named: list[str]) -> VerbAnswer:
        self._state.named_with_record.forget(uid)
        self._state.refused_on.forget(uid)
        self._state.named_without_record.record(uid, frozenset(named))
        return self._answer(asked.encode_answer(named), "not_asking")

    def prioritize(self, arguments: FilterArguments, request: SchedulingRequest | None) -> VerbAnswer:
        """Give every node of the request a score from 0 to 10.

        Raises:
            RemoteContractError: the nodes of the request cannot be read.
        """
        names = self._read_nodes(arguments).names
        if request is None:
            return self._answer(encode_scores(names, [0] * len(names)), "not_asking")
        scores = self._state.indexes.get(request.shape).scores(names)
        return self._answer(encode_scores(names, scores), "scored")

    def _read_nodes(self, arguments: FilterArguments) -> AskedNodes:
        return decode_asked_nodes(arguments, self._state.max_nodes_asked)

    def _choose_quiet(self, index: FitIndex, among: dict[str, None], request: SchedulingRequest) -> list[str]:
        """Choose nodes on which the pod can be bound at once, or else any: bind then waits for the pod ahead of it."""
        busy = () if request.calls is None else self._state.starting.busy_nodes(request.calls) & among.keys()
        quiet = {name: None for name in among if name not in busy} if busy else among
        for names in (quiet, among) if busy else (among,):
            if named := index.best(names, 1) if request.group else self._choose(index, names):
                return named
        return []

    def _choose(self, index: FitIndex, among: dict[str, None]) -> list[str]:
        if self._named.most is None:
            fitting = index.fitting
            return [name for name in among if name in fitting]
        return index.best(among, self._named.most, only_equal=self._named.only_equal)

    def _refuse(
        self, request: SchedulingRequest, asked: AskedNodes, index: FitIndex, kept: Collection[str]
    ) -> VerbAnswer:
        """Refuse every node, and report the pod.

        Nodes that ending pods would not help either are unresolvable as well: the scheduler does not try preemption
        there. They stand in both maps, because schedulers below 1.21 know only the first.
        """
        after_preemption = index.after_preemption
        failed = self._refuse_all(asked.names, request) | dict.fromkeys(kept, KEPT_REASON)
        unresolvable = {name: failed[name] for name in asked.names if name not in after_preemption}
        body = asked.encode_answer((), failed, unresolvable)
        self._state.refused_on.record(request.pod.uid, frozenset(asked.names))
        self._refusals(request)
        return VerbAnswer(body, "refused", self._state.vendor.name, NO_ROOM)

    def _answer(self, body: bytes, result: str) -> VerbAnswer:
        return VerbAnswer(body, result, self._state.vendor.name)

    def _refuse_all(self, names: Iterable[str], request: SchedulingRequest) -> dict[str, str]:
        """Give each node its reason."""
        vendor, distrusted = self._state.vendor, self._state.nodes.distrusted
        reason = vendor.refused_whole_reason if request.cards.whole else vendor.refused_reason
        failed = dict.fromkeys(names, reason)
        for name in distrusted & failed.keys() if distrusted else ():
            failed[name] = DISTRUST_REASON
        if (selection := request.cards.selection) is not None and selection.apart is not None:
            found = (node for name in failed if (node := self._state.ledger.nodes.get(name)) is not None)
            # Few nodes hold a pod of its group; only those are judged card by card.
            near = (node for node in found if not all(each.is_open_to(selection) for each in node.cards.values()))
            apart = (node.name for node in near if evaluate(node, request.cards) is Verdict.APART)
            failed |= dict.fromkeys(apart, APART_REASON)
        if request.cards.per_gib or self._state.ledger.has_odd:
            nodes = self._state.ledger.nodes
            failed |= {
                name: UNIT_REASON for name in failed if name in nodes and not nodes[name].counts_as(request.cards)
            }
        return failed
