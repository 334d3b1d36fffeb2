"""Changes of a protobuf message that know its fields, but not its type.

Wire format: a tag (number and kind) and a varint, 8 bytes, 4 bytes, or a length and as many bytes; those may be a
message, a text or neither.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any, TypeAlias

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

VARINT, WIDE, BYTES, NARROW = 0, 1, 2, 5
NUMBERS = (0, 1, 127, 128, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1)
TEXTS = (b"", b"\xff", b"\0", b"x" * 3000, b"0\xc3\xa9", b"card-", b"card-99999999999999999999", b"000", b"  ", b"~~~")

Field: TypeAlias = tuple[int, int, Any]
"""Number, kind, and its value."""


def parse(body: bytes) -> list[Field]:
    """Read the fields of a message, to a message without fields all are unknown; none for what is no message."""
    message = Empty()
    try:
        message.ParseFromString(body)
    except DecodeError:
        return []
    unknown: Any = UnknownFieldSet(message)  # its type stubs do not say that it can be iterated over
    found = [(each.field_number, each.wire_type, each.data) for each in unknown]
    return found if all(kind in (VARINT, WIDE, BYTES, NARROW) for _, kind, _ in found) else []


def write(fields: list[Field]) -> bytes:
    """Write fields as they are, whatever they hold."""
    parts = bytearray()
    for number, kind, value in fields:
        parts += _varint(number << 3 | kind)
        if kind == VARINT:
            parts += _varint(value)
        elif kind == BYTES:
            parts += _varint(len(value)) + value
        else:
            parts += struct.pack("<Q" if kind == WIDE else "<I", value)
    return bytes(parts)


def change_message(body: bytes, random: Random) -> bytes | None:
    """Change one field, of the message or of one in it; None for what is no message."""
    fields = parse(body)
    if not fields:
        return None
    position = random.randrange(len(fields))
    number, kind, value = fields[position]
    if kind == BYTES and random.random() < 0.7 and (inner := change_message(value, random)) is not None:
        fields[position] = (number, kind, inner)
        return write(fields)
    match random.randrange(6):
        case 0:
            del fields[position]
        case 1:
            fields[position:position] = [fields[position]] * random.choice((1, 2, 50, 2000))
        case 2:
            fields[position] = (random.choice((1, 2, 3, 15, 16, 1 << 28)), kind, value)
        case 3:
            fields[position] = (number, VARINT, random.choice(NUMBERS))
        case 4:
            nested = value if kind == BYTES else b""
            for _ in range(random.choice((1, 2, 200))):
                nested = write([(number, BYTES, nested)])
            fields[position] = (number, BYTES, nested)
        case _:
            fields[position] = (number, BYTES, random.choice(TEXTS))
    return write(fields)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
