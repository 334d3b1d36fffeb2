"""The view of a cluster for people: the ledger, and what only they need (addresses, states, reasons).

Pure: readers of the API server and of the extender fill a ``ClusterSnapshot``, and tables read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gcushare.cluster.view import ClusterView
from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.node_rules import CORDON
from gcushare.core.nodes import NodeState
from gcushare.core.requests import CardRequest, PodRequest
from gcushare.vendors import VENDORS, Vendor
from gcushare.wire.annotations import corrected_text, over_use_text, over_used_cards
from gcushare.wire.dra.claims import problem_of_both_ways
from gcushare.wire.nodes import has_trace
from gcushare.wire.objects import Node, Pod
from gcushare.wire.pods import is_finished, is_mirror, pod_ref, readable_request

_ENDING = "Terminating"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a Node object says apart from its cards; ``problem`` says why its cards cannot be read.

    ``has_units``: whether its kubelet has anything of the cards to give. It has not while no plugin runs there.
    ``taints``: those that keep off the pods that do not tolerate them, apart from a cordon's.
    """

    name: str
    address: str = ""
    is_ready: bool = True
    is_unschedulable: bool = False
    has_units: bool = True
    taints: tuple[str, ...] = ()
    problem: str = ""

    @property
    def status(self) -> str:
        """The status that ``kubectl get nodes`` shows."""
        status = "Ready" if self.is_ready else "NotReady"
        return f"{status},SchedulingDisabled" if self.is_unschedulable else status

    @property
    def takes_pods(self) -> bool:
        """Whether kube-scheduler may place further pods there."""
        return self.is_ready and self.has_units and not self.is_unschedulable


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What a Pod object says apart from its cards.

    ``state`` is the status that ``kubectl get pods`` shows; ``units`` what it asks for in all, ``whole_cards`` if it
    asks for whole ones; ``corrected`` is ``0->1`` if the kubelet gave it another card than was recorded. ``over_use``:
    its use of ``over_used_cards`` beyond its grant, by its annotation; ``request`` is None for a pod whose
    cards are known, or whose request cannot be read. ``is_unconfirmed``: its record names cards, and its node has not
    confirmed them yet; ``unplaced``: see ``Assignment``.
    """

    ref: PodRef
    state: str
    node: str = ""
    nominated: str = ""
    units: int = 0
    whole_cards: int = 0
    corrected: str = ""
    over_use: str = ""
    over_used_cards: frozenset[int] = frozenset()
    problem: str = ""
    request: CardRequest | None = None
    is_unconfirmed: bool = False
    unplaced: int = 0

    @property
    def is_waiting(self) -> bool:
        """Whether no node was chosen yet."""
        return not self.node

    @property
    def has_unknown_cards(self) -> bool:
        """Whether it runs on a node, and on which cards cannot be read."""
        return bool(self.node and self.problem)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the figures come from: ``name`` for programs, ``text`` for people, ``passed_over`` why not the other."""

    name: str
    text: str
    passed_over: str = ""


class ClusterSnapshot(ClusterView):
    """One vendor's nodes and pods, with what people ask of them."""

    def __init__(self, vendor: Vendor, *, is_partial: bool = False, problems: list[str] | None = None) -> None:
        super().__init__(vendor)
        self.node_facts: dict[str, NodeFacts] = {}
        """Nodes with cards, or whose cards cannot be read, by name."""
        self.pods: dict[str, PodFacts] = {}
        """Unfinished pods that ask for cards, by uid: those that wait and those that are bound."""
        self.problems: list[str] = [] if problems is None else problems
        """What could not be read at all, each one line."""
        self.nodes_of_others: dict[str, set[str]] = {}
        """By another vendor's name, the nodes with its cards and none of this one's."""
        self.is_partial = is_partial
        """Whether only some nodes were asked for: pods of others do not matter then."""
        self.source = Source("api", "the API server")

    def count(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        """Update all nodes and pods of a list."""
        for node in nodes:
            self.node_applied(node)
        for pod in pods:
            self.pod_applied(pod)

    def node_applied(self, node: Node) -> None:
        """Update a node; one without cards of this vendor is removed."""
        super().node_applied(node)
        name = node.metadata.name
        state, problem = self.ledger.nodes.get(name), self.nodes.problems.get(name, "")
        if state is None or not state.known:
            self.node_facts.pop(name, None)
            for other in (each for each in VENDORS if each is not self.vendor and has_trace(node, each)):
                self.nodes_of_others.setdefault(other.name, set()).add(name)
            return
        offered = node.status.capacity | node.status.allocatable
        resources = (self.vendor.memory_resource, self.vendor.whole_card_resource)
        self.node_facts[name] = NodeFacts(
            name=name,
            address=node.internal_ip or "",
            is_ready=node.is_ready,
            is_unschedulable=node.spec.unschedulable,
            has_units=state.serves_claims or any(offered.get(each, "0") != "0" for each in resources),
            taints=tuple(str(taint) for taint in self.places[name].taints_keeping_off if taint != CORDON),
            problem=problem,
        )

    def node_deleted(self, name: str) -> None:
        self.node_facts.pop(name, None)
        super().node_deleted(name)

    def pod_deleted(self, uid: str) -> None:
        self.pods.pop(uid, None)
        super().pod_deleted(uid)

    def _known_pods(self) -> set[str]:
        return super()._known_pods() | self.pods.keys()

    def _update_unbound(self, pod: Pod, claimed: PodRequest | None) -> None:
        self._describe(pod, self.bound.get(pod.metadata.uid), claimed)

    def _update_bound(self, pod: Pod, assignment: Assignment | None) -> None:
        if is_finished(pod) or is_mirror(pod.metadata.annotations):
            self.pods.pop(pod.metadata.uid, None)
        else:
            self.claims.note_pod(pod)
            self._describe(pod, assignment, self.claims.request_of(pod), self.pod_problems.get(pod.metadata.uid, ""))

    def _describe(
        self, pod: Pod, assignment: Assignment | None, request: PodRequest | None, problem: str | None = None
    ) -> None:
        """Update what is shown of a pod; ``problem`` is None for an unbound one: its request shows it."""
        unreadable = ""
        if request is None and (assignment is None or not assignment.grants):
            request, unreadable = readable_request(pod, self.vendor)
        elif request is not None and assignment is None:
            unreadable = problem_of_both_ways(pod, self.vendor)
        problem = unreadable if problem is None else problem
        if assignment is None and request is None and not problem:
            self.pods.pop(pod.metadata.uid, None)
        else:
            self.pods[pod.metadata.uid] = _pod_facts(pod, assignment, request, problem)

    # Questions

    def node_problems(self) -> list[str]:
        """Nodes whose cards cannot be read, one line each."""
        return [f"node {name}: {facts.problem}" for name, facts in sorted(self.node_facts.items()) if facts.problem]

    def nodes_with_cards(self) -> list[NodeState]:
        """The nodes whose cards are known."""
        return [node for node in self.ledger.nodes.values() if node.known and node.cards]

    def waiting(self) -> list[PodFacts]:
        """Pods without a node, oldest first; those that the extender is binding this moment are not among them.

        Nor are those that are being deleted, nor those that ask for whole cards while no node serves any: they wait for
        another plugin.
        """
        nodes = [node for node in self.ledger.nodes.values() if node.known]
        ours = any(node.serves_whole or node.serves_claims for node in nodes)
        found = (
            facts
            for uid, facts in self.pods.items()
            if facts.is_waiting and self.ledger.assignment(uid) is None and (ours or not facts.whole_cards)
        )
        return sorted(found, key=lambda facts: (facts.ref.created, facts.ref.namespace, facts.ref.name))

    def without_card(self) -> dict[str, list[PodFacts]]:
        """By node, the pods that it will have to give a card: bound without one, or nominated by a preemption.

        Not those whose whole cards come from another plugin, nor those that share a claim of another pod.
        """
        found: dict[str, list[PodFacts]] = {}
        for uid, facts in self.pods.items():
            assignment = self.ledger.assignment(uid)
            node = facts.node or facts.nominated
            if facts.node and self.claims.find_shared(uid) is not None:
                continue
            ours = not facts.whole_cards or self.serves_whole(node)
            if node and ours and not facts.has_unknown_cards and not (assignment is not None and assignment.grants):
                found.setdefault(node, []).append(facts)
        return found

    def sharing(self) -> dict[str, list[tuple[PodFacts, Assignment]]]:
        """By node, the pods that share claims, with what they share: it counts once, under another pod."""
        found: dict[str, list[tuple[PodFacts, Assignment]]] = {}
        for uid, facts in self.pods.items():
            if facts.node and (shared := self.claims.find_shared(uid)) is not None:
                found.setdefault(facts.node, []).append((facts, shared))
        return {name: sorted(pods, key=lambda each: str(each[0].ref)) for name, pods in found.items()}

    def serves_whole(self, node: str) -> bool:
        """Whether our plugin gives whole cards of a node as a resource."""
        state = self.ledger.nodes.get(node)
        return state is not None and state.known and state.serves_whole

    def unplaced(self) -> dict[str, list[PodFacts]]:
        """By node, the bound pods that hold memory of unknown cards: no figure has it.

        Their record or request is damaged; of pods that may not be read here, only the extender's ledger knows it.
        """
        found: dict[str, list[PodFacts]] = {}
        for uid, facts in self.pods.items():
            assignment = self.ledger.assignment(uid)
            if facts.has_unknown_cards and not (assignment is not None and assignment.grants):
                found.setdefault(facts.node, []).append(facts)
        reported = {str(held.pod) for held in self.ledger.assignments() if held.unrecorded}
        found = {
            name: kept for name, pods in found.items() if (kept := [p for p in pods if str(p.ref) not in reported])
        }
        for name, state in self.ledger.nodes.items():
            unread = (each for uid, each in state.assignments.items() if not each.grants and uid not in self.pods)
            for each in unread:
                found.setdefault(name, []).append(PodFacts(ref=each.pod, state="", node=name))
        return {name: sorted(pods, key=lambda facts: str(facts.ref)) for name, pods in found.items()}

    def lost_nodes(self) -> dict[str, list[Assignment]]:
        """Nodes that pods name but that do not exist, or have no cards any more; empty for a partial snapshot."""
        if self.is_partial:
            return {}
        return {name: list(state.assignments.values()) for name, state in self.ledger.nodes.items() if not state.known}


def _pod_facts(pod: Pod, assignment: Assignment | None, request: PodRequest | None, problem: str) -> PodFacts:
    """Describe a pod by what it holds, or by what it asks for while it holds nothing."""
    grants = assignment.grants if assignment is not None else ()
    units, whole_cards = sum(grant.units for grant in grants), sum(grant.whole for grant in grants)
    if request is not None:
        units, whole_cards = request.total_units, request.cards.cards if request.cards.whole else 0
    return PodFacts(
        ref=pod_ref(pod),
        state=_ENDING if pod.is_being_deleted else pod.status.reason or pod.status.phase or "Pending",
        node=pod.spec.node_name,
        nominated=pod.status.nominated_node_name,
        units=units,
        whole_cards=whole_cards,
        corrected=corrected_text(pod.metadata.annotations),
        over_use=over_use_text(pod.metadata.annotations),
        over_used_cards=over_used_cards(pod.metadata.annotations),
        problem=problem,
        request=request.cards if request is not None else None,
        is_unconfirmed=bool(grants) and assignment is not None and not assignment.assigned,
        unplaced=assignment.unplaced if assignment is not None else 0,
    )
