"""What a check found: a value with a subject, numbers and a remedy."""

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


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. ``id`` names its kind for programs, ``subject`` what it is about (``node n1``).

    ``problem`` is what is wrong, with the numbers that show it; ``remedy`` what to do.
    """

    severity: Severity
    id: str
    subject: str
    problem: str
    remedy: str


error = partial(Finding, Severity.ERROR)
warning = partial(Finding, Severity.WARNING)
info = partial(Finding, Severity.INFO)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings worst first, then by kind and subject; what was found twice is reported once."""
    ranks = {severity: rank for rank, severity in enumerate(Severity)}
    unique = dict.fromkeys(findings)
    return sorted(unique, key=lambda each: (ranks[each.severity], each.id, each.subject, each.problem))
