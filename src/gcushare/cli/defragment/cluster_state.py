"""The cluster as a plan needs it: the ledger, the pods that may be moved, and their targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gcushare.cluster.reader import Reader, Scope
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.ledger import Ledger
from gcushare.core.requests import CardRequest
from gcushare.kube.client import KubeClient
from gcushare.vendors.vendor import Vendor
from gcushare.wire.objects import Pod
from gcushare.wire.pods import is_finished, pod_request


@dataclass(frozen=True, slots=True)
class CurrentCluster:
    """The cluster as it was read once.

    ``movable`` are requests by uid of pods that may be moved, ``kept`` how many may not, by reason; ``opened`` are the
    nodes that take pods; ``problems`` objects that could not be read, and so count nowhere.
    """

    ledger: Ledger
    movable: Mapping[str, CardRequest]
    kept: Mapping[str, int]
    opened: tuple[str, ...]
    problems: tuple[str, ...]


async def read_state(client: KubeClient, vendor: Vendor) -> CurrentCluster:
    """Read the cluster: nodes, then unfinished pods."""
    reader = Reader(client)
    snapshot = ClusterSnapshot(vendor, problems=reader.problems)
    nodes = await reader.list_nodes(Scope())
    pods = await reader.list_pods(vendor, Scope())
    snapshot.count(nodes, pods)
    opened = tuple(sorted(name for name, facts in snapshot.node_facts.items() if facts.takes_pods))
    return CurrentCluster(snapshot.ledger, *find_movable(pods, vendor), opened, tuple(snapshot.problems))


EXEMPTIONS: Mapping[str, str] = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "descheduler.alpha.kubernetes.io/prefer-no-eviction": "true",
}
"""Annotations, with their values, by which a pod's author asks not to move it."""

_BOUND_TO_ITS_NODE = ("DaemonSet", "Node")


def find_movable(pods: Iterable[Pod], vendor: Vendor) -> tuple[dict[str, CardRequest], dict[str, int]]:
    """Return ``movable`` and ``kept`` of ``CurrentCluster``: bound pods that may be moved, and others."""
    movable: dict[str, CardRequest] = {}
    kept: Counter[str] = Counter()
    for pod in pods:
        if not pod.is_bound or is_finished(pod):
            continue
        try:
            request = pod_request(pod, vendor)
        except (RemoteContractError, Refused):
            kept["with a request that cannot be read"] += 1
            continue
        if request is None:
            continue
        reason = _reason_to_stay(pod)
        if reason:
            kept[reason] += 1
        else:
            movable[pod.metadata.uid] = request.cards
    return movable, dict(sorted(kept.items()))


def _reason_to_stay(pod: Pod) -> str:
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is None:
        return "without a controller that creates another"
    if owner.kind in _BOUND_TO_ITS_NODE:
        return f"tied to a node (of a {owner.kind})"
    if pod.is_being_deleted:
        return "being deleted"
    if any(pod.metadata.annotations.get(key) == value for key, value in EXEMPTIONS.items()):
        return "exempt by annotation"
    if (pod.spec.priority or 0) > 0:
        return "with a priority that is too high"
    return ""
