"""From a cluster's nodes, pods and claims to the ledger of one vendor: pure.

The ledger depends on the newest state of each object, whatever their order; an update may be repeated. Pods and claims
count by uid, so a pod and its successor of the same name are two. The extender and the commands subclass the view for
what else they need of the objects (``_update_unbound``, ``_update_bound``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gcushare.core.assignments import Assignment
from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.ledger import Ledger
from gcushare.core.node_rules import NodePlace
from gcushare.core.requests import PodRequest
from gcushare.core.units import MemoryUnit, parse_memory_unit
from gcushare.vendors.vendor import Vendor
from gcushare.wire.dra.claim_holders import ClaimHolders
from gcushare.wire.dra.claims import ResourceClaim
from gcushare.wire.nodes import NodeCards, node_cards
from gcushare.wire.objects import Node, Pod
from gcushare.wire.pods import is_finished, pod_assignment, unplaced_assignment


class NodeReader:
    """The Nodes of one vendor as they were read last, by name."""

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor
        self.problems: dict[str, str] = {}
        """Why a node takes no pods."""
        self.without_units: set[str] = set()
        """Nodes whose cards the kubelet counts as 0: no pod can be placed there."""
        self.distrusted: set[str] = set()
        """Nodes whose memory the kubelet counts in another unit, or for another system: no pod is placed there."""
        self.whole_elsewhere: set[str] = set()
        """Nodes on which another plugin serves whole cards: kube-scheduler goes by the kubelet's count of them."""
        self._agreed: dict[str, int] = {}
        """The kubelet's count of memory when it was last that of the inventory."""
        self.marks: dict[str, int] = {}
        """A hash of what was read, of every node with and without cards."""

    def has_changed(self, node: Node) -> bool:
        """Whether anything about a node's cards changed since it was read; costs next to nothing if not."""
        vendor, annotations, capacity = self._vendor, node.metadata.annotations, node.status.capacity
        counts = (vendor.memory_resource, vendor.count_resource, vendor.whole_card_resource)
        texts = (annotations.get(key) for key in (vendor.inventory_annotation, vendor.cordon_annotation))
        mark = hash((*texts, *map(capacity.get, counts)))
        if self.marks.get(node.metadata.name) == mark:
            return False
        self.marks[node.metadata.name] = mark
        return True

    def read(self, node: Node) -> NodeCards | None:
        """Read a node's cards; None if it has none of this vendor.

        A node whose cards cannot be read has no cards, and its reason is in ``problems``.
        """
        name, capacity = node.metadata.name, node.status.capacity
        self.without_units.discard(name)
        self.distrusted.discard(name)
        self.whole_elsewhere.discard(name)
        try:
            found = node_cards(self._vendor, node.metadata.annotations, capacity, agreed=self._agreed.get(name, 0))
        except RemoteContractError as error:
            self.problems[name] = str(error)
            return NodeCards((), None)
        self.problems.pop(name, None)
        modes = found.modes if found is not None else ()
        if capacity.get(self._vendor.whole_card_resource, "0") != "0" and not {SERVES_WHOLE, SERVES_CLAIMS} & {*modes}:
            self.whole_elsewhere.add(name)
        if found is None:
            return None
        if found.distrust:
            self.problems[name] = found.distrust
            self.distrusted.add(name)
        elif found.is_agreed:
            self._agreed[name] = found.counted
        resources = {SERVES_MEMORY: self._vendor.memory_resource, SERVES_WHOLE: self._vendor.whole_card_resource}
        if any(capacity.get(resources[mode], "0") == "0" for mode in found.modes if mode in resources):
            self.without_units.add(name)
        return found

    def forget(self, name: str) -> None:
        """Drop a node that is gone."""
        for known in (self.marks, self.problems, self._agreed):
            known.pop(name, None)
        for names in (self.without_units, self.distrusted, self.whole_elsewhere):
            names.discard(name)


class ClusterView:
    """One vendor's ledger, and why objects could not be read. One task updates it, any may read it.

    ``unit``: in what pods count memory; None: in the vendor's own unit, which matters where nodes differ.
    """

    def __init__(self, vendor: Vendor, unit: MemoryUnit | None = None) -> None:
        self.vendor = vendor
        self.nodes = NodeReader(vendor)
        self.ledger = Ledger(unit or parse_memory_unit(vendor.default_unit), is_given=unit is not None)
        self.places: dict[str, NodePlace] = {}
        """By name, what pods' rules are about, of the nodes with cards."""
        self.places_changed = 0
        """How often one of them changed so far."""
        self.bound: dict[str, Assignment] = {}
        """By uid: what bound pods and allocated claims hold; the source of a recount."""
        self.claims = ClaimHolders(vendor, self.ledger.nodes.get)
        """The allocated claims; pods that hold cards by a claim are in ``bound`` too."""
        self.pod_problems: dict[str, str] = {}
        """By uid: why it is unknown which cards a bound pod holds."""

    # Nodes

    def node_applied(self, node: Node) -> None:
        """Update a node. If nothing about its cards has changed, that costs next to nothing."""
        if self.nodes.has_changed(node):
            self._update_node(node)
        name = node.metadata.name
        if name not in self.ledger.nodes and name not in self.nodes.whole_elsewhere:
            self.places.pop(name, None)
        elif (place := node.place) != self.places.get(name):
            self.places[name] = place
            self.places_changed += 1

    def _update_node(self, node: Node) -> Collection[str]:
        """Count a node's cards; returns the modes that its plugin hands them out in."""
        name, found = node.metadata.name, self.nodes.read(node)
        if found is None:
            self.ledger.remove_node(name)
        else:
            self.ledger.set_node(name, found.cards, found.unit, found.offered, found.unrecorded)
        self._count_claims(self.claims.on_node(name))
        if found is None:
            return ()
        if SERVES_CLAIMS in found.modes and found.unit not in (None, self.claims.unit):
            if any(node.serves_claims and node.unit == self.claims.unit for node in self.ledger.nodes.values()):
                return found.modes  # Where such nodes differ, the unit stays that of the first.
            self.claims.unit = found.unit
            self._update_pods(self.claims.noted)
        return found.modes

    def node_deleted(self, name: str) -> None:
        """Remove a node that is gone. What its pods hold stays counted until they are gone too."""
        self.nodes.forget(name)
        self.places.pop(name, None)
        self.ledger.remove_node(name)
        self._count_claims(self.claims.on_node(name))

    # Claims

    def claim_applied(self, claim: ResourceClaim) -> None:
        """Update a claim, and the pods that name it; an allocated claim counts like a pod with a record."""
        was_known, changed = self.claims.knows(claim), self.claims.update(claim)
        self._count_claims(changed)
        if changed or not was_known:  # Its author may touch it at any rate, with thousands of pods that name it.
            self._update_pods(self.claims.pods_naming(claim.metadata.uid))

    def claim_deleted(self, uid: str) -> None:
        """Remove a claim that is gone; repeatable."""
        pods = self.claims.pods_naming(uid)
        self._count_claims(self.claims.remove(uid))
        self._update_pods(pods)

    def claims_retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every claim but ``uids``, which are all that existed at ``version``."""
        for uid in self.claims.uids - uids:
            self.claim_deleted(uid)

    def _count_claims(self, holders: Iterable[str]) -> None:
        """Count again what these holders of ``claims`` hold, because a change of ``claims`` named them."""
        for uid in holders:
            self.pod_problems.pop(uid, None)
            self._count(uid, self.claims.find(uid))

    # Pods

    def pod_applied(self, pod: Pod) -> None:
        """Update a pod that was added or changed. Pods that ask for nothing of this vendor are not stored."""
        self._update_pod(pod)

    def pod_deleted(self, uid: str) -> None:
        """Remove a pod that is gone; repeatable. What a claim holds is free once the claim is deallocated."""
        self.claims.forget_pod(uid)
        self.pod_problems.pop(uid, None)
        self._release(uid)

    def pods_retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every pod but ``uids``, which are all that existed at ``version``."""
        for uid in self._known_pods() - uids:
            self.pod_deleted(uid)

    def _known_pods(self) -> set[str]:
        return self.bound.keys() | self.claims.noted_pods

    def _update_pods(self, pods: Sequence[Pod]) -> None:
        """Update unbound pods whose claim came, changed or went: no event of theirs says so."""
        for pod in pods:
            self._update_pod(pod)

    def _update_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if pod.spec.node_name:
            self.claims.forget_pod(uid)
            # A claim says what its pod holds, and stays allocated for a moment after the pod has ended.
            assignment = self.claims.find(uid) or self._read_bound(pod)
            self._count(uid, assignment)
            self._update_bound(pod, assignment)
        elif is_finished(pod) or pod.is_being_deleted:
            self.pod_deleted(uid)  # No node is chosen for it any more, however long a finalizer keeps its object.
        else:
            if uid in self.bound:
                self._release(uid)  # The server's store was restored to before its Binding.
            self.claims.note_pod(pod)
            self._update_unbound(pod, self.claims.request_of(pod))

    def _read_bound(self, pod: Pod) -> Assignment | None:
        """What a bound pod holds by its record; None for nothing."""
        try:
            assignment = pod_assignment(pod, self.vendor)
        except (RemoteContractError, Refused) as error:
            # Its request cannot be read, or its record is damaged: which card it holds is unknown.
            self._doubt(pod, str(error))
            return unplaced_assignment(pod, self.vendor)
        self.pod_problems.pop(pod.metadata.uid, None)
        return assignment

    def _count(self, uid: str, assignment: Assignment | None) -> None:
        if assignment is None:
            self._release(uid)
        else:
            self._hold(assignment)

    def _doubt(self, pod: Pod, problem: str) -> None:
        self.pod_problems[pod.metadata.uid] = problem

    def _hold(self, assignment: Assignment) -> None:
        self.bound[assignment.pod.uid] = assignment
        self.ledger.apply(assignment)

    def _release(self, uid: str) -> None:
        if not self.claims.holds(uid):
            self.bound.pop(uid, None)
            self.ledger.forget(uid)

    def share(self, held: Assignment) -> int:
        """The units that a pod holds or shares; of whole cards, all of them."""
        node = self.ledger.nodes.get(held.node)
        return held.units if node is None else node.share(held)

    # What else a reader needs of a pod

    def _update_unbound(self, pod: Pod, claimed: PodRequest | None) -> None:
        """Update a pod that waits for a node; ``claimed`` is what it asks for by claims, None for nothing."""

    def _update_bound(self, pod: Pod, assignment: Assignment | None) -> None:
        """Update a pod with a node after the ledger; ``assignment`` is what it holds, None for nothing."""
