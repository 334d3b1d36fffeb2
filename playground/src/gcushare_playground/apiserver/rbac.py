"""Role-based access control over the roles and bindings stored in the double.

Source: ``pkg/registry/rbac/validation`` and ``plugin/pkg/auth/authorizer/rbac`` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare_playground.apiserver.authorization import Attributes
from gcushare_playground.apiserver.identities import MASTERS, User
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.storage import Storage

_GROUP = "rbac.authorization.k8s.io"
_DISCOVERY_PATHS = ("/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version")
"""What the default roles system:discovery and system:public-info-viewer open to everybody known."""


class RbacAuthorizer:
    """Allow what a stored role grants, what the default discovery roles grant, and everything to system:masters."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def allows(self, attributes: Attributes) -> bool:
        """Tell whether some rule bound to the user covers the request."""
        user = attributes.user
        if MASTERS in user.groups:
            return True
        if "system:authenticated" in user.groups and _is_open_to_all(attributes):
            return True
        return any(_covers(rule, attributes) for rule in self._rules(user, attributes.namespace))

    def _rules(self, user: User, namespace: str) -> Iterator[JsonObject]:
        for binding in self._all("clusterrolebindings", None):
            if _binds(binding, user, ""):
                yield from self._role_rules(binding["roleRef"], "")
        if namespace:
            for binding in self._all("rolebindings", namespace):
                if _binds(binding, user, namespace):
                    yield from self._role_rules(binding["roleRef"], namespace)

    def _all(self, plural: str, namespace: str | None) -> Iterator[JsonObject]:
        for revision in self._storage.collection(f"{plural}.{_GROUP}").view().walk(namespace):
            yield revision.obj

    def _role_rules(self, reference: JsonObject, namespace: str) -> list[JsonObject]:
        clustered = reference.get("kind") == "ClusterRole"
        collection = self._storage.collection(f"{'clusterroles' if clustered else 'roles'}.{_GROUP}")
        role = collection.get(Key("" if clustered else namespace, str(reference.get("name"))))
        return (role.obj.get("rules") or []) if role else []


def _is_open_to_all(attributes: Attributes) -> bool:
    path = attributes.path
    is_read = not attributes.resource and attributes.verb == "get"
    return is_read and any(path == p or path.startswith(f"{p}/") for p in _DISCOVERY_PATHS)


def _binds(binding: JsonObject, user: User, namespace: str) -> bool:
    return any(_is_subject(subject, user, namespace) for subject in binding.get("subjects") or [])


def _is_subject(subject: JsonObject, user: User, namespace: str) -> bool:
    name = str(subject.get("name"))
    match subject.get("kind"):
        case "User":
            return name == user.name
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            return user.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
        case _:
            return False


def _covers(rule: JsonObject, attributes: Attributes) -> bool:
    if not _has(rule, "verbs", attributes.verb):
        return False
    if not attributes.resource:
        return any(_path_matches(str(p), attributes.path) for p in rule.get("nonResourceURLs") or [])
    names = rule.get("resourceNames") or []
    return (
        _has(rule, "apiGroups", attributes.group)
        and (_has(rule, "resources", attributes.full_resource) or f"*/{attributes.subresource}" in rule["resources"])
        and (not names or attributes.name in names)
    )


def _has(rule: JsonObject, field: str, value: str) -> bool:
    values = rule.get(field) or []
    return value in values or "*" in values


def _path_matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
