"""Replica sets: as many pods as wanted, counted without the ones that ended or are leaving."""

from __future__ import annotations

from collections.abc import Iterable

from gcushare_playground.apiserver.controllers.cluster import Cluster, own_key, owner_key
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import (
    JsonObject,
    dig,
    is_deleting,
    is_finished,
    is_ready,
    metadata,
    seconds_of,
    uid_of,
)
from gcushare_playground.apiserver.storage import Change, Revision

_SETS = "replicasets.apps"
_BACKOFF_START_S, _BACKOFF_END_S = 0.05, 10.0


class ReplicaSetController:
    """Creates and deletes pods, and counts them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at a changed replica set, and at the one that owns a changed pod."""
        return [*own_key(change, _SETS), *owner_key(change, "pods", _SETS)]

    def sync(self, ref: Ref) -> float | None:
        """Create what is missing, delete what is too much, report."""
        found = self._cluster.find(ref)
        if found is None or is_deleting(found.obj):
            return None
        pods = list(self._cluster.ownership.children(uid_of(found.obj), "pods"))
        active = [pod for pod in pods if not is_finished(pod.obj) and not is_deleting(pod.obj)]
        wanted = dig(found.obj, "spec", "replicas", default=0)
        self._report(ref, found.obj, active)
        if wanted < len(active):
            for pod in sorted(active, key=_first_to_go)[: len(active) - wanted]:
                self._cluster.delete_pod(ref, found.obj, pod.key)
        elif wanted > len(active):
            if (wait_s := self._backoff_s(pods)) > 0:
                return wait_s
            for _ in range(wanted - len(active)):
                self._cluster.create_pod(ref, found.obj, found.obj["spec"]["template"])
        return None

    def _backoff_s(self, pods: list[Revision]) -> float:
        """Return how long to wait before replacing failed pods: a node that refuses them would fail them at once."""
        failed = [pod.obj for pod in pods if dig(pod.obj, "status", "phase") == "Failed"]
        if not failed:
            return 0.0
        latest = max(seconds_of(metadata(pod).get("creationTimestamp")) or 0.0 for pod in failed)
        pause_s = min(_BACKOFF_START_S * 2.0 ** len(failed), _BACKOFF_END_S)
        wait_s: float = latest + pause_s - self._cluster.registry.clock()
        return wait_s

    def _report(self, ref: Ref, replica_set: JsonObject, active: list[Revision]) -> None:
        ready = sum(is_ready(pod.obj) for pod in active)
        status: JsonObject = {
            "observedGeneration": metadata(replica_set).get("generation"),
            "replicas": len(active),
            "fullyLabeledReplicas": len(active) or None,
            "readyReplicas": ready or None,
            "availableReplicas": ready or None,
        }
        self._cluster.set_status(ref, status)


def _first_to_go(pod: Revision) -> tuple[bool, bool, float, str]:
    created = seconds_of(metadata(pod.obj).get("creationTimestamp")) or 0.0
    return bool(dig(pod.obj, "spec", "nodeName")), is_ready(pod.obj), -created, pod.key.name
