"""The list of all checks, and the examination that runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gcushare.cluster.diagnosis.checks import (
    autoscaler,
    certificates,
    claims,
    extenders,
    inventories,
    other_systems,
    plugins,
    records,
    scheduling,
    versions,
    waiting,
)
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, in_order, warning

Check = Callable[[Facts], Iterable[Finding]]


def check_unread(facts: Facts) -> Iterator[Finding]:
    """Report what could not be checked, so that silence never passes for health."""
    for each in facts.unread:
        problem = f"cannot check {each.part.value}: {each.problem}"
        if each.lacks_right:
            remedy = "run it as a user who may, or grant that right"
            yield warning("missing-right", "the user of this command", problem, remedy)
        else:
            yield warning("not-readable", "API server", problem, "try again")


_SUBJECTS = (
    scheduling,
    extenders,
    plugins,
    claims,
    inventories,
    records,
    waiting,
    other_systems,
    autoscaler,
    certificates,
    versions,
)
CHECKS: tuple[Check, ...] = (
    *(check for each in _SUBJECTS for name, check in vars(each).items() if name.startswith("check_")),
    check_unread,
)
"""Every function of these modules whose name begins with ``check_``, in the order in which they stand there."""


def examine(facts: Facts) -> list[Finding]:
    """Run every check; findings worst first."""
    return in_order(finding for check in CHECKS for finding in check(facts))
