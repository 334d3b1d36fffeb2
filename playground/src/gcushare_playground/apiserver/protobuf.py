"""Bodies in Kubernetes' protobuf, in which kubectl sends what it creates from 1.32 on, as the JSON that they stand for.

``messages.txt`` has a message a line: its fields by number, with their names and types in JSON. A field without a name
is a message whose fields stand in the one around it. A type is s (text), i (integer), b (bool), y (bytes), ``-`` (left
out) or a message; * and ``map.`` are before what repeats. In lower case it is left out where it is empty, 0 or false,
as Go's JSON does with what is no pointer. Source: ``types.go`` of k8s.io/api and k8s.io/apimachinery 1.36.2.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gcushare_playground.apiserver.failures import bad_request, unsupported_media
from gcushare_playground.apiserver.objects import JsonObject

PROTOBUF = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_FIELD = re.compile(r"(\d+)(\w*)=(\*|map\.)?(\S+)")


class _Field(NamedTuple):
    name: str
    repeats: str
    kind: str


@cache
def _messages() -> Mapping[str, Mapping[int, _Field]]:
    found = {}
    for line in Path(__file__).with_name("messages.txt").read_text(encoding="utf-8").splitlines():
        name, _, fields = line.partition(" ")
        found[name] = {int(number): _Field(*field) for number, *field in _FIELD.findall(fields)}
    return found


def decode_protobuf(body: bytes) -> JsonObject:
    """The object of a body.

    Raises:
        ApiFailure: 400 for what is no such message, 415 for a kind that is not known here.
    """
    if not body.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = dict(_parts(body[len(_MAGIC) :]))
        meta = {number: str(part, "utf-8") for number, part in _parts(envelope.get(1, b""))}
        if (kind := meta.get(2, "")) not in _messages():
            raise unsupported_media(("application/json",))
        return {"apiVersion": meta.get(1, ""), "kind": kind, **_message(kind, envelope.get(2, b""))}
    except (ArithmeticError, IndexError, OSError, TypeError, ValueError) as error:
        raise bad_request(f"the body is no protobuf message: {error}") from error


def _message(kind: str, data: Any) -> JsonObject:
    found: JsonObject = {}
    for number, part in _parts(data):
        if (field := _messages()[kind].get(number)) is None:
            raise bad_request(f"field {number} of {kind} is not known here: send JSON, as kubectl apply does")
        if field.kind == "-":
            continue
        if field.repeats == "map.":
            entry = dict(_parts(part))
            key = str(entry.get(1, b""), "utf-8")
            found.setdefault(field.name, {})[key] = _value(field.kind, entry.get(2, b""))
            continue
        value = _value(field.kind, part)
        if field.repeats:
            found.setdefault(field.name, []).append(value)
        elif not field.name:
            found |= value
        elif value or not field.kind[0].islower():
            found[field.name] = value
    return found


def _value(kind: str, part: Any) -> Any:
    match kind:
        case "s" | "S":
            return str(part, "utf-8")
        case "y":
            return base64.b64encode(part).decode()
        case "b" | "B":
            return bool(part)
        case "i" | "I":
            return part - (1 << 64) if part >> 63 else part
        case "Quantity":
            return str(dict(_parts(part)).get(1, b""), "utf-8")
        case "intOrString" | "IntOrString":
            parts = dict(_parts(part))
            return _value("s", parts.get(3, b"")) if parts.get(1) else _value("i", parts.get(2, 0))
        case "time":
            seconds = dict(_parts(part)).get(1)
            return seconds and f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
        case _:
            return _message(kind, part)


def _parts(data: Any) -> Iterator[tuple[int, Any]]:
    """The fields of a message: their numbers, and an integer or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise TypeError(f"wire type {tag & 7}")
        if at > len(data):
            raise IndexError("it ends in the middle")
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            break
    return value, at
