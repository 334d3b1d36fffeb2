"""What controllers do to the cluster: create owned objects, write status, scale, tell events."""

from __future__ import annotations

import hashlib

import msgspec

from gcushare_playground.apiserver.controllers.ownership import Ownership, Ref
from gcushare_playground.apiserver.objects import JsonObject, Key, controller_of, metadata, uid_of
from gcushare_playground.apiserver.registry import Deletion, Mutation, Registry
from gcushare_playground.apiserver.resources import BY_NAME, Resource
from gcushare_playground.apiserver.storage import Change, Revision


def template_hash(template: JsonObject) -> str:
    """Return the name of a pod template: the same text for the same template."""
    return hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:9]


def own_key(change: Change, collection: str) -> list[Ref]:
    """Return the changed object itself where it belongs to the collection."""
    return [Ref(collection, change.revision.key)] if change.collection == collection else []


def owner_key(change: Change, children: str, collection: str) -> list[Ref]:
    """Return the controlling owner of a changed child where the owner belongs to the collection."""
    owner = controller_of(change.revision.obj) if change.collection == children else None
    if owner is None or owner["kind"] != BY_NAME[collection].kind:
        return []
    return [Ref(collection, Key(change.revision.key.namespace, owner["name"]))]


class Cluster:
    """The registry and the ownership index, with the few writes that controllers share."""

    def __init__(self, registry: Registry, ownership: Ownership) -> None:
        self.registry = registry
        self.ownership = ownership

    def find(self, ref: Ref) -> Revision | None:
        """Return a stored object."""
        return self.registry.storage.collection(ref.collection).get(ref.key)

    def create_child(self, owner: Ref, owner_obj: JsonObject, resource: Resource, child: JsonObject) -> Revision:
        """Create an object that its owner controls.

        Raises:
            ApiFailure: the registry refuses it.
        """
        kind = BY_NAME[owner.collection]
        metadata(child)["ownerReferences"] = [
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": owner.key.name,
                "uid": uid_of(owner_obj),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        return self.registry.create(resource, owner.key.namespace, child)

    def create_pod(self, owner: Ref, owner_obj: JsonObject, template: JsonObject) -> None:
        """Create a pod from a template and tell it as an event of the owner."""
        pod = {
            "metadata": {**template.get("metadata", {}), "generateName": f"{owner.key.name}-"},
            "spec": template["spec"],
        }
        created = self.create_child(owner, owner_obj, BY_NAME["pods"], pod)
        self.tell(owner, owner_obj, "SuccessfulCreate", f"Created pod: {created.key.name}")

    def delete_pod(self, owner: Ref, owner_obj: JsonObject, key: Key) -> None:
        """Delete an owned pod gracefully and tell it as an event of the owner."""
        self.delete(Ref("pods", key))
        self.tell(owner, owner_obj, "SuccessfulDelete", f"Deleted pod: {key.name}")

    def delete(self, ref: Ref) -> None:
        """Delete an object that is still there."""
        if self.find(ref) is not None:
            self.registry.delete(BY_NAME[ref.collection], ref.key, Deletion())

    def change(self, ref: Ref, mutate: Mutation) -> None:
        """Change an object's main part."""
        self.registry.update(BY_NAME[ref.collection], ref.key, mutate)

    def set_status(self, ref: Ref, status: JsonObject) -> None:
        """Replace an object's status; the same status writes nothing."""
        kept = {name: value for name, value in status.items() if value is not None}
        self.registry.update(BY_NAME[ref.collection], ref.key, lambda obj: {**obj, "status": kept}, status_only=True)

    def tell(self, ref: Ref, obj: JsonObject, reason: str, message: str) -> None:
        """Create a normal event about an object."""
        kind = BY_NAME[ref.collection]
        now, component = self.registry.now, f"{kind.singular}-controller"
        involved = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "namespace": ref.key.namespace,
            "name": ref.key.name,
            "uid": uid_of(obj),
        }
        event = {
            "metadata": {"generateName": f"{ref.key.name}."},
            "involvedObject": involved,
            "type": "Normal",
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self.registry.create(BY_NAME["events"], ref.key.namespace, event)
