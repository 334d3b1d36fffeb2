"""Namespaces are emptied before they go and have a default account; cordoned nodes carry their taint."""

from __future__ import annotations

from collections.abc import Iterable

from gcushare_playground.apiserver.controllers.cluster import Cluster, own_key
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import JsonObject, Key, dig, is_deleting, metadata
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.storage import Change, ChangeType

_ACCOUNTS = "serviceaccounts"
_CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class NamespaceController:
    """Creates the default account of every namespace, and empties those that are being deleted."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at a changed namespace, and at the one that a deleted object stood in."""
        namespace = change.revision.key.namespace
        if namespace and change.type is ChangeType.DELETED:
            return [Ref("namespaces", Key("", namespace))]
        return own_key(change, "namespaces")

    def sync(self, ref: Ref) -> float | None:
        """Delete everything inside a leaving namespace, then let it go."""
        found = self._cluster.find(ref)
        if found is None:
            return None
        name = ref.key.name
        if not is_deleting(found.obj):
            if self._cluster.find(Ref(_ACCOUNTS, Key(name, "default"))) is None:
                self._cluster.registry.create(BY_NAME[_ACCOUNTS], name, {"metadata": {"name": "default"}})
            return None
        if not self._empty(name):
            self._cluster.change(ref, _released)
        return None

    def _empty(self, namespace: str) -> int:
        """Delete what stands in a namespace; return how many objects still leave gracefully."""
        left = 0
        for collection in self._cluster.registry.storage.collections():
            for revision in list(collection.view().walk(namespace)) if namespace else []:
                ref = Ref(collection.name, revision.key)
                if not is_deleting(revision.obj):
                    self._cluster.delete(ref)
                left += self._cluster.find(ref) is not None
        return left


def _released(namespace: JsonObject) -> JsonObject:
    found = metadata(namespace)
    found["finalizers"] = [name for name in found.get("finalizers", []) if name != "kubernetes"]
    return namespace


class CordonController:
    """Gives cordoned nodes the taint that keeps pods away, and takes it back."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at a changed node."""
        return own_key(change, "nodes")

    def sync(self, ref: Ref) -> float | None:
        """Make the taint follow spec.unschedulable."""
        if self._cluster.find(ref) is not None:
            self._cluster.change(ref, _with_cordon_taint)
        return None


def _with_cordon_taint(node: JsonObject) -> JsonObject:
    before = dig(node, "spec", "taints", default=[])
    taints = [taint for taint in before if taint.get("key") != _CORDON_TAINT["key"]]
    if dig(node, "spec", "unschedulable"):
        taints.append(next((t for t in before if t.get("key") == _CORDON_TAINT["key"]), dict(_CORDON_TAINT)))
    if taints != before:
        node["spec"]["taints"] = taints or None
    return node
