"""Read what a request is about from its path, method and query; no body here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.objects import Key
from gcushare_playground.apiserver.resources import BY_NAME, BY_PATH, Resource
from gcushare_playground.apiserver.selectors import Selector, parse_fields, parse_labels

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_TRUE = frozenset({"1", "t", "true", "True", "TRUE"})


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names. ``namespace`` is None for all namespaces and for cluster-scoped resources."""

    resource: Resource
    namespace: str | None
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        """Where the object named is stored."""
        return Key(self.namespace or "", self.name)


def parse_target(path: str) -> Target | None:
    """Read a resource path; None for any other path.

    Raises:
        ApiFailure: 404 for a resource path that names nothing served.
    """
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    return _target(group, version, rest)


def _target(group: str, version: str, rest: list[str]) -> Target:
    namespace: str | None = None
    of_namespace_itself = len(rest) == 3 and rest[2] in BY_NAME["namespaces"].subresources
    if rest[0] == "namespaces" and len(rest) >= 3 and not of_namespace_itself:
        namespace, rest = rest[1], rest[2:]
    resource = BY_PATH.get((group, version, rest[0]))
    name, subresource = (*rest[1:3], "", "")[:2]
    if resource is None or len(rest) > 3 or (subresource and subresource not in resource.subresources):
        raise failures.unknown_path()
    if resource.namespaced is (namespace is None) and (namespace is not None or name):
        raise failures.unknown_path()
    return Target(resource, namespace, name, subresource)


def verb_of(method: str, target: Target, query: Mapping[str, str]) -> str:
    """Return the API verb of a request, the word authorization uses.

    Raises:
        ApiFailure: 405 for a method the target has no verb for.
    """
    if method == "GET":
        verb = "get" if target.name else ("watch" if flag(query, "watch") else "list")
    elif method == "DELETE" and target.name:
        verb = "delete"
    else:
        verb = _VERBS.get(method, "")
    allowed = ("get", "update", "patch", "create") if target.subresource else target.resource.verbs
    posts_on_name = method == "POST" and bool(target.name) and not target.subresource
    lacks_name = method in ("PUT", "PATCH") and not target.name
    if verb not in allowed or posts_on_name or lacks_name:
        raise failures.method_not_allowed()
    return verb


def proxy_verb_of(method: str) -> str:
    """Return the API verb of a request that is handed on: reading is get, whatever is read."""
    return {"GET": "get", "HEAD": "get", "DELETE": "delete"}.get(method) or _VERBS.get(method, "create")


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return a boolean parameter, false where it is missing."""
    return query.get(name, "") in _TRUE


def number(query: Mapping[str, str], name: str) -> int | None:
    """Return an integer parameter, None where it is missing.

    Raises:
        ApiFailure: 400 for anything but a non-negative integer.
    """
    text = query.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise failures.bad_request(f"invalid query parameter {name}={text!r}: must be a non-negative integer")
    return int(text)


def selector_of(query: Mapping[str, str], resource: Resource) -> Selector:
    """Return what a list or watch filters by.

    Raises:
        ApiFailure: 400 for a selector that cannot be read.
    """
    return Selector(
        parse_labels(query.get("labelSelector", "")), parse_fields(query.get("fieldSelector", ""), resource)
    )
