"""Changes of a protobuf message that know its fields, but not its type.

Wire format: a tag (number and kind) and a varint, 8 bytes, 4 bytes, or a length and as many bytes; those may be a
message, a text or neither.
"""

from __future__ import annotations

from random import Random
from typing import TypeAlias

VARINT, WIDE, BYTES, NARROW = 0, 1, 2, 5
NUMBERS = (0, 1, 127, 128, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1)
TEXTS = (b"", b"\xff", b"\0", b"x" * 3000, b"0\xc3\xa9", b"card-", b"card-99999999999999999999", b"000", b"  ", b"~~~")

Field: TypeAlias = tuple[int, int, "int | bytes"]
"""Number, kind, and its value."""


def parse(body: bytes) -> list[Field]:
    """Read the fields of a message; raises ``ValueError`` for what is none."""
    fields: list[Field] = []
    position = 0
    while position < len(body):
        tag, position = _read_varint(body, position)
        kind = tag & 7
        if kind == VARINT:
            value, position = _read_varint(body, position)
            fields.append((tag >> 3, kind, value))
            continue
        if kind not in (WIDE, BYTES, NARROW) or not tag >> 3:
            raise ValueError("not a message")
        length = {WIDE: 8, NARROW: 4}.get(kind, 0)
        if kind == BYTES:
            length, position = _read_varint(body, position)
        if position + length > len(body):
            raise ValueError("not a message")
        fields.append((tag >> 3, kind, body[position : position + length]))
        position += length
    return fields


def write(fields: list[Field]) -> bytes:
    """Write fields as they are, whatever they hold."""
    parts = bytearray()
    for number, kind, value in fields:
        parts += _varint(number << 3 | kind)
        if isinstance(value, int):
            parts += _varint(value)
        else:
            parts += (_varint(len(value)) if kind == BYTES else b"") + value
    return bytes(parts)


def change_message(body: bytes, random: Random) -> bytes | None:
    """Change one field, of the message or of one in it; None for what is no message."""
    try:
        fields = parse(body)
    except ValueError:
        return None
    if not fields:
        return None
    position = random.randrange(len(fields))
    number, kind, value = fields[position]
    if isinstance(value, bytes) and kind == BYTES and random.random() < 0.7:
        inner = change_message(value, random)
        if inner is not None:
            fields[position] = (number, kind, inner)
            return write(fields)
    match random.randrange(7):
        case 0:
            del fields[position]
        case 1:
            fields[position:position] = [fields[position]] * random.choice((1, 2, 50, 2000))
        case 2:
            random.shuffle(fields)
        case 3:
            fields[position] = (random.choice((1, 2, 3, 15, 16, 1 << 28)), kind, value)
        case 4:
            fields[position] = (number, VARINT, random.choice(NUMBERS))
        case 5:
            depth = random.choice((1, 2, 200))
            nested = value if isinstance(value, bytes) else b""
            for _ in range(depth):
                nested = write([(number, BYTES, nested)])
            fields[position] = (number, BYTES, nested)
        case _:
            fields[position] = (number, BYTES, random.choice(TEXTS))
    return write(fields)


def _read_varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(body) and shift < 70:
        byte = body[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
    raise ValueError("not a message")


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
