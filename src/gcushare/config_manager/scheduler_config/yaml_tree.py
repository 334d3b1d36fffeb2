"""Parse YAML or JSON into a typed tree whose nodes have their positions in the text.

The characters from ``start`` up to ``end`` are the node, with its anchor and tag. Values are strings as written;
``plain_value`` converts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from ruamel.yaml import YAML

from gcushare.core.errors import ConfigError
from gcushare.wire.untrusted_yaml import MAX_YAML_BYTES, check_bounds, check_size, yaml_reason

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_BLANKS = re.compile(r"(?<=\S)[ \t]+(?=#|\r?$)|(?<=:)[ \t]+", re.MULTILINE)
"""Blanks where tabs may stand. A run is matched whole, so that a long one takes no more than its length."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value; ``style`` is its quote or block indicator, empty for a plain value."""

    start: int
    end: int
    value: str
    style: str

    @property
    def is_null(self) -> bool:
        return not self.style and self.value in _NULLS


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list, in flow style (``[a, b]``, all of JSON) or in block style (``- a``)."""

    start: int
    end: int
    flow: bool
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping of the file ``name``; ``pairs`` are in the order of the text, with duplicate keys."""

    start: int
    end: int
    flow: bool
    pairs: tuple[tuple[Node, Node], ...]
    name: str

    def get(self, key: str) -> Node | None:
        """Find ``key``'s value.

        Raises:
            ConfigError: the mapping has the key twice (readers differ on which one counts), or through a merge.
        """
        found = [value for name, value in self.pairs if isinstance(name, Scalar) and name.value == key]
        if len(found) > 1:
            raise ConfigError(f"{self.name}: key {key!r} appears {len(found)} times in one mapping: keep one of them")
        if not found and key != "<<" and key in _keys(self.get("<<")):
            raise ConfigError(
                f"{self.name}: key {key!r} comes in through a YAML merge ('<<'): write it out where it is used"
            )
        return found[0] if found else None

    def key_of(self, value: Node) -> Node:
        return next(name for name, candidate in self.pairs if candidate is value)


@dataclass(frozen=True, slots=True)
class Alias:
    """A use of an anchor (``*name``); ``target`` is elsewhere in the text."""

    start: int
    end: int
    name: str
    target: Node


Node: TypeAlias = Scalar | Sequence | Mapping | Alias
Collection: TypeAlias = Sequence | Mapping


@lru_cache(maxsize=32)
def parse_tree(text: str, name: str) -> Node | None:
    """Parse the one document of ``text``, the contents of the file ``name``; None if it is empty.

    This takes some 20 ms for a manifest, so the results are cached for the loop, which parses the same files again.

    Raises:
        ConfigError: not YAML or JSON, or more than one document.
    """
    if len(text) > MAX_YAML_BYTES:
        raise ConfigError(f"{len(text)} characters; at most {MAX_YAML_BYTES} are read")
    try:
        root = _Builder(YAML(typ="rt", pure=True).parse(_positions_kept(text)), name).document()
        if root is not None:
            check_size(root, _children)
    except ConfigError:
        raise
    except Exception as error:  # the parser lets the errors of its parts through
        raise ConfigError(f"not valid YAML or JSON: {yaml_reason(error)}") from error
    return root


def last_character(node: Node) -> int:
    """Find the end of the node's own text: a block collection's parsed end is after comments and blank lines."""
    match node:
        case Mapping(flow=False, pairs=pairs) if pairs:
            name, value = pairs[-1]
            return last_character(name) if is_unwritten(value) else last_character(value)
        case Sequence(flow=False, items=items) if items:
            return max(last_character(items[-1]), node.start + 1)
        case _:
            return node.end


def is_unwritten(node: Node) -> bool:
    """Whether a value is null without any text; the parser then places it anywhere after its key."""
    return isinstance(node, Scalar) and node.start == node.end


def plain_value(node: Node | None) -> object:
    """Convert a node to Python values (str, bool, None, list, dict); numbers stay strings as written."""
    match node:
        case None:
            return None
        case Alias(target=target):
            return plain_value(target)
        case Scalar(style=""):
            if node.is_null:
                return None
            return node.value if node.value not in _TRUE | _FALSE else node.value in _TRUE
        case Scalar(value=value):
            return value
        case Sequence(items=items):
            return [plain_value(item) for item in items]
        case Mapping(pairs=pairs):
            return {str(plain_value(name)): plain_value(value) for name, value in pairs}


def resolved(node: Node | None) -> Node | None:
    """Return an alias' target, and any other node itself. Use it only to read."""
    return node.target if isinstance(node, Alias) else node


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Alias(target=target):
            return (target,)
        case Sequence(items=items):
            return items
        case Mapping(pairs=pairs):
            return tuple(each for pair in pairs for each in pair)
        case Scalar():
            return ()


def _keys(node: Node | None) -> set[str]:
    """Collect a mapping's keys, those it merges in included."""
    node = resolved(node)
    if isinstance(node, Sequence):
        return {key for item in node.items for key in _keys(item)}
    if not isinstance(node, Mapping):
        return set()
    names = {name.value: value for name, value in node.pairs if isinstance(name, Scalar)}
    return set(names) | _keys(names.get("<<"))


def aliases(node: Node) -> Iterator[Alias]:
    if isinstance(node, Alias):
        yield node
        return
    for child in _children(node):
        yield from aliases(child)


def _positions_kept(text: str) -> str:
    """Rewrite what ruamel refuses and the kubelet accepts, without moving a character.

    That is tabs behind a value or a key, as in ``value<TAB># comment``, and in JSON every tab and escaped surrogates.
    Only the parser reads the result, and no text that this program compares holds one of these; the file keeps its own.
    Source: libyaml, whose Go port the kubelet uses, skips tabs wherever no key may start.
    """
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return _BLANKS.sub(lambda blanks: " " * len(blanks[0]), text)
    return re.sub(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}", r"\\u003f", text).replace("\t", " ")


class _Builder:
    """Builds the tree from parse events, because ruamel's composer drops the positions of aliases."""

    def __init__(self, events: Iterator[Any], name: str) -> None:
        self._events = iter(events)
        self._name = name
        self._anchors: dict[str, Node] = {}
        self._depth = 0
        self._count = 0

    def document(self) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in self._events:
            if type(event).__name__ == "DocumentStartEvent":
                documents += 1
                node = self._node(next(self._events))
                if documents == 1:
                    root = node
                elif not is_unwritten(node):  # an empty one, behind a last '---', says nothing
                    raise ConfigError(
                        "more than one YAML document ('---') in one file, and only the first would be used: take the "
                        "others out"
                    )
        return root

    def _node(self, event: Any) -> Node:
        self._depth += 1
        self._count += 1
        check_bounds(self._depth, self._count)
        kind = type(event).__name__
        start, end = event.start_mark.index, event.end_mark.index
        node: Node
        if kind == "AliasEvent":
            target = self._anchors.get(event.anchor)
            if target is None:
                raise ConfigError(f"alias {event.anchor!r} has no anchor before it")
            node = Alias(start, end, event.anchor, target)
        elif kind == "ScalarEvent":
            node = Scalar(start, end, event.value, event.style or "")
        elif kind == "SequenceStartEvent":
            items, end = self._children("SequenceEndEvent")
            node = Sequence(start, end, bool(event.flow_style), tuple(items))
        else:
            children, end = self._children("MappingEndEvent")
            pairs = tuple(zip(children[::2], children[1::2], strict=True))
            node = Mapping(start, end, bool(event.flow_style), pairs, self._name)
        if kind != "AliasEvent" and event.anchor is not None:
            self._anchors[event.anchor] = node
        self._depth -= 1
        return node

    def _children(self, closing: str) -> tuple[list[Node], int]:
        children: list[Node] = []
        for event in self._events:
            if type(event).__name__ == closing:
                return children, event.end_mark.index
            children.append(self._node(event))
        raise ConfigError("the text ends inside a list or mapping")
