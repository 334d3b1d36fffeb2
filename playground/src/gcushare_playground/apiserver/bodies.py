"""Request bodies: read within a limit, decoded into an object or into a patch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.event_groups import from_events_group, to_events_group
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.apiserver.patches import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    PATCH_TYPES,
    STRATEGIC_PATCH,
    apply_json_patch,
    merge,
)
from gcushare_playground.apiserver.registry import Mutation
from gcushare_playground.apiserver.resources import Resource
from gcushare_playground.apiserver.strategic import strategic_merge

LIMIT_BYTES = 3 * 1024 * 1024
"""kube-apiserver's limit for a request body."""
_JSON = "application/json"
_OBJECT_TYPES = (_JSON, "application/yaml")


async def read_body(request: web.BaseRequest) -> bytes:
    """Return the body.

    Raises:
        ApiFailure: 413 as soon as it exceeds the limit; the rest is not read.
    """
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > LIMIT_BYTES:
            raise failures.body_too_large(LIMIT_BYTES)
    return bytes(body)


def media_type(request: web.BaseRequest) -> str:
    """Return the body's declared type without its parameters."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def decode_object(media: str, body: bytes) -> JsonObject:
    """Return the JSON or YAML object of a body; an empty body is an empty object.

    Raises:
        ApiFailure: 400 for anything else, 415 for another format.
    """
    if media not in (*_OBJECT_TYPES, "", APPLY_PATCH):
        raise failures.unsupported_media(_OBJECT_TYPES)
    if not body.strip():
        return {}
    decoded = _decode_yaml(body) if media in (APPLY_PATCH, "application/yaml") else _decode_json(body)
    if not isinstance(decoded, dict):
        raise failures.bad_request(
            f"couldn't get version/kind; json parse error: {type(decoded).__name__} is not an object"
        )
    return decoded


def decode_resource(resource: Resource, media: str, body: bytes) -> JsonObject:
    """Return the object of a create or an update as it is stored.

    Raises:
        ApiFailure: 400 for another kind or API version than the path's, and as :func:`decode_object`.
    """
    obj = decode_object(media, body)
    if not obj:
        raise failures.bad_request(f"the request carries no {resource.kind}: its body is empty")
    if obj.get("kind", resource.kind) != resource.kind:
        kind = obj.get("kind")
        raise failures.bad_request(f"the object provided is unrecognized: kind {kind!r}, expected {resource.kind!r}")
    if obj.get("apiVersion", resource.api_version) != resource.api_version:
        raise failures.bad_request(
            f"the API version in the data ({obj.get('apiVersion')}) does not match the expected API version "
            f"({resource.api_version})"
        )
    return from_events_group(obj) if resource.stored_as else obj


def decode_patch(resource: Resource | None, media: str, body: bytes) -> Mutation:
    """Return what a patch does to an object; ``resource`` is None for documents that are not stored (Scale).

    Raises:
        ApiFailure: 400 for a body that is not a patch, 415 for an unknown patch type.
    """
    if media not in PATCH_TYPES:
        raise failures.unsupported_media(PATCH_TYPES)
    patch = _decode_yaml(body) if media == APPLY_PATCH else _decode_json(body)
    if media != JSON_PATCH and not isinstance(patch, dict):
        raise failures.bad_request(f"error decoding patch: {type(patch).__name__} is not an object")
    if resource is None or not resource.stored_as:
        return lambda obj: _apply(media, obj, patch)
    return lambda obj: from_events_group(_apply(media, to_events_group(obj), patch))


def _apply(media: str, obj: JsonObject, patch: Any) -> JsonObject:
    changes: dict[str, Callable[[JsonObject, Any], JsonObject]] = {
        JSON_PATCH: apply_json_patch,
        MERGE_PATCH: merge,
        STRATEGIC_PATCH: strategic_merge,
        APPLY_PATCH: strategic_merge,
    }
    return changes[media](obj, patch)


def _decode_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise failures.bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def _decode_yaml(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        # Not JSON, which every YAML reader would also take: read it the slow way.
        pass
    try:
        return YAML(typ="safe", pure=True).load(body)
    except (YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise failures.bad_request(f"error decoding YAML: {error}") from error
