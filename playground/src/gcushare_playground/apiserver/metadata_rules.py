"""The rules for metadata that hold for every kind: types as a typed decoder has them, names, labels, annotations.

Source: ``k8s.io/apimachinery/pkg/api/validation/objectmeta.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from gcushare_playground.apiserver.failures import Cause, bad_request
from gcushare_playground.apiserver.objects import JsonObject, metadata
from gcushare_playground.apiserver.resources import Resource

ANNOTATIONS_LIMIT_BYTES = 256 * 1024
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH_SEGMENT = re.compile(r"(?!\.{1,2}$)[^/%]+")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LOOSE_NAME_GROUP = "rbac.authorization.k8s.io"
"""RBAC names may hold colons: any path segment will do."""


class _Owner(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    kind: str
    name: str
    api_version: str
    controller: bool = False
    block_owner_deletion: bool = False


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[_Owner] = []


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


def check_types(resource: Resource, obj: JsonObject) -> None:
    """Refuse an object whose metadata a typed decoder could not read; everything else is stored as it came.

    Raises:
        ApiFailure: 400, naming the field and both types.
    """
    try:
        msgspec.convert(obj, _Object)
    except msgspec.ValidationError as error:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        ) from error


def without_nulls(value: Any) -> Any:
    """Return a document without its null fields: to a typed decoder they are fields not given."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def check_metadata(resource: Resource, obj: JsonObject) -> Iterator[Cause]:
    """Yield every rule of names, labels and annotations that the object breaks."""
    found = metadata(obj)
    name = str(found.get("name", ""))
    pattern = _PATH_SEGMENT if resource.group == _LOOSE_NAME_GROUP else _SUBDOMAIN
    if len(name) > 253 or not pattern.fullmatch(name):
        yield Cause(
            "metadata.name",
            f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
            "characters, '-' or '.', and must start and end with an alphanumeric character",
        )
    for key, value in (found.get("labels") or {}).items():
        yield from _check_key("metadata.labels", key)
        if not _LABEL_VALUE.fullmatch(value):
            yield Cause("metadata.labels", f'Invalid value: "{value}": a valid label must be at most 63 characters')
    yield from _check_annotations(found.get("annotations") or {})


def _check_annotations(annotations: dict[str, str]) -> Iterator[Cause]:
    for key in annotations:
        yield from _check_key("metadata.annotations", key.lower())
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_LIMIT_BYTES:
        why = f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes"
        yield Cause("metadata.annotations", why, "FieldValueTooLong")


def _check_key(field: str, key: str) -> Iterator[Cause]:
    prefix, slash, name = key.rpartition("/")
    if (slash and not _SUBDOMAIN.fullmatch(prefix)) or not _LABEL_NAME.fullmatch(name):
        yield Cause(
            field, f"Invalid value: \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.'"
        )
