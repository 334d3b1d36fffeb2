"""Deployments: one replica set per template.

The pods of an older template go at once, with no regard to the strategy; there is no history, and no way back.
"""

from __future__ import annotations

from collections.abc import Iterable

from gcushare_playground.apiserver.controllers.cluster import Cluster, own_key, owner_key, template_hash
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import JsonObject, copy_of, dig, is_deleting, metadata, uid_of
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.storage import Change, Revision

_DEPLOYMENTS, _SETS = "deployments.apps", "replicasets.apps"
_HASH_LABEL = "pod-template-hash"


class DeploymentController:
    """Creates and scales replica sets, and reports how far that is."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at a changed Deployment, and at the one that owns a changed replica set."""
        return [*own_key(change, _DEPLOYMENTS), *owner_key(change, _SETS, _DEPLOYMENTS)]

    def sync(self, ref: Ref) -> None:
        """Have all replicas in the set of the template as it is now."""
        found = self._cluster.find(ref)
        if found is None or is_deleting(found.obj):
            return
        name = f"{ref.key.name}-{template_hash(found.obj['spec']['template'])}"
        sets = {each.key.name: each for each in self._cluster.ownership.children(uid_of(found.obj), _SETS)}
        if name not in sets:
            sets[name] = self._create_set(ref, found.obj, name)
        for each in sets.values():
            self._scale(ref, found.obj, each, found.obj["spec"]["replicas"] if each.key.name == name else 0)
        self._report(ref, found.obj, [dig(each.obj, "status", default={}) for each in sets.values()], sets[name])

    def _create_set(self, ref: Ref, deployment: JsonObject, name: str) -> Revision:
        label = {_HASH_LABEL: name.removeprefix(f"{ref.key.name}-")}
        template = copy_of(deployment["spec"]["template"])
        metadata(template).setdefault("labels", {}).update(label)
        selector = copy_of(deployment["spec"]["selector"])
        selector.setdefault("matchLabels", {}).update(label)
        replica_set: JsonObject = {
            "metadata": {"name": name, "labels": metadata(template)["labels"]},
            "spec": {"replicas": 0, "selector": selector, "template": template},
        }
        return self._cluster.create_child(ref, deployment, BY_NAME[_SETS], replica_set)

    def _scale(self, ref: Ref, deployment: JsonObject, revision: Revision, after: int) -> None:
        before: int = dig(revision.obj, "spec", "replicas", default=0)
        if before == after:
            return

        def mutate(obj: JsonObject) -> JsonObject:
            obj["spec"]["replicas"] = after
            return obj

        self._cluster.change(Ref(_SETS, revision.key), mutate)
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {revision.key.name} from {before} to {after}"
        self._cluster.tell(ref, deployment, "ScalingReplicaSet", message)

    def _report(self, ref: Ref, deployment: JsonObject, statuses: list[JsonObject], current: Revision) -> None:
        counts = {name: sum(s.get(name, 0) for s in statuses) for name in ("replicas", "readyReplicas")}
        available, updated = counts["readyReplicas"], dig(current.obj, "status", "replicas", default=0)
        counts |= {"updatedReplicas": updated, "availableReplicas": available}
        counts["unavailableReplicas"] = max(0, deployment["spec"]["replicas"] - available)
        status: JsonObject = {name: count for name, count in counts.items() if count}
        self._cluster.set_status(ref, {"observedGeneration": metadata(deployment).get("generation"), **status})
