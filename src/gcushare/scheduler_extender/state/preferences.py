"""The preferences of pods with a learned policy, and the orders of nodes that follow from them.

Scoring a node takes up to a millisecond, so calls of the scheduler score a few nodes, and ``run`` scores the others in
the background. Calls always find scores; until ``run`` is done, some are older.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from gcushare.core.assignments import Assignment
from gcushare.core.change_log import ChangeLog
from gcushare.core.fit_index import FitIndexes, Shape, Standing, nodes_for_claims
from gcushare.core.ledger import Ledger
from gcushare.core.log_fields import fields
from gcushare.core.nodes import NodeState
from gcushare.core.other_resources import NO_AMOUNTS, SpareResources, Taken
from gcushare.core.packing.expected_fill import Demand
from gcushare.core.packing.learned_fill import LearnedFill, demand_held
from gcushare.core.placement import EXPECTED_FILL, POLICIES, CardRank
from gcushare.kube.collections import Newest
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.wire.documents.explain import ChoiceDocument
from gcushare.wire.objects import Node, Pod
from gcushare.wire.other_resources import node_amounts, pod_amounts
from gcushare.wire.pods import is_finished

logger = logging.getLogger(__name__)

_ON_EVERY_NODE = frozenset({"DaemonSet", "Node"})
"""Kinds of the owners of pods that come with a node; a Node owns the static ones."""
_CHANGED_SHARE = 0.1
"""Share of the pods, or of the nodes, that may come and go before the pods are learned again."""
_PODS_PER_STEP = 512
_SCORED_PER_TURN = 4
_PAUSE_S = 0.005
"""Between two turns of scoring, which take up to two milliseconds: the scheduler's calls come first."""
_MAX_CHOICES = 4096
"""Pods for which the reason of their node is stored, some 300 bytes each."""


class Preferences:
    """The preferences of one vendor's learned policies."""

    def __init__(self, ledger: Ledger, changes: ChangeLog, spare: SpareResources) -> None:
        self._ledger = ledger
        self._spare = spare
        self.fill = LearnedFill(spare.left)
        slow = {EXPECTED_FILL: self._score}
        self.indexes = FitIndexes(ledger.nodes, changes, slow=slow)
        self.claims_indexes = FitIndexes(nodes_for_claims(ledger), changes, slow=slow)
        """The nodes that serve claims, by how well they suit a claim."""
        self._all = (self.indexes, self.claims_indexes)
        self._learned_from = (0, 0, 0)
        """At the last learning: the turnover of pods, the number of pods, and of nodes."""
        self._wanted = asyncio.Event()
        self._choices = Newest[str, tuple[str, ChoiceDocument]](_MAX_CHOICES)
        """By the pod's uid: the node, and why."""
        for indexes in self._all:
            spare.listen(indexes.score_node_again)

    def rank_cards(self, request: SchedulingRequest, node: NodeState | None) -> CardRank:
        """The order of a node's cards for a pod, by its card policy."""
        if request.card_policy != EXPECTED_FILL or node is None:
            return POLICIES[request.card_policy].rank_card
        return self.fill.rank_cards(node, request.cards, request.shape.amounts)

    def find_standing(self, request: SchedulingRequest, node: str) -> Standing | None:
        """A node's standing for a pod; None if no call asked for its shape lately, or the pod does not fit."""
        index = self.indexes.find(request.shape)
        return None if index is None else index.standing(node)

    def record_choice(self, request: SchedulingRequest, node: str, standing: Standing | None, named: int) -> None:
        """Store why a pod got this node, for explain; for the last few thousand pods.

        ``named``: of how many nodes kube-scheduler could choose; what the pod prefers was weighed among these alone.
        """
        uid = request.pod.uid
        self._choices.pop(uid, None)
        if standing is None:
            return
        percent = round(100 * standing.score)
        self._choices[uid] = (
            node,
            ChoiceDocument(
                request.shape.node_policy,
                request.card_policy,
                percent,
                standing.better,
                standing.fitting,
                named,
                request.soft_rules if named < standing.fitting else (),
            ),
        )

    def find_choice(self, held: Assignment) -> ChoiceDocument | None:
        """Why a pod has its node; None if another program decided that, or it is no longer stored."""
        node, choice = self._choices.get(held.pod.uid, ("", None))
        return choice if node == held.node else None

    @property
    def has_changed(self) -> bool:
        """Whether a tenth more, fewer or other pods or nodes are there than at the last learning."""
        turnover, pods, nodes = self._learned_from
        return (
            self._spare.turnover - turnover > _CHANGED_SHARE * pods
            or abs(len(self._ledger.nodes) - nodes) > _CHANGED_SHARE * nodes
        )

    def learn(self, bound: Mapping[str, Assignment]) -> Iterator[None]:
        """Learn the typical requests of the pods on nodes with cards. A step takes about a millisecond.

        ``bound``: what pods hold, by uid. Pods without cards count too, because they take CPU that pods with cards
        need; but not those that run on every node, nor those whose author named a node that does not accept them:
        such a pod may never run, and any number of them can be created.
        """
        self._learned_from = (self._spare.turnover, self._spare.pod_count, len(self._ledger.nodes))
        seen: Counter[Demand] = Counter()
        held = iter(list(bound.values()))
        while some := list(islice(held, _PODS_PER_STEP)):
            demands = (
                demand_held(each, self._spare.asked_by(each.pod.uid))
                for each in some
                if each.grants or self._spare.was_scheduled(each.pod.uid)
            )
            seen.update(demand for demand in demands if demand is not None)
            yield
        taken = self._spare.all_taken()
        while others := list(islice(taken, _PODS_PER_STEP)):
            seen.update(
                Demand(0, 0, False, *each.amounts)
                for uid, each in others
                if uid not in bound
                and not each.comes_with_node
                and each.amounts != NO_AMOUNTS
                and each.node in self._ledger.nodes
            )
            yield
        units = max((card.total for node in self._ledger.nodes.values() for card in node.cards.values()), default=1)
        if self.fill.learn(seen, units):
            for indexes in self._all:
                indexes.score_again(EXPECTED_FILL)
            self._wanted.set()
            logger.info("typical requests learned %s", fields(pods=seen.total(), count=len(seen)))

    async def run(self) -> None:
        """Score the nodes that calls left for later, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if any(indexes.score_due(_SCORED_PER_TURN) for indexes in self._all):
                self._wanted.set()
                await asyncio.sleep(_PAUSE_S)

    def _score(self, node: NodeState, shape: Shape) -> float:
        # If one node had to be scored there may be more; the last run finds none.
        self._wanted.set()
        return self.fill.score(node, shape.request, shape.amounts)


class SpareObserver:
    """Updates CPU and memory from nodes and pods, with cards or without."""

    def __init__(self, spare: SpareResources) -> None:
        self._spare = spare

    def node_applied(self, node: Node) -> None:
        self._spare.update(node.metadata.name, node_amounts(node))

    def node_deleted(self, name: str) -> None:
        self._spare.update(name, None)

    def pod_applied(self, pod: Pod) -> None:
        if pod.spec.node_name and not is_finished(pod):
            owners = {owner.kind for owner in pod.metadata.owner_references}
            # A binding and the node's kubelet set this condition, an author cannot. Source: kube-apiserver,
            # ``assignPod`` of pkg/registry/core/pod/storage; kubelet, ``generateAPIPodStatus``.
            was_accepted = any(each.type == "PodScheduled" and each.status == "True" for each in pod.status.conditions)
            comes_with_node = not owners.isdisjoint(_ON_EVERY_NODE) or not was_accepted
            self._spare.take(pod.metadata.uid, Taken(pod.spec.node_name, pod_amounts(pod), comes_with_node))
        else:
            self._spare.give_back(pod.metadata.uid)

    def pod_deleted(self, uid: str) -> None:
        self._spare.give_back(uid)

    def pods_retained(self, uids: frozenset[str], version: str) -> None:
        for uid in self._spare.pods - uids:
            self._spare.give_back(uid)
