"""Resource claims: made from the templates that pods name, and gone with their pods.

Source: pkg/controller/resourceclaim. Claims that people write themselves are left alone, and none has a finalizer here.
"""

from __future__ import annotations

from collections.abc import Iterable

from gcushare_playground.apiserver.controllers.cluster import Cluster, own_key, owner_key
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import JsonObject, Key, copy_of, is_deleting, is_finished, metadata, uid_of
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.storage import Change

CLAIMS, TEMPLATES = "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"


class ClaimController:
    """Makes the claims of pods; the garbage collector deletes them, and this one does so for a pod that ended."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at a changed pod, at the pod of a changed claim, and at pods that wait for a changed template."""
        found = [*own_key(change, "pods"), *owner_key(change, CLAIMS, "pods")]
        if change.collection == TEMPLATES:
            name, namespace = change.revision.key.name, change.revision.key.namespace
            for pod in self._cluster.registry.storage.collection("pods").view().walk(namespace):
                entries = pod.obj["spec"].get("resourceClaims") or []
                if any(each.get("resourceClaimTemplateName") == name for each in entries):
                    found.append(Ref("pods", pod.key))
        return found

    def sync(self, ref: Ref) -> None:
        """Make what is missing, and write into the pod's status which claims are its own."""
        found = self._cluster.find(ref)
        entries = found.obj["spec"].get("resourceClaims") if found is not None else None
        if found is None or not entries:
            return
        owned = {
            metadata(claim.obj).get("annotations", {}).get("resource.kubernetes.io/pod-claim-name"): claim.key
            for claim in self._cluster.ownership.children(uid_of(found.obj), CLAIMS)
        }
        if is_finished(found.obj):
            for key in owned.values():
                self._cluster.delete(Ref(CLAIMS, key))
        if is_finished(found.obj) or is_deleting(found.obj):
            return
        for entry in entries:
            template = self._cluster.find(
                Ref(TEMPLATES, Key(ref.key.namespace, entry.get("resourceClaimTemplateName", "")))
            )
            if template is not None and entry["name"] not in owned:
                owned[entry["name"]] = self._create(ref, found.obj, entry["name"], template.obj)
        made = [{"name": name, "resourceClaimName": key.name} for name, key in owned.items()]
        if made and made != found.obj["status"].get("resourceClaimStatuses"):
            self._cluster.set_status(ref, {**found.obj["status"], "resourceClaimStatuses": made})

    def _create(self, ref: Ref, pod: JsonObject, name: str, template: JsonObject) -> Key:
        wanted = copy_of(template["spec"])
        found = metadata(wanted)
        found.setdefault("annotations", {})["resource.kubernetes.io/pod-claim-name"] = name
        found["generateName"] = f"{ref.key.name}-{name}-"
        claim = {"metadata": found, "spec": wanted["spec"]}
        return self._cluster.create_child(ref, pod, BY_NAME[CLAIMS], claim).key
