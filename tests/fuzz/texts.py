"""Changes of bytes that take them for text: words, lines, numbers, and single bytes."""

from __future__ import annotations

import re
from random import Random

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
