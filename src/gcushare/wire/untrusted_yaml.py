"""Decodes YAML (and JSON) from other programs and people within bounds: plain values, or ``RemoteContractError``.

YAML is riskier than JSON: with aliases, a few lines can expand to billions of values or contain themselves, and numbers
may be infinite. A document is measured with all aliases expanded before values are built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from gcushare.core.errors import RemoteContractError
from gcushare.wire.untrusted_json import MAX_INT, reason_of

N = TypeVar("N")


def load_as(kind: type[N], text: str, what: str) -> N:
    """Read one document into a type. An empty document is an empty mapping, and null is left out, as in Go.

    Raises:
        RemoteContractError: as ``load_yaml``, or the document is not of this type.
    """
    content = load_yaml(text, what)
    try:
        return msgspec.convert({} if content is None else _without_nulls(content), kind)
    except Exception as error:  # also TypeError, for keys that JSON does not have
        raise RemoteContractError(f"{what} is malformed: {reason_of(error)}") from None


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


class OutOfBoundsError(ValueError):
    """A document exceeds a bound; the message says which."""


MAX_YAML_BYTES = 1024 * 1024
MAX_YAML_DEPTH = 64
MAX_YAML_NODES = 100_000
"""Values and keys, with all aliases expanded. A kubeconfig of a hundred clusters has about 3,000."""


def load_yaml(text: str, what: str, *, limit_bytes: int = MAX_YAML_BYTES) -> object:
    """Read one document into str, int, float, bool, None, list and dict; times become types of ``datetime``.

    Raises:
        RemoteContractError: too large, not YAML, several documents, nested too deeply, more than ``MAX_YAML_NODES``
            values, a number that is not finite or beyond int64, or a text that is not valid UTF-8. The message names
            the line but quotes nothing of it.
    """
    if len(text) > limit_bytes:
        raise RemoteContractError(f"{what} has {len(text)} characters; at most {limit_bytes} are accepted")
    # Imported here: the parser takes longer to import than most commands take to run.
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.Composer, yaml.Constructor = _bounded_classes()
    try:
        return yaml.load(text)
    except Exception as error:  # the parser also raises ValueError, TypeError, IndexError and others
        raise RemoteContractError(f"{what} is neither YAML nor JSON: {yaml_reason(error)}") from None


def check_size(root: N, children_of: Callable[[N], Sequence[N]]) -> None:
    """Check depth and number of a document's nodes. Each node counts as often as it is used.

    Raises:
        OutOfBoundsError: the document is too deep, too large, or contains itself.
    """
    measured: dict[int, tuple[int, int] | None] = {}

    def measure(node: N) -> tuple[int, int]:
        if id(node) in measured:
            known = measured[id(node)]
            if known is None:
                raise OutOfBoundsError("an alias stands for something that contains it")
            return known
        measured[id(node)] = None
        height, size = 1, 1
        for child in children_of(node):
            child_height, child_size = measure(child)
            height, size = max(height, child_height + 1), size + child_size
        check_bounds(height, size)
        measured[id(node)] = (height, size)
        return height, size

    measure(root)


def check_bounds(depth: int, nodes: int) -> None:
    """Raises ``OutOfBoundsError`` above ``MAX_YAML_DEPTH`` levels or ``MAX_YAML_NODES`` values."""
    if depth > MAX_YAML_DEPTH:
        raise OutOfBoundsError(f"it is nested deeper than {MAX_YAML_DEPTH} levels")
    if nodes > MAX_YAML_NODES:
        raise OutOfBoundsError(f"it has more than {MAX_YAML_NODES} values, aliases expanded")


def yaml_reason(error: Exception) -> str:
    """Describe the parser's error and its line. Values are not quoted, because they may be tokens."""
    mark = getattr(error, "problem_mark", None)
    where = f" (line {mark.line + 1})" if mark is not None else ""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    if isinstance(error, OutOfBoundsError):
        return str(error)
    if not isinstance(problem, str):
        return f"a value does not match its tag ({type(error).__name__})"
    return " ".join(problem.partition(" with value ")[0].split())[:300] + where


@cache
def _bounded_classes() -> tuple[Any, Any]:
    from ruamel.yaml.composer import Composer
    from ruamel.yaml.constructor import SafeConstructor
    from ruamel.yaml.nodes import MappingNode, SequenceNode

    def children(node: Any) -> Sequence[Any]:
        if isinstance(node, MappingNode):
            return [each for pair in node.value for each in pair]
        return node.value if isinstance(node, SequenceNode) else ()

    class BoundedComposer(Composer):
        """Enforces the bounds during parsing, because the scanner's time grows with the square of the depth."""

        depth = 0
        count = 0

        def __init__(self, loader: Any = None) -> None:
            super().__init__(loader=loader)
            # The warning about a duplicate anchor would quote the lines.
            self.warn_double_anchors = False

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.depth += 1
            self.count += 1
            check_bounds(self.depth, self.count)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    class BoundedConstructor(SafeConstructor):
        def construct_document(self, node: Any) -> Any:
            check_size(node, children)
            return super().construct_document(node)

        def construct_bounded_int(self, node: Any) -> int:
            value: int = self.construct_yaml_int(node)
            if not -MAX_INT <= value <= MAX_INT:
                raise OutOfBoundsError(f"the number in line {node.start_mark.line + 1} is beyond {MAX_INT}")
            return value

        def construct_finite_float(self, node: Any) -> float:
            value: float = self.construct_yaml_float(node)
            if not math.isfinite(value):
                raise OutOfBoundsError(f"the number in line {node.start_mark.line + 1} is not finite")
            return value

        def construct_whole_text(self, node: Any) -> str:
            value: str = self.construct_yaml_str(node)
            if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
                raise OutOfBoundsError(f"the text in line {node.start_mark.line + 1} holds half of a surrogate pair")
            return value

    BoundedConstructor.add_constructor("tag:yaml.org,2002:str", BoundedConstructor.construct_whole_text)
    BoundedConstructor.add_constructor("tag:yaml.org,2002:int", BoundedConstructor.construct_bounded_int)
    BoundedConstructor.add_constructor("tag:yaml.org,2002:float", BoundedConstructor.construct_finite_float)
    return BoundedComposer, BoundedConstructor
