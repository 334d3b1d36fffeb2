"""Daemon sets: one pod on every node that fits, placed by the scheduler through an affinity for that node."""

from __future__ import annotations

from collections.abc import Iterable

from gcushare_playground.apiserver.controllers.cluster import Cluster, own_key, owner_key, template_hash
from gcushare_playground.apiserver.controllers.node_matching import fits
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import (
    JsonObject,
    copy_of,
    dig,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    metadata,
    uid_of,
)
from gcushare_playground.apiserver.storage import Change, Revision

_DAEMON_SETS = "daemonsets.apps"
_HASH_LABEL = "controller-revision-hash"
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Taints that daemons bear: they must run where nothing else may."""


class DaemonSetController:
    """Keeps one pod per fitting node, replaces outdated ones one after the other, and counts them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at a changed daemon set, the owner of a changed pod, and at all of them when a node changes."""
        if change.collection == "nodes":
            stored = self._cluster.registry.storage.collection(_DAEMON_SETS)
            return [Ref(_DAEMON_SETS, revision.key) for revision in stored.view().walk(None)]
        return [*own_key(change, _DAEMON_SETS), *owner_key(change, "pods", _DAEMON_SETS)]

    def sync(self, ref: Ref) -> float | None:
        """Create what is missing, delete what is too much or outdated, report."""
        found = self._cluster.find(ref)
        if found is None or is_deleting(found.obj):
            return None
        template = _daemon_template(found.obj)
        nodes = [r.obj for r in self._cluster.registry.storage.collection("nodes").view().walk(None)]
        chosen = {str(dig(node, "metadata", "name")) for node in nodes if fits(template["spec"], node)}
        standing = self._standing(ref, found.obj, chosen)
        for node in sorted(chosen - standing.keys()):
            self._cluster.create_pod(ref, found.obj, _for_node(template, node))
        kept = [pod for pod in standing.values() if not is_deleting(pod.obj)]
        self._replace_outdated(ref, found.obj, kept, labels_of(template)[_HASH_LABEL])
        self._report(ref, found.obj, kept, (len(chosen), labels_of(template)[_HASH_LABEL]))
        return None

    def _standing(self, ref: Ref, daemon_set: JsonObject, chosen: set[str]) -> dict[str, Revision]:
        standing: dict[str, Revision] = {}
        for pod in list(self._cluster.ownership.children(uid_of(daemon_set), "pods")):
            node = _node_of(pod.obj)
            if node not in chosen or node in standing or is_finished(pod.obj):
                if not is_deleting(pod.obj):
                    self._cluster.delete_pod(ref, daemon_set, pod.key)
            else:
                standing[node] = pod
        return standing

    def _replace_outdated(self, ref: Ref, daemon_set: JsonObject, pods: list[Revision], current: str) -> None:
        outdated = [pod for pod in pods if labels_of(pod.obj).get(_HASH_LABEL) != current]
        if not outdated or dig(daemon_set, "spec", "updateStrategy", "type") == "OnDelete":
            return
        # One node at a time: the next only when everything else works.
        broken = [pod for pod in pods if not is_ready(pod.obj)]
        candidates = [pod for pod in outdated if pod in broken] or (outdated if not broken else [])
        if candidates:
            self._cluster.delete_pod(ref, daemon_set, candidates[0].key)

    def _report(self, ref: Ref, daemon_set: JsonObject, pods: list[Revision], wanted: tuple[int, str]) -> None:
        desired, current = wanted
        ready = sum(is_ready(pod.obj) for pod in pods)
        status: JsonObject = {
            "observedGeneration": metadata(daemon_set).get("generation"),
            "desiredNumberScheduled": desired,
            "currentNumberScheduled": len(pods),
            "numberMisscheduled": 0,
            "updatedNumberScheduled": sum(labels_of(pod.obj).get(_HASH_LABEL) == current for pod in pods) or None,
            "numberReady": ready,
            "numberAvailable": ready or None,
            "numberUnavailable": desired - ready or None,
        }
        self._cluster.set_status(ref, status)


def _daemon_template(daemon_set: JsonObject) -> JsonObject:
    template = copy_of(daemon_set["spec"]["template"])
    metadata(template).setdefault("labels", {})[_HASH_LABEL] = template_hash(template)
    tolerations = template["spec"].setdefault("tolerations", [])
    tolerations += [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    return template


def _for_node(template: JsonObject, node: str) -> JsonObject:
    pod = copy_of(template)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [{**term, "matchFields": [field]} for term in terms]
    return pod


def _node_of(pod: JsonObject) -> str:
    if node := dig(pod, "spec", "nodeName"):
        return str(node)
    path = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    return str(dig(pod, *path, 0, "matchFields", 0, "values", 0, default=""))
