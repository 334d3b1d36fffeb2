"""What a check found: a value with a subject, numbers, a remedy, and, if it is safe, the change that repairs it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial


class Severity(enum.Enum):
    """How bad it is; in the order in which findings are shown."""

    ERROR = "error"
    """Pods are placed wrongly or not at all, now."""
    WARNING = "warning"
    """It works, but not for long, or not for everyone."""
    INFO = "info"
    """Worth knowing; nothing needs to be done."""

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that ``--fix`` may make of a Node's ``annotations`` or ``capacity``; the value None removes the key.

    Only what is not in use any more is changed, and only while it has the value that was seen.
    """

    node: str
    field: str
    key: str
    seen: str
    value: str | None = None

    def __str__(self) -> str:
        if self.field == "capacity":
            return f"node {self.node}: remove {self.key} ({self.seen}) from the capacity"
        if self.value is None:
            return f"node {self.node}: remove the annotation {self.key}"
        return f"node {self.node}: change the annotation {self.key} from {self.seen!r} to {self.value!r}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. ``id`` names its kind for programs, ``subject`` what it is about (``node n1``).

    ``problem`` is what is wrong, with the numbers that show it; ``remedy`` what to do; ``fix`` the same as a change,
    if it is safe to make it.
    """

    severity: Severity
    id: str
    subject: str
    problem: str
    remedy: str
    fix: Fix | None = None


error = partial(Finding, Severity.ERROR)
warning = partial(Finding, Severity.WARNING)
info = partial(Finding, Severity.INFO)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings worst first, then by kind and subject; what was found twice is reported once."""
    unique = dict.fromkeys(findings)
    return sorted(unique, key=lambda each: (each.severity.rank, each.id, each.subject, each.problem))


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The worst severity among findings, None if there are none."""
    return min((each.severity for each in findings), key=lambda each: each.rank, default=None)
