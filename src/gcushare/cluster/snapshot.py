"""What is known of a cluster's cards: the ledger, and what only people need (addresses, states, reasons).

Pure: readers of the API server and of the extender fill a ``ClusterSnapshot``, and tables read it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import Assignment, NodeState, PodRef
from gcushare.core.requests import CardRequest, PodRequest
from gcushare.vendors.vendor import Vendor
from gcushare.wire.annotations import CORRECTED, over_use_text, over_used_cards
from gcushare.wire.dra.claim_holders import ClaimHolders
from gcushare.wire.dra.claims import ResourceClaim, claimed_request
from gcushare.wire.nodes import node_cards
from gcushare.wire.objects import Node, Pod
from gcushare.wire.pods import NO_OPTIONS, is_finished, pod_assignment, pod_ref, pod_request, unplaced_assignment

_ENDING = "Terminating"
MAX_SHOWN = 80
"""Characters shown of what a pod's author may have written on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a Node object says apart from its cards; ``problem`` says why its cards cannot be read."""

    name: str
    address: str = ""
    is_ready: bool = True
    is_unschedulable: bool = False
    problem: str = ""

    @property
    def status(self) -> str:
        """The status that ``kubectl get nodes`` shows."""
        status = "Ready" if self.is_ready else "NotReady"
        return f"{status},SchedulingDisabled" if self.is_unschedulable else status


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
    def is_ending(self) -> bool:
        """Whether its deletion was asked for."""
        return self.state == _ENDING

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


@dataclass(slots=True)
class ClusterSnapshot:
    """One vendor's nodes and pods. Repeatable: an update replaces what was known."""

    vendor: Vendor
    ledger: Ledger = field(default_factory=Ledger)
    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    """Nodes with cards, or whose cards cannot be read, by name."""
    pods: dict[str, PodFacts] = field(default_factory=dict)
    """Unfinished pods that ask for cards, by uid: those that wait and those that are bound."""
    problems: list[str] = field(default_factory=list)
    """What could not be read at all, each one line."""
    is_partial: bool = False
    """Whether only some nodes were asked for: pods of others do not matter then."""
    source: Source = field(default=Source("api", "the API server"))
    claims: ClaimHolders = field(init=False)
    """The allocated claims; see ``update_claim``."""

    def __post_init__(self) -> None:
        self.claims = ClaimHolders(self.vendor, self.ledger.nodes.get)

    def count(self, nodes: Iterable[Node], pods: Iterable[Pod], *, is_counted: bool = True) -> None:
        """Update all nodes and pods of a list; pods of nodes outside a partial snapshot are left out.

        Without ``is_counted`` only what describes the pods is taken: another source says what they hold.
        """
        for node in nodes:
            self.update_node(node)
        for pod in pods:
            if not (self.is_partial and pod.is_bound and pod.spec.node_name not in self.nodes):
                self.update_pod(pod, is_counted=is_counted)

    @property
    def needs_claims(self) -> bool:
        """Whether a node serves claims, so that claims say what its pods hold."""
        return any(node.serves_claims for node in self.ledger.nodes.values())

    def update_claim(self, claim: ResourceClaim, *, is_counted: bool = True) -> None:
        """Update a claim, and the pods that name it; one that is allocated counts like a pod with a record."""
        changed = self.claims.update(claim)
        if is_counted:
            self._count_claims(changed)
        for pod in self.claims.pods_naming(claim):
            self.update_pod(pod, is_counted=is_counted)

    def remove_claim(self, uid: str) -> None:
        self._count_claims(self.claims.remove(uid))

    def _count_claims(self, holders: Iterable[str]) -> None:
        for uid in holders:
            assignment = self.claims.find(uid)
            if assignment is None:
                self.ledger.forget(uid)
                continue
            if (facts := self.pods.get(uid)) is not None:
                assignment = replace(assignment, pod=facts.ref)
            if not (self.is_partial and assignment.node not in self.nodes):
                self.ledger.apply(assignment)

    def update_node(self, node: Node) -> None:
        """Update a node; one without cards of this vendor is removed."""
        name = node.metadata.name
        problem = ""
        try:
            found = node_cards(self.vendor, node.metadata.annotations, node.status.capacity)
        except RemoteContractError as error:
            problem, found = str(error), None
        if found is not None:
            self.ledger.set_node(name, found.cards, found.unit, found.offered, found.unrecorded)
            problem = found.distrust
        else:
            self.ledger.remove_node(name)
            if not problem:
                self.nodes.pop(name, None)
                return
        self.nodes[name] = NodeFacts(
            name=name,
            address=node.internal_ip or "",
            is_ready=node.is_ready,
            is_unschedulable=node.spec.unschedulable,
            problem=problem,
        )
        self._count_claims(self.claims.on_node(name))

    def remove_node(self, name: str) -> None:
        """Remove a node that is gone."""
        self.nodes.pop(name, None)
        self.ledger.remove_node(name)

    def update_pod(self, pod: Pod, *, is_counted: bool = True) -> None:
        """Update a pod; one that asks for nothing of this vendor, or has ended, is removed."""
        uid, problem = pod.metadata.uid, ""
        if is_finished(pod):
            self.claims.forget_pod(uid)
        else:
            self.claims.note_pod(pod)
        claimed = claimed_request(pod, self.vendor) or self.claims.request_of(pod)
        if self.claims.holds(uid) or claimed is not None:
            self._update_claiming_pod(pod, claimed, is_counted=is_counted)
            return
        assignment, request = None, None
        try:
            assignment = pod_assignment(pod, self.vendor)
            if assignment is None or not assignment.grants:
                request = pod_request(pod, self.vendor, is_bound=pod.is_bound)
        except (RemoteContractError, Refused) as error:
            # It wants something of this vendor that cannot be read, so it holds no card that could be named. The
            # record may be damaged and the request not; options are history once a pod is bound.
            problem = str(error)
            assignment = unplaced_assignment(pod, self.vendor) if pod.is_bound else None
            with contextlib.suppress(RemoteContractError, Refused):
                request = pod_request(pod, self.vendor, options=NO_OPTIONS, is_bound=pod.is_bound)
        if is_finished(pod) or (assignment is None and request is None and not problem):
            self._drop_pod(uid)
            return
        if is_counted:
            if assignment is not None:
                self.ledger.apply(assignment)
            elif not problem:
                self.ledger.forget(uid)
        facts = _pod_facts(pod, None if problem else assignment, request)
        unplaced = assignment.unplaced if assignment is not None else 0
        self.pods[uid] = replace(facts, problem=problem, unplaced=unplaced)

    def _update_claiming_pod(self, pod: Pod, request: PodRequest | None, *, is_counted: bool) -> None:
        """Update a pod that has cards by a claim: the claim says which it holds, the pod what it asked for."""
        uid = pod.metadata.uid
        if is_finished(pod):
            self.pods.pop(uid, None)
            return
        facts = _pod_facts(pod, self.claims.find(uid), request)
        self.pods[uid] = replace(facts, ref=pod_ref(pod))
        self._count_claims((uid,) if is_counted and self.claims.holds(uid) else ())

    def remove_pod(self, uid: str) -> None:
        """Remove a pod that is gone."""
        self.claims.forget_pod(uid)
        self._drop_pod(uid)

    def _drop_pod(self, uid: str) -> None:
        """Remove a pod that is gone or has ended; its claim counts until it is deallocated."""
        self.pods.pop(uid, None)
        if not self.claims.holds(uid):
            self.ledger.forget(uid)

    # Questions

    def node_problems(self) -> list[str]:
        """Nodes whose cards cannot be read, one line each."""
        return [f"node {name}: {self.nodes[name].problem}" for name in sorted(self.nodes) if self.nodes[name].problem]

    def nodes_with_cards(self) -> list[NodeState]:
        """The nodes whose cards are known."""
        return [node for node in self.ledger.nodes.values() if node.known and node.cards]

    def waiting(self) -> list[PodFacts]:
        """Pods without a node, oldest first; those that the extender is binding this moment are not among them.

        Nor are those that ask for whole cards while no node serves any: they wait for another plugin.
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
        """By node, the pods that it will have to give a card: bound without one, or nominated by a preemption."""
        found: dict[str, list[PodFacts]] = {}
        for uid, facts in self.pods.items():
            assignment = self.ledger.assignment(uid)
            node = facts.node or facts.nominated
            if node and not facts.has_unknown_cards and not (assignment is not None and assignment.grants):
                found.setdefault(node, []).append(facts)
        return found

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
        return {
            name: list(state.assignments.values())
            for name, state in self.ledger.nodes.items()
            if not state.known and name not in self.nodes
        }


def _pod_facts(pod: Pod, assignment: Assignment | None, request: PodRequest | None) -> PodFacts:
    """Describe a pod by what it holds, or by what it asks for while it holds nothing."""
    grants = assignment.grants if assignment is not None else ()
    units, whole_cards = sum(grant.units for grant in grants), sum(grant.whole for grant in grants)
    if request is not None:
        units, whole_cards = request.total_units, request.cards.cards if request.cards.whole else 0
    return PodFacts(
        ref=assignment.pod if assignment is not None else pod_ref(pod),
        state=_ENDING if pod.is_being_deleted else pod.status.reason or pod.status.phase or "Pending",
        node=pod.spec.node_name,
        nominated=pod.status.nominated_node_name,
        units=units,
        whole_cards=whole_cards,
        corrected=pod.metadata.annotations.get(CORRECTED, "")[:MAX_SHOWN],
        over_use=over_use_text(pod.metadata.annotations),
        over_used_cards=over_used_cards(pod.metadata.annotations),
        request=request.cards if request is not None else None,
        is_unconfirmed=bool(grants) and assignment is not None and not assignment.assigned,
    )
