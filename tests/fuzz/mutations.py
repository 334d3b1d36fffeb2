"""Changed examples, the same ones for the same seed.

A text is changed in its words, lines, numbers and single bytes. A JSON document stays JSON: values exchanged, nested,
repeated; keys doubled; numbers at borders. An object is a list of pairs there, since a document may have a key twice;
strings that hold JSON themselves, as annotations do, are changed inside. A protobuf message is changed by its fields,
without its type: a tag (number and kind) and a varint, 8 bytes, 4 bytes, or a length and as many bytes, which may be a
message, a text or neither.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

NASTY = (
    b"[" * 1500,
    b"[" * 40 + b"]" * 40,
    b'{"a":' * 1500,
    b"1" + b"0" * 400,
    b"9" * 5000,
    b"-" + b"9" * 30,
    b"9223372036854775808",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"1e400",
    b"1e-400",
    b"1.5",
    b"-1",
    b"-0",
    b"0x10",
    b"1_000",
    b"NaN",
    b".inf",
    b"-.INF",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b'""',
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\r",
    b"\x0b\x0c\x1c",
    "²".encode(),
    "١".encode(),
    "é".encode(),
    b"&a [*a]",
    b"*a",
    b"<<: *a",
    b"!!int x",
    b"!!binary x",
    b"!!timestamp x",
    b"!!set {a}",
    b"? [a]\n: b",
    b"%YAML 1.1\n---\n",
    b"\n---\n",
    b"2026-02-30",
    b"2026-11-22T03:00:00+99:99",
    b"0001-01-01T00:00:00+14:00",
    b"Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
    b"|\n  x",
    b"\t",
    b" \\\n",
    b"'",
    b'"',
    b"\\",
    b",",
    b":",
    b"=",
    b"@",
    b"/",
    b"%s",
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x80" * 12,
)
"""Words that parsers know, numbers at the borders of types, what is no UTF-8, and what nests."""

_BORDER = re.compile(rb'\b|["{}\[\]:,\n=]')
_NUMBER = re.compile(rb"\d+")


def change_words(body: bytes, random: Random) -> bytes:
    """Cut out or replace a part, mostly at the borders of words."""
    borders = sorted({0, len(body), *(found.start() for found in _BORDER.finditer(body[:20_000]))})
    start, end = sorted((random.choice(borders), random.choice(borders)))
    if random.random() < 0.7:
        end = min(end, next((each for each in borders if each > start), end))
    return body[:start] + random.choice((*NASTY, b"", random.randbytes(3))) + body[end:]


def change_line(body: bytes, random: Random) -> bytes:
    """Repeat, drop, swap or indent a line."""
    lines = body.splitlines(keepends=True) or [b""]
    first, second = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(4):
        case 0:
            lines[first:first] = [lines[second]] * random.choice((1, 1, 2, 40))
        case 1:
            del lines[first]
        case 2:
            lines[first], lines[second] = lines[second], lines[first]
        case _:
            lines[first] = b" " * random.randrange(1, 5) + lines[first] if random.random() < 0.7 else lines[first][1:]
    return b"".join(lines)


def change_number(body: bytes, random: Random) -> bytes:
    """Replace one number by another."""
    found = list(_NUMBER.finditer(body[:20_000]))
    if not found:
        return change_bytes(body, random)
    at = random.choice(found)
    near = str(abs(int(at.group()[:18]) + random.choice((-1, 1, 100)))).encode()
    new = random.choice((b"0", b"-1", near, str(1 << random.randrange(70)).encode(), b"9" * random.randrange(1, 30)))
    return body[: at.start()] + new + body[at.end() :]


def change_bytes(body: bytes, random: Random) -> bytes:
    """Flip, cut, repeat or cut short."""
    start = random.randrange(len(body) + 1)
    end = min(len(body), start + random.choice((1, 1, 2, 8, 64)))
    match random.randrange(5):
        case 0:
            flipped = bytes(each ^ (1 << random.randrange(8)) for each in body[start:end])
            return body[:start] + flipped + body[end:]
        case 1:
            return body[:start] + body[end:]
        case 2:
            return body[:end] + body[start:end] * random.choice((1, 3, 300)) + body[end:]
        case 3:
            return body[:start]
        case _:
            return body[:start] + random.randbytes(random.randrange(1, 9)) + body[end:]


class Pairs(list[tuple[str, Any]]):
    """An object's keys and values, in order; a key may be there twice."""


@dataclass(frozen=True, slots=True)
class Written:
    """A value that is there as text already."""

    text: str


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64, -(1 << 63) - 1, 0.5, 1e308),
    *("", "0", "-1", "é\u0000\ud800", "x" * 3000, "9" * 4500, "1e9", "../../etc", "\r\n"),
    *([], Pairs(), Pairs([("", None)])),
    *(Written("9" * 4500), Written("1e400"), Written("-0"), Written("1E+2"), Written("\t")),
    *(Written("[" * 40 + "]" * 40), Written("[" * 3000 + "]" * 3000), Written('{"a":' * 1500 + "1" + "}" * 1500)),
    Written('"\\ud800\\udc00\\ud800"'),
)
KEYS = ("", "\ud800", "x" * 300)
PIECES = ("", " ", "/", ",", "=", "9", "\u0000", "²", "x" * 500)


def change_tree(body: bytes, random: Random) -> bytes | None:
    """Change one place of a document; None for what is no JSON, or deeper than Python reads."""
    try:
        tree = json.loads(body, object_pairs_hook=Pairs)
        return _text(_changed(tree, random)).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return None


def _changed(node: Any, random: Random) -> Any:
    """A node with a change in it, mostly far inside."""
    if isinstance(node, list) and node:
        position, chance = random.randrange(len(node)), random.random()
        if chance < 0.8:
            twin = type(node)(node)
            if isinstance(node, Pairs):
                key, child = node[position]
                twin[position] = (key, _changed(child, random))
            else:
                twin[position] = _changed(node[position], random)
            return twin
        if chance < 0.95:
            return _rearranged(node, position, random)
    if isinstance(node, str) and node[:1] in ("{", "[") and random.random() < 0.8:
        inner = change_tree(node.encode("utf-8", "surrogatepass"), random)
        return node if inner is None else inner.decode("utf-8", "surrogatepass")
    return _replaced(node, random)


def _rearranged(node: list[Any], position: int, random: Random) -> list[Any]:
    twin = type(node)(node)
    match random.randrange(3):
        case 0:
            del twin[position]
        case 1:
            twin[position:position] = [node[position]] * random.choice((1, 1, 2, 30, 500))
        case _ if isinstance(node, Pairs):
            key, value = node[position]
            twin[position] = (random.choice((key.upper(), key + " ", node[0][0], *KEYS)), value)
        case _:
            twin += [random.choice(VALUES)]
    return twin


def _replaced(node: Any, random: Random) -> Any:
    match random.randrange(4):
        case 0:
            depth = random.choice((1, 2, 31, 33, 500))
            return Written("[" * depth + _text(node) + "]" * depth)
        case 1 if isinstance(node, int):
            return random.choice((node + 1, node - 1, -node, node * 1000, 1 << random.randrange(70), 0.5))
        case 1 if isinstance(node, str):
            cut = random.randrange(len(node) + 1)
            return node[:cut] + random.choice(PIECES) + node[cut:]
        case 2 if isinstance(node, str):
            return random.choice((node.upper(), node * 2, node[::-1], node.encode("utf-8", "surrogatepass").hex()))
        case _:
            return random.choice(VALUES)


def _text(node: Any) -> str:
    match node:
        case Written():
            return node.text
        case Pairs():
            return "{" + ",".join(f"{json.dumps(key)}:{_text(value)}" for key, value in node) + "}"
        case list():
            return "[" + ",".join(map(_text, node)) + "]"
        case _:
            return json.dumps(node)


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


LARGE_BYTES = 300_000
"""About as long as the inputs are that are made long: what takes time or memory by the square shows there."""

_AS_TEXT = (change_words, change_words, change_line, change_number, change_bytes)


def changed(examples: Sequence[bytes], random: Random) -> bytes:
    """Change an example, by its form if it is known; some are made long, some are words that parsers know."""
    bodies = [*examples, b""]
    body, chance = random.choice(bodies), random.random()
    if chance < 0.02:
        return random.choice((*NASTY, random.randbytes(random.randrange(200))))
    if chance < 0.03:
        return _lengthened(body, random)
    structured = random.random() < 0.7
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        if len(body) > LARGE_BYTES // 10:
            break  # each further change of so much takes longer than the decoder does
        by_form = (change_tree(body, random) or change_message(body, random)) if structured else None
        body = by_form or random.choice(_AS_TEXT)(body, random)
    if random.random() < 0.05:
        other = random.choice(bodies)
        body = body[: random.randrange(len(body) + 1)] + other[random.randrange(len(other) + 1) :]
    return body


def _lengthened(body: bytes, random: Random) -> bytes:
    """A part of an example, repeated many times."""
    start, end = sorted((random.randrange(len(body) + 1), random.randrange(len(body) + 1)))
    first_line = body.splitlines(keepends=True)[:1]
    part = random.choice((body[start:end], *first_line, random.choice(NASTY))) or b"x"
    return body[:start] + part * (random.randrange(LARGE_BYTES) // len(part)) + body[end:]
