"""Changes of a JSON document that leave it JSON: values exchanged, nested, repeated; keys doubled; numbers at borders.

An object is a list of pairs here, since a document may have a key twice. Strings that hold JSON themselves, as
annotations do, are changed inside.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any


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
