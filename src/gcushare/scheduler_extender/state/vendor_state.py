"""One vendor's state: the view of the cluster, the pods that wait, and the reservations of bindings in progress.

Whole objects are not stored: 50,000 pods would take too much memory. A read of a pod may be newer than the watch: the
pod stays as it was read until the watch reaches that version (see `newer_reads`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from gcushare.cluster.view import ClusterView
from gcushare.core.assignments import Assignment
from gcushare.core.cards import SERVES_CLAIMS, SERVES_WHOLE
from gcushare.core.change_log import ChangeLog
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.core.other_resources import SpareResources
from gcushare.core.requests import PodRequest
from gcushare.core.units import MemoryUnit
from gcushare.kube.collections import Gone, Newest
from gcushare.kube.resources import is_at_least
from gcushare.scheduler_extender.state.nominations import Nominations
from gcushare.scheduler_extender.state.pod_stores import LastFilteredNodes, NewerReads, PodNames
from gcushare.scheduler_extender.state.preferences import Preferences
from gcushare.scheduler_extender.state.scheduling_request import (
    Policies,
    RejectedRequest,
    SchedulingRequest,
    WaitingPod,
    read_claiming_request,
    read_scheduling_request,
)
from gcushare.scheduler_extender.state.starting_pods import StartingPods
from gcushare.vendors.vendor import Vendor
from gcushare.wire.annotations import over_use_text
from gcushare.wire.dra.claims import problem_of_both_ways
from gcushare.wire.extender_api import SPARE_NODES
from gcushare.wire.objects import Node, Pod
from gcushare.wire.pods import pod_ref, starting_calls

logger = logging.getLogger(__name__)

MAX_REMEMBERED = 4096
"""Pods that filter had to read, because their watch event had not arrived yet."""

MAX_NAMED_WITH_RECORD = 300_000
"""Node names stored in all that filter named: at most 20 for a pod, unless filter names all that fit."""


class VendorState(ClusterView):
    """The ledger of one vendor, its waiting pods, and what could not be read. One task updates it, any may read it."""

    def __init__(
        self,
        vendor: Vendor,
        policies: Policies,
        *,
        unit: MemoryUnit | None = None,
        spare: SpareResources | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        on_claims_node: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(vendor, unit)
        self.policies = policies
        self.changes = ChangeLog(self.ledger)
        self.preferences = Preferences(self.ledger, self.changes, SpareResources() if spare is None else spare)
        """The preferences of pods with a learned policy."""
        self.indexes, self.claims_indexes = self.preferences.indexes, self.preferences.claims_indexes
        self.waiting: dict[str, WaitingPod] = {}
        """Unbound pods by uid."""
        self.unserved: dict[str, WaitingPod] = {}
        """Unbound pods that ask for whole cards while no node serves any: probably another plugin's pods."""
        self.claiming: dict[str, WaitingPod] = {}
        """Unbound pods that kube-scheduler places, by uid: by a claim, or for a whole card on a claims node."""
        self._whole_nodes, self._claims_nodes = set[str](), set[str]()
        self._wholes_wait_in = self.unserved
        """Those of the three above in which pods that ask for whole cards wait, by what the nodes serve."""
        self._move_listeners: list[Callable[[Iterable[str]], None]] = []
        self._on_claims_node = on_claims_node
        """Called when a node serves claims, so that claims have to be watched."""
        self.newer_reads = NewerReads()
        """Pods that were read, and that the watch has not brought since."""
        self.starting = StartingPods(self.ledger)
        """The bound pods that the kubelet has not admitted yet."""
        self.gone = Gone()
        """Pods that were deleted: a read of one of them was answered before its end."""
        self.nominations = Nominations(self.ledger, monotonic, announce=self.changes.record)
        """The preemptors for which room is kept."""
        self.names = PodNames()
        """The pods of ``waiting``, ``unserved`` and ``bound``."""
        self.refused_on = LastFilteredNodes()
        """The nodes that kube-scheduler asked about when filter last named none of them."""
        self.put_off = set[str]()
        """Unbound pods by uid for which preemption ended none once, because a node had room."""
        self.named_with_record = LastFilteredNodes(max_names=MAX_NAMED_WITH_RECORD)
        """The nodes that filter last named for a pod that is bound with a record: bind accepts no other."""
        self.named_without_record = LastFilteredNodes()
        """The same for pods that are bound without one. Apart: these sets are long and would push out others."""
        self.over_use: dict[str, str] = {}
        """By uid: text on what bound pods use beyond their grants."""
        self._remembered = Newest[str, SchedulingRequest](MAX_REMEMBERED)

    # Nodes

    def _update_node(self, node: Node) -> Collection[str]:
        name = node.metadata.name
        before = self.nodes.problems.get(name, "")
        modes = super()._update_node(node)
        self._record_modes(name, modes)
        if SERVES_CLAIMS in modes:
            self._on_claims_node()
        problem = self.nodes.problems.get(name, "")
        if problem and problem != before:
            logger.warning("node takes no pods %s", fields(vendor=self.vendor.name, node=name, reason=problem))
        elif before and not problem:
            logger.info("node can be read again %s", fields(vendor=self.vendor.name, node=name))
        return modes

    def node_deleted(self, name: str) -> None:
        self._record_modes(name)
        super().node_deleted(name)

    def _record_modes(self, name: str, modes: Collection[str] = ()) -> None:
        """Record what a node serves, and move the pods for whole cards if they wait for another program now."""
        for mode, nodes in ((SERVES_WHOLE, self._whole_nodes), (SERVES_CLAIMS, self._claims_nodes)):
            (nodes.add if mode in modes else nodes.discard)(name)
        before = self._wholes_wait_in
        after = self.waiting if self._whole_nodes else self.claiming if self._claims_nodes else self.unserved
        if after is before:
            return
        self._wholes_wait_in = after
        found = ((uid, pod) for uid, pod in before.items() if isinstance(pod, SchedulingRequest))
        # A claim for whole cards, which has no calls, is for nodes that serve claims, whatever else there is.
        wholes = {uid: pod for uid, pod in found if pod.cards.whole and pod.calls is not None}
        after.update(wholes)
        for uid in wholes:
            del before[uid]
        for listener in self._move_listeners:
            listener(wholes)

    def listen_moved(self, listener: Callable[[Iterable[str]], None]) -> None:
        """Call ``listener`` with uids of pods that may wait for another program now: no pod's event reports that."""
        self._move_listeners.append(listener)

    @property
    def max_nodes_asked(self) -> int:
        """How many nodes one request may name; a longer list must be forged."""
        return 2 * len(self.nodes.marks) + SPARE_NODES

    # Pods

    def counts_by_claim(self, uid: str) -> bool:
        """Whether a pod is in ``bound`` by an allocated claim; kube-scheduler may not have bound it yet."""
        return uid in self.bound and self.claims.holds(uid)

    def pod_applied(self, pod: Pod) -> None:
        """Update a pod that the watch brought. Pods that ask for nothing of this vendor are not stored."""
        self.gone.discard(pod.metadata.uid)
        if not self.newer_reads.hides(pod):
            self._update_pod(pod)

    def on_pod_read(self, pod: Pod, now_s: float) -> None:
        """Update a bound pod that was read at ``now_s``, a monotonic time; older states from the watch are ignored."""
        if pod.metadata.uid not in self.gone:
            self.newer_reads.record(pod, now_s)
            self._update_pod(pod)

    def pod_deleted(self, uid: str) -> None:
        self.gone.add(uid)
        self.newer_reads.forget(uid)
        self._stop_waiting(uid)
        super().pod_deleted(uid)

    def pods_retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every pod but ``uids``, which are all that existed at ``version``.

        Reservations stay, but their pods no longer wait: the bind in progress settles them. Pods that were read at a
        later version than the list's stay too: they may be newer than the list.
        """
        waiting = self.waiting.keys() | self.unserved.keys() | self.claiming.keys()
        for uid in (self._known_pods() | waiting | self.newer_reads.uids) - uids:
            if self.newer_reads.outlives(uid, version):
                continue
            if self.ledger.is_reserved(uid):
                self._stop_waiting(uid)
            else:
                self.pod_deleted(uid)

    def _update_pods(self, pods: Sequence[Pod]) -> None:
        super()._update_pods(pods)
        for listener in self._move_listeners:
            listener([pod.metadata.uid for pod in pods])

    def _doubt(self, pod: Pod, problem: str) -> None:
        uid = pod.metadata.uid
        if self.pod_problems.get(uid) != problem:
            logger.warning(
                "bound pod holds cards that are unknown %s",
                fields(vendor=self.vendor.name, pod=pod.key, uid=uid, node=pod.spec.node_name, reason=problem),
            )
        super()._doubt(pod, problem)

    def _hold(self, assignment: Assignment) -> None:
        self._stop_waiting(assignment.pod.uid)
        self.names.add(assignment.pod)
        super()._hold(assignment)

    def _update_bound(self, pod: Pod, assignment: Assignment | None) -> None:
        uid = pod.metadata.uid
        if assignment is None:
            self._stop_waiting(uid)
            return
        if text := over_use_text(pod.metadata.annotations):
            self.over_use[uid] = text
        else:
            self.over_use.pop(uid, None)
        if self.claims.holds(uid):
            return
        calls = None if assignment.assigned else starting_calls(pod, self.vendor)
        if calls is None:
            self.starting.forget(uid, assignment.node)
        else:
            self.starting.add(uid, assignment.node, calls)
        (self.nominations.leaving.add if pod.is_being_deleted else self.nominations.leaving.discard)(uid)

    def _stop_waiting(self, uid: str) -> None:
        for pods in (self.waiting, self.unserved, self.claiming):
            if (waiting := pods.pop(uid, None)) is not None:
                self.names.forget(waiting.pod)
        self._remembered.pop(uid, None)
        self.refused_on.forget(uid)
        self.put_off.discard(uid)
        self.nominations.forget(uid)
        self.named_with_record.forget(uid)
        self.named_without_record.forget(uid)

    def _update_unbound(self, pod: Pod, claimed: PodRequest | None) -> None:
        uid = pod.metadata.uid
        if uid in self.bound:
            return  # By its claim: kube-scheduler is binding it.
        if (before := self.claiming.pop(uid, None)) is not None:
            self.names.forget(before.pod)  # Its claim may be gone.
        if claimed is not None:
            problem = problem_of_both_ways(pod, self.vendor)
            self.claiming[uid] = claiming = (
                RejectedRequest(pod_ref(pod), problem, is_malformed=False)
                if problem
                else read_claiming_request(pod, claimed, self.policies)
            )
            self.names.add(claiming.pod)
            return
        try:
            request = read_scheduling_request(pod, self.vendor, self.policies)
        except (RemoteContractError, Refused) as error:
            self._wholes_wait_in.pop(uid, None)
            self.nominations.forget(uid)
            self.waiting[uid] = RejectedRequest(pod_ref(pod), str(error), isinstance(error, RemoteContractError))
            self.names.add(self.waiting[uid].pod)
            return
        if request is not None:
            self.waiting.pop(uid, None)
            (self._wholes_wait_in if request.cards.whole else self.waiting)[uid] = request
            self.names.add(request.pod)
            self.nominations.update(request, pod.status.nominated_node_name)

    def _release(self, uid: str) -> None:
        if self.claims.holds(uid):
            return
        if (held := self.bound.get(uid)) is not None:
            self.names.forget(held.pod)
        self.over_use.pop(uid, None)
        self.nominations.leaving.discard(uid)
        super()._release(uid)

    # Pods that filter read before the watch brought them

    def remember(self, request: SchedulingRequest) -> None:
        """Store the request of a pod that was read, until its watch event arrives."""
        uid = request.pod.uid
        if uid in self.gone:
            return
        for pods in (self.waiting, self._wholes_wait_in):
            if (known := pods.get(uid)) is None:
                continue
            if isinstance(known, SchedulingRequest) and is_at_least(request.version, known.version):
                pods[uid] = replace(known, version=request.version)  # The watch is behind; a request never changes.
            return
        self._remembered[uid] = request

    def find_request(self, uid: str) -> SchedulingRequest | None:
        """The request of an unbound pod, from the watch or a read; None if it has none that can be granted."""
        waiting = self.find_waiting(uid)
        return waiting if isinstance(waiting, SchedulingRequest) else None

    def find_waiting(self, uid: str) -> WaitingPod | None:
        """An unbound pod, from the watch or a read; None if unknown."""
        return self.waiting.get(uid) or self._wholes_wait_in.get(uid) or self._remembered.get(uid)
