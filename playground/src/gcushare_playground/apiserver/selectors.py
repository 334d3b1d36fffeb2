"""Label and field selectors: parsed once per request, then asked per object.

Source: ``k8s.io/apimachinery/pkg/labels`` and ``.../fields``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gcushare_playground.apiserver.failures import bad_request
from gcushare_playground.apiserver.objects import JsonObject, dig
from gcushare_playground.apiserver.resources import Resource


class Operator(StrEnum):
    """How one requirement compares."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "!"
    GREATER = ">"
    LESS = "<"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the labels satisfy this term; a missing label satisfies only negative terms."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None
            case Operator.GREATER:
                return _is_integer(value) and int(value or 0) > int(min(self.values))
            case Operator.LESS:
                return _is_integer(value) and int(value or 0) < int(min(self.values))


def _is_integer(text: str | None) -> bool:
    return text is not None and re.fullmatch(r"-?\d+", text) is not None


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector; an absent field compares as the empty string, a boolean as true or false."""

    path: str
    equal: bool
    value: str

    def matches(self, obj: JsonObject) -> bool:
        """Tell whether the object satisfies this term."""
        return (_field_text(obj, self.path) == self.value) is self.equal


def _field_text(obj: JsonObject, path: str) -> str:
    found = dig(obj, *path.split("."))
    if path == "source" and isinstance(found, dict):
        found = found.get("component")
    if isinstance(found, bool):
        return "true" if found else "false"
    if found is None and path in ("spec.unschedulable", "spec.hostNetwork"):
        return "false"
    return "" if found is None else str(found)


@dataclass(frozen=True, slots=True)
class Selector:
    """What a list or watch asks for: all terms must hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether nothing is filtered."""
        return not self.labels and not self.fields

    def matches(self, obj: JsonObject) -> bool:
        """Tell whether the object satisfies every term."""
        if not all(term.matches(obj) for term in self.fields):
            return False
        found: dict[str, str] = dig(obj, "metadata", "labels") or {}
        return all(requirement.matches(found) for requirement in self.labels)


EVERYTHING = Selector()

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_SET = re.compile(rf"({_NAME})\s+(in|notin)\s*\(([^()]*)\)")
_COMPARED = re.compile(rf"({_NAME})\s*(==|=|!=|>|<)\s*([A-Za-z0-9._-]*)")
_PRESENT = re.compile(rf"(!?)\s*({_NAME})")
_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Read a label selector such as ``app=web,tier in (a, b),!canary``.

    Raises:
        ApiFailure: 400 for anything that is not a selector.
    """
    terms = [term.strip() for term in _OUTSIDE_PARENTHESES.split(text)] if text.strip() else []
    return tuple(_label_term(term, text) for term in terms)


def _label_term(term: str, text: str) -> Requirement:
    if found := _SET.fullmatch(term):
        values = frozenset(value.strip() for value in found[3].split(","))
        return Requirement(found[1], Operator(found[2]), values)
    if found := _COMPARED.fullmatch(term):
        return _comparison(found[1], found[2], found[3], text)
    if found := _PRESENT.fullmatch(term):
        return Requirement(found[2], Operator.ABSENT if found[1] else Operator.EXISTS)
    raise bad_request(
        f'unable to parse requirement: found {term!r} in label selector {text!r}, expected "key", "key=value"'
    )


def _comparison(key: str, sign: str, value: str, text: str) -> Requirement:
    if sign in (">", "<"):
        if not _is_integer(value):
            raise bad_request(f"label selector {text!r}: {value!r} after {sign!r} must be an integer")
        return Requirement(key, Operator(sign), frozenset({value}))
    return Requirement(key, Operator.NOT_IN if sign == "!=" else Operator.IN, frozenset({value}))


_SELECTOR_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.ABSENT,
    "Gt": Operator.GREATER,
    "Lt": Operator.LESS,
}


def read_requirements(expressions: list[JsonObject]) -> tuple[Requirement, ...]:
    """Read ``matchExpressions`` of a label selector or a node selector term."""
    return tuple(
        Requirement(e["key"], _SELECTOR_OPERATORS[e["operator"]], frozenset(e.get("values") or ())) for e in expressions
    )


def read_selector(document: JsonObject | None) -> Selector | None:
    """Read a LabelSelector document; None where there is none, which selects nothing."""
    if document is None:
        return None
    exact = tuple(
        Requirement(key, Operator.IN, frozenset({value})) for key, value in (document.get("matchLabels") or {}).items()
    )
    return Selector(labels=exact + read_requirements(document.get("matchExpressions") or []))


_FIELD = re.compile(r"([^=!]+?)\s*(==|=|!=)(.*)", re.DOTALL)
_UNESCAPED_COMMA = re.compile(r"(?<!\\),")


def parse_fields(text: str, resource: Resource) -> tuple[FieldTerm, ...]:
    """Read a field selector; only the fields that kube-apiserver can select on are accepted.

    Raises:
        ApiFailure: 400 for another field or a term without an operator.
    """
    terms = [term for term in _UNESCAPED_COMMA.split(text) if term]
    return tuple(_field_term(term, resource) for term in terms)


def _field_term(term: str, resource: Resource) -> FieldTerm:
    found = _FIELD.fullmatch(term)
    if found is None:
        raise bad_request(f"invalid field selector {term!r}; can't understand it, expected field=value or field!=value")
    path = found[1].strip()
    supported = resource.fields | {"metadata.name"} | ({"metadata.namespace"} if resource.namespaced else set())
    if path not in supported:
        raise bad_request(f"field label not supported: {path}; supported: {', '.join(sorted(supported))}")
    value = re.sub(r"\\(.)", r"\1", found[3])
    return FieldTerm(path, found[2] != "!=", value)
