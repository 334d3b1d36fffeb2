"""Every check, and the examination that runs them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gcushare.cli.doctor.checks import extenders, inventories, other_schedulers, plugins, records, scheduling, security
from gcushare.cli.doctor.facts import Facts
from gcushare.cli.doctor.findings import Finding, in_order

Check = Callable[[Facts], Iterable[Finding]]

CHECKS: tuple[Check, ...] = tuple(
    check
    for module in (scheduling, extenders, plugins, inventories, records, other_schedulers, security)
    for name, check in vars(module).items()
    if name.startswith("check_") and getattr(check, "__module__", "") == module.__name__
)
"""Every function of these modules whose name begins with ``check_``."""


def examine(facts: Facts) -> list[Finding]:
    """Run every check; findings worst first."""
    return in_order(finding for check in CHECKS for finding in check(facts))
