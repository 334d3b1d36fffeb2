"""Label and field selectors of terms that compare: parsed once per request, then asked per object.

Source: ``k8s.io/apimachinery/pkg/labels`` and ``.../fields``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gcushare_playground.apiserver.failures import bad_request
from gcushare_playground.apiserver.objects import JsonObject, dig, labels_of
from gcushare_playground.apiserver.resources import Resource


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """One term of a label selector; a missing label has no value."""

    key: str
    equal: bool
    value: str

    def matches(self, obj: JsonObject) -> bool:
        """Tell whether the object satisfies this term."""
        return (labels_of(obj).get(self.key) == self.value) is self.equal


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector; an absent field compares as the empty string."""

    path: str
    equal: bool
    value: str

    def matches(self, obj: JsonObject) -> bool:
        """Tell whether the object satisfies this term."""
        return (str(dig(obj, *self.path.split("."), default="")) == self.value) is self.equal


@dataclass(frozen=True, slots=True)
class Selector:
    """What a list or watch asks for: all terms must hold."""

    labels: tuple[LabelTerm, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether nothing is filtered."""
        return not self.labels and not self.fields

    def matches(self, obj: JsonObject) -> bool:
        """Tell whether the object satisfies every term."""
        return all(term.matches(obj) for term in self.fields) and all(term.matches(obj) for term in self.labels)


_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_LABEL = re.compile(rf"\s*({_NAME})\s*(==|=|!=)\s*([A-Za-z0-9._-]*)\s*")


def parse_labels(text: str) -> tuple[LabelTerm, ...]:
    """Read a label selector such as ``app=web,tier!=db``.

    Raises:
        ApiFailure: 400 for a term of another form.
    """
    return tuple(_label_term(term, text) for term in text.split(",")) if text.strip() else ()


def _label_term(term: str, text: str) -> LabelTerm:
    if (found := _LABEL.fullmatch(term)) is None:
        raise bad_request(f"unable to parse requirement: found {term!r} in label selector {text!r}, expected key=value")
    return LabelTerm(found[1], found[2] != "!=", found[3])


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
