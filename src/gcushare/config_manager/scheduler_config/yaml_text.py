"""Edit YAML or JSON text in place: insert, replace and remove single values without any other change.

A ``YamlText`` is a value: each edit returns a new one, parsed again, so its positions are always right. New text has
the style of its surroundings: block or flow, CRLF or LF, the list's indentation. An edit that would change other values
is refused with the reason. ADR 37 says why no library does this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from typing import TypeAlias

from gcushare.config_manager.scheduler_config.yaml_tree import (
    Alias,
    Collection,
    Mapping,
    Node,
    Scalar,
    Sequence,
    aliases,
    is_unwritten,
    last_character,
    parse_tree,
    resolved,
)
from gcushare.core.errors import ConfigError, Refused
from gcushare.core.wording import counted

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value]"
"""What can be written."""

_PLAIN = re.compile(r"(?:--)?[A-Za-z/][\w./+=-]*(:[\w./+=-]+)*\Z")
_NOT_STRINGS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+(?:#[^\n]*\n\s*)*)*")
"""Anchors and tags before a value, with the comments after them."""


@dataclass(frozen=True, slots=True)
class YamlText:
    """A document's text with its tree; ``name`` says in errors which file it is."""

    text: str
    root: Node | None
    name: str

    @classmethod
    def parse(cls, text: str, name: str) -> YamlText:
        try:
            return cls(text, parse_tree(text, name), name)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from error

    @property
    def mapping(self) -> Mapping:
        """The document, which must be a mapping. Raises ``ConfigError`` if it is not."""
        if not isinstance(self.root, Mapping):
            what = "empty" if self.root is None else f"a {type(self.root).__name__.lower()}"
            raise ConfigError(f"{self.name}: a mapping is expected at the top, the document is {what}")
        return self.root

    @property
    def newline(self) -> str:
        first = self.text.find("\n")
        return "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"

    def at(self, *path: str | int) -> Node | None:
        """Find the node at ``path`` (keys and list indexes), following aliases; None if a step does not exist."""
        node = self.root
        for step in path:
            node = resolved(node)
            if isinstance(step, str):
                node = node.get(step) if isinstance(node, Mapping) else None
            else:
                node = node.items[step] if isinstance(node, Sequence) and step < len(node.items) else None
        return node

    def appended(self, sequence: Sequence, value: Value) -> YamlText:
        """Add ``value`` after the last item of ``sequence``."""
        self._check_own(sequence)
        if sequence.flow:
            return self._flow_insert(sequence, sequence.items, flow_text(value))
        indent = " " * self._block_column(sequence)
        return self._insert_lines(last_character(sequence), block_item(value, indent))

    def with_key(self, mapping: Mapping, key: str, value: Value) -> YamlText:
        """Set ``key``: replace its value, or add it at the end of ``mapping``."""
        self._check_own(mapping)
        present = mapping.get(key)
        if present is not None:
            return self._with_value(mapping, present, value)
        if mapping.flow:
            return self._flow_insert(mapping, [v for _, v in mapping.pairs], f"{flow_text(key)}: {flow_text(value)}")
        indent = " " * self._block_column(mapping)
        return self._insert_lines(last_character(mapping), block_entry(key, value, indent))

    def with_scalar(self, scalar: Scalar, value: str) -> YamlText:
        """Replace a scalar's value, keeping its quotes if they can hold the new one."""
        self._check_own(scalar)
        if scalar.style in ("|", ">"):
            raise Refused(f"{self.name}: the value {scalar.value!r} is a block scalar; write it on one line first")
        if scalar.style == "'":
            written = "'" + value.replace("'", "''") + "'"
        else:
            written = flow_text(value) if scalar.style == '"' else scalar_text(value)
        return self._replaced(self._value_start(scalar), scalar.end, written)

    def without_item(self, sequence: Sequence, index: int) -> YamlText:
        """Remove one item with its lines. Use ``without_key`` for the only item of a block list."""
        self._check_own(sequence)
        item = sequence.items[index]
        if sequence.flow:
            return self._flow_cut([(item.start, item.end) for item in sequence.items], index)
        start = self.text.rfind("\n", 0, item.start) + 1
        if len(sequence.items) == 1 or not re.fullmatch(r"\s*-\s+", self.text[start : item.start]):
            raise Refused(f"{self.name}: the list item {self._excerpt(item)} does not have lines of its own")
        return self._without_lines(start, last_character(item))

    def without_key(self, mapping: Mapping, key: str) -> YamlText:
        """Remove ``key`` with its value; in block style it must have lines of its own."""
        self._check_own(mapping)
        index = next(i for i, (name, _) in enumerate(mapping.pairs) if isinstance(name, Scalar) and name.value == key)
        name, value = mapping.pairs[index]
        if mapping.flow:
            return self._flow_cut([(n.start, v.end) for n, v in mapping.pairs], index)
        start = self.text.rfind("\n", 0, name.start) + 1
        if self.text[start : name.start].strip(" \t"):
            raise Refused(f"{self.name}: key {key!r} does not have lines of its own")
        return self._without_lines(start, name.end if is_unwritten(value) else last_character(value))

    def _with_value(self, mapping: Mapping, present: Node, value: Value) -> YamlText:
        self._check_own(present)
        text = self.text[present.start : present.end]
        if isinstance(present, Scalar) and isinstance(value, str) and text and "\n" not in text:
            return self.with_scalar(present, value)
        # The new value goes on the key's line: a list below its key may be indented like the key itself.
        colon = self.text.index(":", mapping.key_of(present).end)
        end = colon + 1 if is_unwritten(present) else last_character(present)
        return self._replaced(colon + 1, end, " " + flow_text(value))

    def _flow_insert(self, node: Collection, children: tuple[Node, ...] | list[Node], text: str) -> YamlText:
        if not children:
            inside = self.text.index("{" if isinstance(node, Mapping) else "[", self._value_start(node)) + 1
            return self._replaced(inside, inside, text)
        last = children[-1]
        first_of_last = node.pairs[-1][0].start if isinstance(node, Mapping) else last.start
        line_start = self.text.rfind("\n", 0, first_of_last) + 1
        indent = self.text[line_start:first_of_last]
        separator = ", "
        if line_start > node.start and not indent.strip():
            separator = "," + self.newline + indent
        return self._replaced(last.end, last.end, separator + text)

    def _flow_cut(self, spans: list[tuple[int, int]], index: int) -> YamlText:
        start, end = spans[index]
        if index > 0:
            start = spans[index - 1][1]
        elif len(spans) > 1:
            end = spans[1][0]
        return self._replaced(start, end, "")

    def _insert_lines(self, after: int, lines: list[str]) -> YamlText:
        """Insert whole lines below the line that holds character ``after``."""
        at_line_start = after > 0 and self.text[after - 1] == "\n"
        line_end = after - 1 if at_line_start else self.text.find("\n", after)
        if line_end < 0:
            joined = "".join(self.newline + line for line in lines)
            return self._replaced(len(self.text), len(self.text), joined)
        joined = "".join(line + self.newline for line in lines)
        return self._replaced(line_end + 1, line_end + 1, joined)

    def _without_lines(self, start: int, last: int) -> YamlText:
        """Remove the lines from character ``start`` to the one that holds ``last``."""
        at_line_start = last > start and self.text[last - 1] == "\n"
        line_end = last - 1 if at_line_start else self.text.find("\n", last)
        if line_end < 0:
            # The text has no final line end. The one before is removed, so that there is still none.
            start -= len(self.newline) if self.text[:start].endswith(self.newline) else 0
            return self._replaced(start, len(self.text), "")
        return self._replaced(start, line_end + 1, "")

    def _replaced(self, start: int, end: int, text: str) -> YamlText:
        return YamlText.parse(self.text[:start] + text + self.text[end:], self.name)

    def _check_own(self, node: Node) -> None:
        """Refuse to edit a value that other places of the document share through an anchor."""
        if isinstance(node, Alias):
            raise Refused(f"{self.name}: {self._excerpt(node)} is an alias; write the value out where it is used")
        every = [] if self.root is None else aliases(self.root)
        users = [a for a in every if a.target.start <= node.start and node.end <= a.target.end]
        if users:
            raise Refused(
                f"{self.name}: the value of anchor {users[0].name!r} is used in {counted(len(users) + 1, 'place')}; "
                "write it out where the scheduler uses it"
            )

    def _value_start(self, node: Node) -> int:
        match = _PROPERTIES.match(self.text, node.start, max(node.end, node.start))
        return match.end() if match else node.start

    def _block_column(self, node: Collection) -> int:
        """Find the column of its keys or dashes, which are on the line after its anchor or tag."""
        start = self._value_start(node)
        line_start = self.text.rfind("\n", node.start, start) + 1
        if line_start == 0:
            line_start = self.text.rfind("\n", 0, node.start) + 1
            return node.start - line_start - self.text.startswith("\ufeff", line_start)
        line = self.text[line_start:start]
        return len(line) - len(line.lstrip(" "))

    def _excerpt(self, node: Node) -> str:
        return repr(self.text[node.start : node.end][:60])


def flow_text(value: Value) -> str:
    """Write a value as JSON, which is YAML's flow style too."""
    return json.dumps(value, ensure_ascii=False)


def scalar_text(value: Value) -> str:
    """Write a value on the line of its key or dash, without quotes if every reader takes it for the same string."""
    is_plain = isinstance(value, str) and _PLAIN.match(value) is not None and value.lower() not in _NOT_STRINGS
    return str(value) if is_plain else flow_text(value)


def block_entry(key: str, value: Value, indent: str) -> list[str]:
    """Write ``key: value`` as lines in block style; a list has its key's indentation, as kubeadm writes it."""
    if isinstance(value, dict) and value:
        return [f"{indent}{key}:", *block_mapping(value, indent + "  ")]
    if isinstance(value, list) and value:
        return [f"{indent}{key}:", *(line for item in value for line in block_item(item, indent))]
    return [f"{indent}{key}: {scalar_text(value)}"]


def block_mapping(value: MappingType[str, Value], indent: str) -> list[str]:
    return [line for key, inner in value.items() for line in block_entry(key, inner, indent)]


def block_item(value: Value, indent: str) -> list[str]:
    """Write one list item as lines, its dash at ``indent``."""
    if isinstance(value, dict) and value:
        first, *rest = block_mapping(value, indent + "  ")
        return [f"{indent}- {first.lstrip()}", *rest]
    return [f"{indent}- {scalar_text(value)}"]
