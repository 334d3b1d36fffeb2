"""The cluster as a plan needs it: the ledger, the pods that may be moved, their targets, and each controller's pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gcushare.cluster.reader import Reader, Scope
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.ledger import Ledger
from gcushare.core.packing.defragment import RoomPlan, prove
from gcushare.core.requests import CardRequest
from gcushare.kube.client import KubeClient
from gcushare.vendors.vendor import Vendor
from gcushare.wire.objects import Node, Pod
from gcushare.wire.pods import is_finished, pod_request


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster as it was read once. ``pods`` are the unfinished ones by uid, ``opened`` the nodes that take pods.

    ``problems``: objects that could not be read, and so count nowhere. ``moving``: pods that end, and those that wait
    for a node although their cards are free, such as the replacement of an evicted pod.
    """

    ledger: Ledger
    found: MovablePods
    opened: tuple[str, ...]
    pods: Mapping[str, Pod]
    problems: tuple[str, ...]
    moving: tuple[str, ...]

    def running(self) -> Counter[str]:
        """How many pods of each controller are on a node and stay there, by the controller's uid."""
        placed = (pod for pod in self.pods.values() if pod.is_bound and not pod.is_being_deleted)
        return Counter(uid for pod in placed if (uid := controller_of(pod)))

    def check(self, plan: RoomPlan) -> None:
        """Check that a plan, or the rest of one, still works.

        Raises:
            Refused: it does not work; the message says why.
        """
        for name in (plan.node, *(move.target for move in plan.moves)):
            if name not in self.opened:
                raise Refused(f"node {name!r} takes no pods any more; plan again")
        for move in plan.moves:
            if move.pod.uid not in self.found.movable:
                raise Refused(f"pod {move.pod} may not be moved any more; plan again")
        prove(self.ledger, plan)


async def read_state(client: KubeClient, vendor: Vendor, most_priority: int) -> ClusterState:
    """Read the cluster: nodes, then unfinished pods."""
    reader = Reader(client)
    snapshot = ClusterSnapshot(vendor, problems=reader.problems)
    nodes = await reader.list_nodes(Scope())
    pods = await reader.list_pods(vendor, Scope())
    return make_state(snapshot, nodes, pods, most_priority)


def make_state(
    snapshot: ClusterSnapshot, nodes: Iterable[Node], pods: Collection[Pod], most_priority: int
) -> ClusterState:
    """Count nodes and unfinished pods, as they were listed, into an empty snapshot."""
    snapshot.count(nodes, pods)
    opened = sorted(name for name, facts in snapshot.nodes.items() if facts.is_ready and not facts.is_unschedulable)
    found = find_movable(pods, snapshot.vendor, most_priority=most_priority)
    by_uid = {pod.metadata.uid: pod for pod in pods}
    open_nodes = [node for name in opened if (node := snapshot.ledger.nodes.get(name)) is not None]
    moving = sorted(
        str(pod.ref)
        for pod in snapshot.pods.values()
        if (pod.is_ending and pod.node in opened)
        or (not pod.node and pod.request is not None and any(node.fits(pod.request) for node in open_nodes))
    )
    return ClusterState(snapshot.ledger, found, tuple(opened), by_uid, tuple(snapshot.problems), tuple(moving))


def controller_of(pod: Pod) -> str:
    """The uid of the controller that replaces the pod; empty without one."""
    return next((each.uid for each in pod.metadata.owner_references if each.controller), "")


EXEMPTIONS: Mapping[str, str] = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "descheduler.alpha.kubernetes.io/prefer-no-eviction": "true",
}
"""Annotations, with their values, by which a pod's author asks not to move it."""

SYSTEM_PRIORITY = 2_000_000_000
"""From here on priorities are the cluster's own (system-cluster-critical)."""

_BOUND_TO_ITS_NODE = ("DaemonSet", "Node")


@dataclass(frozen=True, slots=True)
class MovablePods:
    """Requests by uid of pods that may be moved, and how many may not, by reason."""

    movable: Mapping[str, CardRequest]
    kept: Mapping[str, int]


def find_movable(pods: Iterable[Pod], vendor: Vendor, *, most_priority: int) -> MovablePods:
    """Tell bound pods that may be moved from others; ``most_priority`` is the highest that may be moved."""
    movable: dict[str, CardRequest] = {}
    kept: Counter[str] = Counter()
    for pod in pods:
        if not pod.is_bound or is_finished(pod):
            continue
        try:
            request = pod_request(pod, vendor)
        except (RemoteContractError, Refused):
            kept["its request cannot be read"] += 1
            continue
        if request is None:
            continue
        reason = _reason_to_stay(pod, most_priority)
        if reason:
            kept[reason] += 1
        else:
            movable[pod.metadata.uid] = request.cards
    return MovablePods(movable, dict(sorted(kept.items())))


def _reason_to_stay(pod: Pod, most_priority: int) -> str:
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is None:
        return "no controller would replace it"
    if owner.kind in _BOUND_TO_ITS_NODE:
        return f"it belongs to its node ({owner.kind})"
    if pod.is_being_deleted:
        return "it is ending"
    if any(pod.metadata.annotations.get(key) == value for key, value in EXEMPTIONS.items()):
        return "an annotation exempts it"
    if (pod.spec.priority or 0) > min(most_priority, SYSTEM_PRIORITY - 1):
        return "its priority is too high"
    return ""
