"""Read objects in Kubernetes' protobuf encoding: some kubectl commands send nothing else.

A body is four magic bytes and an ``Unknown`` envelope around the kind's own message. Fields that the schema table does
not know are refused, never dropped.
Source: ``k8s.io/apimachinery/pkg/runtime/serializer/protobuf``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.apiserver.protobuf_schema import MESSAGES

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def decode(body: bytes) -> JsonObject:
    """Return the object of a protobuf body, with its kind and API version.

    Raises:
        ApiFailure: 400 for bytes that are no such message, 415 for a kind or field outside the schema table.
    """
    if not body.startswith(_MAGIC):
        raise failures.bad_request(f"protobuf body does not start with {_MAGIC!r}")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        head = dict(_fields(envelope.get(1, b"")))
        api_version, kind = head.get(1, b"").decode(), head.get(2, b"").decode()
        content = _message(f"{api_version}/{kind}", envelope.get(2, b""))
    except (IndexError, ValueError, TypeError, AttributeError) as error:
        raise failures.bad_request(f"protobuf body cannot be read: {error!r}") from error
    return {"kind": kind, "apiVersion": api_version, **content}


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = _varint(data, position)
            yield number, value - (1 << 64) if value >> 63 else value
            continue
        if wire_type == _BYTES:
            size, position = _varint(data, position)
        elif wire_type in (_FIXED32, _FIXED64):
            size = 4 if wire_type == _FIXED32 else 8
        else:
            raise IndexError(f"wire type {wire_type} at byte {position}")
        if position + size > len(data):
            raise IndexError(f"field {number} is cut short at byte {position}")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return value, position


def _message(name: str, data: bytes) -> JsonObject:
    schema = MESSAGES.get(name)
    if schema is None:
        raise failures.unsupported_media(["application/json", f"{MEDIA_TYPE} for kinds other than {name}"])
    found: JsonObject = {}
    for number, raw in _fields(data):
        if number not in schema:
            raise failures.unsupported_media(["application/json", f"{MEDIA_TYPE} without field {number} of {name}"])
        field, kind = schema[number]
        _take(found, field, kind, raw)
    return found


def _take(found: JsonObject, field: str, kind: str, raw: Any) -> None:
    if kind.startswith("[]"):
        found.setdefault(field, []).append(_value(kind[2:], raw))
    elif kind.startswith("{}"):
        entry = dict(_fields(raw))
        found.setdefault(field, {})[entry.get(1, b"").decode()] = _value(kind[2:], entry.get(2, b""))
    elif kind != "-":
        value = _value(kind.rstrip("?"), raw)
        # Plain fields are always on the wire: their zero says nothing.
        if value or kind.endswith("?"):
            found[field] = value


def _value(kind: str, raw: Any) -> Any:
    match kind:
        case "string":
            return raw.decode()
        case "bytes":
            return base64.b64encode(raw).decode()
        case "int":
            return int(raw)
        case "bool":
            return bool(raw)
        case "quantity":
            return dict(_fields(raw)).get(1, b"").decode()
        case "intstr":
            parts = dict(_fields(raw))
            return parts.get(3, b"").decode() if parts.get(1) else parts.get(2, 0)
        case _:
            return _message(kind, raw)
