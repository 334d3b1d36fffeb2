"""Deployments: one replica set per template."""

from __future__ import annotations

from collections.abc import Iterable

from gcushare_playground.apiserver.controllers.cluster import Cluster, own_key, owner_key, template_hash
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import (
    JsonObject,
    annotations_of,
    copy_of,
    dig,
    is_deleting,
    metadata,
    set_condition,
    uid_of,
)
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.storage import Change, Revision

_DEPLOYMENTS, _SETS = "deployments.apps", "replicasets.apps"
_HASH_LABEL = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


class DeploymentController:
    """Creates and scales replica sets, and reports how far that is."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at a changed Deployment, and at the one that owns a changed replica set."""
        return [*own_key(change, _DEPLOYMENTS), *owner_key(change, _SETS, _DEPLOYMENTS)]

    def sync(self, ref: Ref) -> float | None:
        """Take the next step of the rollout."""
        found = self._cluster.find(ref)
        if found is None or is_deleting(found.obj):
            return None
        current = self._ensure_current(ref, found.obj)
        if current is not None:
            self._move(ref, found.obj, current)
            self._note_revision(ref, current)
        self._report(ref, found.obj, current)
        return None

    def _sets(self, deployment: JsonObject) -> list[Revision]:
        found = self._cluster.ownership.children(uid_of(deployment), _SETS)
        return sorted(found, key=lambda r: (_revision(r.obj), r.key))

    def _ensure_current(self, ref: Ref, deployment: JsonObject) -> Revision | None:
        name = f"{ref.key.name}-{template_hash(deployment['spec']['template'])}"
        sets = self._sets(deployment)
        newest = max((_revision(r.obj) for r in sets), default=0)
        existing = next((r for r in sets if r.key.name == name), None)
        if existing is not None and _revision(existing.obj) == newest:
            return existing
        if dig(deployment, "spec", "paused"):
            return None
        if existing is None:
            return self._create_set(ref, deployment, name, newest + 1)
        # A template that comes back (rollback) becomes the newest revision again.
        self._cluster.change(Ref(_SETS, existing.key), lambda obj: _with_revision(obj, newest + 1))
        return self._cluster.find(Ref(_SETS, existing.key))

    def _create_set(self, ref: Ref, deployment: JsonObject, name: str, revision: int) -> Revision:
        label = {_HASH_LABEL: name.removeprefix(f"{ref.key.name}-")}
        template = copy_of(deployment["spec"]["template"])
        metadata(template).setdefault("labels", {}).update(label)
        selector = copy_of(deployment["spec"]["selector"])
        selector.setdefault("matchLabels", {}).update(label)
        replica_set: JsonObject = {
            "metadata": {
                "name": name,
                "labels": metadata(template)["labels"],
                "annotations": {_REVISION: str(revision)},
            },
            "spec": {"replicas": 0, "selector": selector, "template": template},
        }
        return self._cluster.create_child(ref, deployment, BY_NAME[_SETS], replica_set)

    def _move(self, ref: Ref, deployment: JsonObject, current: Revision) -> None:
        """Scale up the new set, and remove the old ones once it works. Recreate removes the old ones first.

        Kubernetes goes there in steps of maxSurge and maxUnavailable.
        """
        replicas: int = dig(deployment, "spec", "replicas", default=1)
        old = [revision for revision in self._sets(deployment) if revision.key != current.key]
        is_recreated = dig(deployment, "spec", "strategy", "type") == "Recreate"
        works = dig(current.obj, "status", "availableReplicas", default=0) >= replicas
        self._scale(ref, deployment, current, 0 if is_recreated and any(map(self._pods, old)) else replicas)
        for revision in old:
            if is_recreated or works:
                self._scale(ref, deployment, revision, 0)

    def _pods(self, revision: Revision) -> int:
        """Count a set's pods, terminating ones included."""
        return sum(1 for _ in self._cluster.ownership.children(uid_of(revision.obj), "pods"))

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

    def _note_revision(self, ref: Ref, current: Revision) -> None:
        revision = _revision(current.obj)
        self._cluster.change(ref, lambda obj: _with_revision(obj, revision))

    def _report(self, ref: Ref, deployment: JsonObject, current: Revision | None) -> None:
        statuses = [dig(r.obj, "status", default={}) for r in self._sets(deployment)]
        updated = self._cluster.find(Ref(_SETS, current.key)) if current else None
        wanted = deployment["spec"]["replicas"]
        available = sum(s.get("availableReplicas", 0) for s in statuses)
        status: JsonObject = {
            "observedGeneration": metadata(deployment).get("generation"),
            "replicas": sum(s.get("replicas", 0) for s in statuses),
            "updatedReplicas": dig(updated.obj, "status", "replicas", default=0) if updated else 0,
            "readyReplicas": sum(s.get("readyReplicas", 0) for s in statuses),
            "availableReplicas": available,
            "unavailableReplicas": max(0, wanted - available),
            "conditions": dig(deployment, "status", "conditions", default=[]),
        }
        self._set_conditions(status, wanted)
        self._cluster.set_status(ref, {name: value for name, value in status.items() if value != 0})

    def _set_conditions(self, status: JsonObject, wanted: int) -> None:
        now, holder = self._cluster.registry.now, {"status": status}
        enough = status["availableReplicas"] >= wanted
        complete = status["updatedReplicas"] == status["replicas"] == status["availableReplicas"] == wanted
        word = "" if enough else "not "
        available = {
            "type": "Available",
            "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": f"Deployment does {word}have minimum availability.".replace("does have", "has"),
        }
        progressing = {
            "type": "Progressing",
            "status": "True",
            "reason": "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated",
            "message": "The newest replica set is complete." if complete else "The newest replica set is progressing.",
        }
        for wanted_condition in (available, progressing):
            set_condition(holder, wanted_condition, now)


def _revision(obj: JsonObject) -> int:
    return int(annotations_of(obj).get(_REVISION, "0"))


def _with_revision(obj: JsonObject, revision: int) -> JsonObject:
    metadata(obj)["annotations"] = {**annotations_of(obj), _REVISION: str(revision)}
    return obj
