"""Replica sets: as many pods as wanted, counted without those that are leaving.

Unlike the original this one does not replace a pod that failed: a node that refuses pods would fail them at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from gcushare_playground.apiserver.controllers.cluster import Cluster, own_key, owner_key
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import (
    JsonObject,
    dig,
    is_deleting,
    is_ready,
    metadata,
    seconds_of,
    uid_of,
)
from gcushare_playground.apiserver.storage import Change, Revision

_SETS = "replicasets.apps"


class ReplicaSetController:
    """Creates and deletes pods, and counts them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at a changed replica set, and at the one that owns a changed pod."""
        return [*own_key(change, _SETS), *owner_key(change, "pods", _SETS)]

    def sync(self, ref: Ref) -> None:
        """Create what is missing, delete what is too much, report."""
        found = self._cluster.find(ref)
        if found is None or is_deleting(found.obj):
            return
        pods = [pod for pod in self._cluster.ownership.children(uid_of(found.obj), "pods") if not is_deleting(pod.obj)]
        wanted = dig(found.obj, "spec", "replicas", default=0)
        self._report(ref, found.obj, pods)
        for pod in sorted(pods, key=_first_to_go)[: max(0, len(pods) - wanted)]:
            self._cluster.delete_pod(ref, found.obj, pod.key)
        for _ in range(wanted - len(pods)):
            self._cluster.create_pod(ref, found.obj, found.obj["spec"]["template"])

    def _report(self, ref: Ref, replica_set: JsonObject, pods: list[Revision]) -> None:
        ready = sum(is_ready(pod.obj) for pod in pods)
        status: JsonObject = {
            "observedGeneration": metadata(replica_set).get("generation"),
            "replicas": len(pods),
            "readyReplicas": ready or None,
            "availableReplicas": ready or None,
        }
        self._cluster.set_status(ref, status)


def _first_to_go(pod: Revision) -> tuple[bool, bool, float, str]:
    created = seconds_of(metadata(pod.obj).get("creationTimestamp")) or 0.0
    return bool(dig(pod.obj, "spec", "nodeName")), is_ready(pod.obj), -created, pod.key.name
