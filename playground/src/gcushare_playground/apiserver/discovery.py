"""What the server says about itself: versions, groups, resources, and just enough OpenAPI.

The OpenAPI documents name, per kind, a PATCH that knows ``fieldValidation`` and nothing else: kubectl and helm then
leave validation to the server and merge by their own built-in types.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import msgspec

from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.apiserver.resources import RESOURCES, Resource

OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_SUBRESOURCES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "binding": ("", "v1", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "exec": ("", "v1", "PodExecOptions", ("create", "get")),
    "log": ("", "v1", "Pod", ("get",)),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
}
"""Group, version, kind and verbs of subresources; status is an object of its resource."""
_STATUS_VERBS = ("get", "patch", "update")


class Discovery:
    """The documents, by path."""

    def __init__(self, version: str) -> None:
        self._documents: dict[str, bytes] = {
            path: msgspec.json.encode(document) for path, document in _documents(version)
        }

    def find(self, path: str) -> tuple[bytes, str] | None:
        """Return a document and its content type, None where the path is none of discovery's."""
        path = path.rstrip("/")
        if path == "/openapi/v2":
            # An empty document as protobuf, which helm before 3.8 asks for: it then leaves validation to the server.
            return b"", OPENAPI_V2
        body = self._documents.get(path)
        return None if body is None else (body, "application/json")


def _documents(version: str) -> Iterator[tuple[str, JsonObject]]:
    major, minor = version.removeprefix("v").split(".")[:2]
    yield "/version", {"major": major, "minor": minor, "gitVersion": version, "platform": "linux/amd64"}
    yield "/api", {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    groups = [_group_document(group, list(members)) for group, members in _groups() if group]
    yield "/apis", {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    for document in groups:
        yield f"/apis/{document['name']}", {"kind": "APIGroup", "apiVersion": "v1", **document}
    for _, found in _groups():
        members = list(found)
        yield members[0].root, _resource_list(members)
        yield f"/openapi/v3{members[0].root}", _openapi(members)
    paths = {r.root.lstrip("/"): {"serverRelativeURL": f"/openapi/v3{r.root}?hash={version}"} for r in RESOURCES}
    yield "/openapi/v3", {"paths": paths}


def _groups() -> Iterator[tuple[str, Iterator[Resource]]]:
    return groupby(RESOURCES, key=lambda resource: resource.group)


def _group_document(group: str, members: list[Resource]) -> JsonObject:
    version = {"groupVersion": members[0].api_version, "version": members[0].version}
    return {"name": group, "versions": [version], "preferredVersion": version}


def _resource_list(members: list[Resource]) -> JsonObject:
    entries = [entry for resource in members for entry in _entries(resource)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": members[0].api_version,
        "resources": entries,
    }


def _entries(resource: Resource) -> Iterator[JsonObject]:
    entry: JsonObject = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    yield entry
    for name in resource.subresources:
        own = (resource.group, resource.version, resource.kind, _STATUS_VERBS)
        group, version, kind, verbs = _SUBRESOURCES.get(name, own)
        head = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
        yield head | {"kind": kind, "group": group, "version": version, "verbs": list(verbs)}


def _openapi(members: list[Resource]) -> JsonObject:
    return {
        "openapi": "3.0.0",
        "info": {"title": "GCUShare playground", "version": "v1"},
        "paths": {_object_path(r): {"patch": _patch_operation(r)} for r in members if "patch" in r.verbs},
        "components": {"schemas": {}},
    }


def _object_path(resource: Resource) -> str:
    namespaced = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{resource.root}{namespaced}/{resource.plural}/{{name}}"


def _patch_operation(resource: Resource) -> JsonObject:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    return {
        "operationId": f"patch{resource.group}{resource.version}{resource.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
