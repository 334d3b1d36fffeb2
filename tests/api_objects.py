"""Objects of the API server double: made from the few words that matter, and found, changed and deleted in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gcushare_playground.apiserver import ApiServer, Deletion
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.patches import merge
from gcushare_playground.apiserver.resources import RESOURCES, Resource

_KINDS = {resource.kind: resource for resource in RESOURCES}
NO_MORE: Mapping[str, Any] = {}


def an_object(
    kind: str, name: str, namespace: str = "default", *, metadata: Mapping[str, Any] = NO_MORE, **parts: Any
) -> JsonObject:
    """An object of a kind that the double serves; ``metadata`` is what it has in addition to its name."""
    resource = _KINDS[kind]
    key = {"name": name, "namespace": namespace} if resource.namespaced else {"name": name}
    return {"apiVersion": resource.api_version, "kind": kind, "metadata": {**key, **metadata}, **parts}


def owned_by(controller: str) -> dict[str, Any]:
    """The metadata of what a controller made, such as ``ReplicaSet web-5d8``; nothing where none did."""
    if not controller:
        return {}
    kind, name = controller.split()
    owner = {"apiVersion": _KINDS[kind].api_version, "kind": kind, "name": name, "uid": f"uid-{name}"}
    return {"ownerReferences": [{**owner, "controller": True}]}


def find(api: ApiServer, kind: str, name: str, namespace: str = "default") -> JsonObject:
    """An object that has to be there."""
    resource, key = _place(kind, name, namespace)
    return api.registry.read(resource, key).copy()


def listed(api: ApiServer, kind: str) -> list[JsonObject]:
    return list(api.store.list(_KINDS[kind].qualified))


def merge_into(
    api: ApiServer, kind: str, name: str, change: JsonObject, namespace: str = "default", *, status_only: bool = False
) -> None:
    """Change an object by a merge patch, of its status subresource where that is said."""
    resource, key = _place(kind, name, namespace)
    api.registry.update(resource, key, lambda obj: merge(obj, change), status_only=status_only)


def delete(api: ApiServer, kind: str, name: str, namespace: str = "default", *, grace_s: int | None = 0) -> None:
    """Delete an object; without a time to end, or with this one, or with a pod's own."""
    resource, key = _place(kind, name, namespace)
    api.registry.delete(resource, key, Deletion(grace_s=grace_s))


def grant(api: ApiServer, subject: JsonObject, rules: Sequence[JsonObject], name: str, namespace: str = "") -> None:
    """Give a user or a service account a role, in one namespace or, where none is named, in all."""
    role = "Role" if namespace else "ClusterRole"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}
    api.registry.put(an_object(role, name, namespace, rules=list(rules)))
    api.registry.put(an_object(f"{role}Binding", name, namespace, roleRef=reference, subjects=[subject]))


def _place(kind: str, name: str, namespace: str) -> tuple[Resource, Key]:
    resource = _KINDS[kind]
    return resource, Key(namespace if resource.namespaced else "", name)
