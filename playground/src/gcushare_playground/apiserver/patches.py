"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7396), as pure functions on documents."""

from __future__ import annotations

from typing import Any

from gcushare_playground.apiserver.failures import ApiFailure, bad_request, unprocessable
from gcushare_playground.apiserver.objects import JsonObject, copy_of

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)


def merge(target: Any, patch: Any) -> Any:
    """Return ``target`` with a merge patch applied: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged: JsonObject = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def apply_json_patch(target: JsonObject, operations: Any) -> JsonObject:
    """Return ``target`` with every operation applied in order; one that fails fails the whole patch.

    Raises:
        ApiFailure: 400 for a patch that is not a list of operations, 422 for one that does not fit the object.
    """
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    document: JsonObject = {"": copy_of(target)}
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request(f"error decoding patch: not an operation with a path: {operation!r}")
        _apply_operation(document, operation)
    result: JsonObject = document[""]
    return result


def _apply_operation(document: JsonObject, operation: JsonObject) -> None:
    path, kind = _pointer(operation["path"]), operation.get("op")
    match kind:
        case "add":
            _add(document, path, operation.get("value"))
        case "replace":
            _remove(document, path, "replace")
            _add(document, path, operation.get("value"))
        case "remove":
            _remove(document, path, "remove")
        case "test":
            _test(document, path, operation)
        case _:
            raise bad_request(f"error decoding patch: Unexpected kind: {kind!r}")


def _test(document: JsonObject, path: list[str], operation: JsonObject) -> None:
    try:
        found = _find(document, path)
    except ApiFailure:
        # A test for null holds where nothing is: clients use it to add only what is missing.
        found = None
    if found != operation.get("value"):
        raise unprocessable(f"testing value {operation['path']} failed: test failed")


def _pointer(text: str) -> list[str]:
    # Everything hangs under one extra root, so that the empty pointer (the whole document) needs no special case.
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")]


def _find(document: Any, path: list[str]) -> Any:
    for step in path:
        document = _child(document, step, path)
    return document


def _child(container: Any, step: str, path: list[str]) -> Any:
    if isinstance(container, dict) and step in container:
        return container[step]
    if isinstance(container, list) and step.isdigit() and int(step) < len(container):
        return container[int(step)]
    raise unprocessable(f"Unable to access path {'/'.join(path)!r}: {step!r} does not exist: missing value")


def _add(document: JsonObject, path: list[str], value: Any) -> None:
    parent, last = _find(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and (last == "-" or (last.isdigit() and int(last) <= len(parent))):
        parent.insert(len(parent) if last == "-" else int(last), value)
    else:
        raise unprocessable(f"add operation does not apply: doc is missing path: {'/'.join(path)!r}: missing value")


def _remove(document: JsonObject, path: list[str], operation: str) -> None:
    parent, last = _find(document, path[:-1]), path[-1]
    if isinstance(parent, dict) and last in parent:
        del parent[last]
    elif isinstance(parent, list) and last.isdigit() and int(last) < len(parent):
        del parent[int(last)]
    else:
        raise unprocessable(
            f"{operation} operation does not apply: doc is missing key: {'/'.join(path)!r}: missing value"
        )
