"""What a check found: a value with a subject, numbers and a remedy. Printing and repairing are done elsewhere."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias


class Severity(enum.Enum):
    """How bad it is; in the order in which findings are shown."""

    ERROR = "error"
    """Pods are placed wrongly or not at all, now."""
    WARNING = "warning"
    """It works, and will not for long, or not for everybody."""
    INFO = "info"
    """Worth knowing; nothing needs to be done."""

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class RemoveAnnotation:
    """Take an annotation off a node, if it still has the value that was seen."""

    node: str
    key: str
    seen: str

    def __str__(self) -> str:
        return f"node {self.node}: remove the annotation {self.key}"


@dataclass(frozen=True, slots=True)
class ReplaceAnnotation:
    """Give an annotation of a node another value, if it still has the one that was seen."""

    node: str
    key: str
    seen: str
    value: str

    def __str__(self) -> str:
        return f"node {self.node}: change the annotation {self.key} from {self.seen!r} to {self.value!r}"


@dataclass(frozen=True, slots=True)
class RemoveCapacity:
    """Take a resource out of a node's capacity, if it still has the amount that was seen."""

    node: str
    resource: str
    seen: str

    def __str__(self) -> str:
        return f"node {self.node}: remove {self.resource} ({self.seen}) from the capacity"


Fix: TypeAlias = RemoveAnnotation | ReplaceAnnotation | RemoveCapacity
"""What ``--fix`` may do: only what nobody uses any more, and only while it is as it was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. ``id`` names its kind for programs, ``subject`` what it is about (``node n1``)."""

    id: str
    severity: Severity
    subject: str
    problem: str
    """What is wrong, with the numbers that show it."""
    remedy: str
    """What to do."""
    fix: Fix | None = None
    """The same as a change, where it is safe to have it made."""


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings worst first, then by kind and subject; what was found twice is told once."""
    unique = dict.fromkeys(findings)
    return sorted(unique, key=lambda each: (each.severity.rank, each.id, each.subject, each.problem))


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The worst severity among findings, None where there are none."""
    return min((each.severity for each in findings), key=lambda each: each.rank, default=None)


def error(kind: str, subject: str, problem: str, remedy: str, fix: Fix | None = None) -> Finding:
    """Make a finding of severity error."""
    return Finding(id=kind, severity=Severity.ERROR, subject=subject, problem=problem, remedy=remedy, fix=fix)


def warning(kind: str, subject: str, problem: str, remedy: str, fix: Fix | None = None) -> Finding:
    """Make a finding of severity warning."""
    return Finding(id=kind, severity=Severity.WARNING, subject=subject, problem=problem, remedy=remedy, fix=fix)


def info(kind: str, subject: str, problem: str, remedy: str) -> Finding:
    """Make a finding of severity info."""
    return Finding(id=kind, severity=Severity.INFO, subject=subject, problem=problem, remedy=remedy)
