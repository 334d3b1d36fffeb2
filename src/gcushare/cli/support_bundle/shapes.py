"""Filters of JSON values: a shape names every field that is kept, and the form of every text. Pure.

Fields that no shape names are removed, so that a field that a later Kubernetes adds reveals nothing.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias


class Left(enum.Enum):
    """What a shape returns for a value that is removed."""

    OUT = "out"


Shape: TypeAlias = Callable[[Any], Any]
"""Returns the part of a value that is kept, or ``Left.OUT``."""


def fields(**allowed: Shape) -> Shape:
    """An object: only these fields, each filtered by its shape. A field named like a keyword ends in _."""
    return members({name.rstrip("_"): shape for name, shape in allowed.items()})


def members(allowed: Mapping[str, Shape]) -> Shape:
    """An object with fields whose names are not Python identifiers."""

    def keep(value: Any) -> Any:
        if not isinstance(value, dict):
            return Left.OUT
        kept = {name: shape(value[name]) for name, shape in allowed.items() if name in value}
        return {name: part for name, part in kept.items() if part is not Left.OUT}

    return keep


def each(shape: Shape) -> Shape:
    """A list; members of another shape are removed."""

    def keep(value: Any) -> Any:
        if not isinstance(value, list):
            return Left.OUT
        return [part for part in map(shape, value) if part is not Left.OUT]

    return keep


def by_name(key: str, shape: Shape) -> Shape:
    """An object with any field names that match the pattern ``key``, such as amounts of resources."""
    known = re.compile(key)

    def keep(value: Any) -> Any:
        if not isinstance(value, dict):
            return Left.OUT
        kept = {str(name): shape(inner) for name, inner in value.items() if known.fullmatch(str(name))}
        return {name: part for name, part in kept.items() if part is not Left.OUT}

    return keep


def text(pattern: str) -> Shape:
    known = re.compile(pattern, re.ASCII)

    def keep(value: Any) -> Any:
        return value if isinstance(value, str) and known.fullmatch(value) else Left.OUT

    return keep


def one_of(*words: str) -> Shape:
    return text("|".join(map(re.escape, words)))


def either(*shapes: Shape) -> Shape:
    """The first of these shapes that a value has."""

    def keep(value: Any) -> Any:
        return next((part for part in (shape(value) for shape in shapes) if part is not Left.OUT), Left.OUT)

    return keep


def number(value: Any) -> Any:
    return value if isinstance(value, int | float) else Left.OUT


NAME = text(r"[A-Za-z0-9][\w.:-]{0,252}")
"""A name of an object, a node, a container; what people call their things is part of every report."""
NAMES = either(NAME, text(""))
UID = text(r"[A-Za-z0-9-]{1,64}")
TIME = text(r"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d)")
REASON = text(r"[A-Z][A-Za-z./-]{0,127}")
"""One word in CamelCase, as the API's conventions want it; OutOf<resource> has the resource's slash."""
QUANTITY = either(number, text(r"[+-]?\d{1,20}(?:\.\d{1,12})?(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?"))
RESOURCE = r"[A-Za-z0-9][\w./-]{0,316}"
POD = text(RESOURCE)
"""A pod's namespace and name; the name alone of what the kubelet shows without a namespace."""
CLOSED = each(fields(use=one_of("memory", "whole"), pod=POD, until=number))
"""Uses that a card is closed to."""
AMOUNTS = by_name(RESOURCE, QUANTITY)
VERSION = text(r"v?\d[\w.+-]{0,79}")
IMAGE = text(r"[a-z0-9][\w./:-]{0,511}(?:@sha256:[0-9a-f]{64})?")
ADDRESS = text(r"[0-9A-Fa-f.:]{2,45}|None|[a-z0-9][a-z0-9.-]{0,252}")
