"""Request bodies: read within a limit, decoded into an object or into a patch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.apiserver.patches import (
    JSON_PATCH,
    MERGE_PATCH,
    PATCH_TYPES,
    STRATEGIC_PATCH,
    apply_json_patch,
    merge,
)
from gcushare_playground.apiserver.protobuf import PROTOBUF, decode_protobuf
from gcushare_playground.apiserver.registry import Mutation
from gcushare_playground.apiserver.resources import Resource
from gcushare_playground.apiserver.strategic import strategic_merge

LIMIT_BYTES = 3 * 1024 * 1024
"""kube-apiserver's limit for a request body."""
_JSON = "application/json"


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
    """Return the JSON object of a body; an empty body is an empty object.

    Raises:
        ApiFailure: 400 for anything else, 415 for another format.
    """
    if media == PROTOBUF:
        return decode_protobuf(body) if body else {}
    if media not in (_JSON, ""):
        raise failures.unsupported_media((_JSON, PROTOBUF))
    if not body.strip():
        return {}
    decoded = _decode_json(body)
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
    return obj


def decode_patch(media: str, body: bytes) -> Mutation:
    """Return what a patch does to an object.

    Raises:
        ApiFailure: 400 for a body that is not a patch, 415 for an unknown patch type.
    """
    if media not in PATCH_TYPES:
        raise failures.unsupported_media(PATCH_TYPES)
    patch = _decode_json(body)
    if media != JSON_PATCH and not isinstance(patch, dict):
        raise failures.bad_request(f"error decoding patch: {type(patch).__name__} is not an object")
    changes: dict[str, Callable[[JsonObject, Any], JsonObject]] = {
        JSON_PATCH: apply_json_patch,
        MERGE_PATCH: merge,
        STRATEGIC_PATCH: strategic_merge,
    }
    return lambda obj: changes[media](obj, patch)


def _decode_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise failures.bad_request(f"couldn't get version/kind; json parse error: {error}") from error
