"""The list of all checks, and the examination that runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gcushare.cluster.diagnosis.checks import (
    extenders,
    inventories,
    other_schedulers,
    plugins,
    records,
    scheduling,
    security,
)
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, in_order

Check = Callable[[Facts], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    scheduling.check_configuration,
    scheduling.check_visibility,
    scheduling.check_calls,
    scheduling.check_address,
    scheduling.check_resources,
    scheduling.check_whole_cards,
    scheduling.check_reports,
    extenders.check_presence,
    extenders.check_answers,
    extenders.check_leader,
    extenders.check_watches,
    extenders.check_versions,
    plugins.check_plugins,
    plugins.check_kubelets,
    plugins.check_leftovers,
    inventories.check_readable,
    inventories.check_message_limit,
    inventories.check_counts,
    inventories.check_cards,
    inventories.check_holders,
    inventories.check_cordons,
    records.check_requests,
    records.check_reservations,
    records.check_forgeries,
    records.check_kubelet_ids,
    records.check_totals,
    other_schedulers.check_nodes,
    other_schedulers.check_foreign_plugins,
    security.check_policy,
    security.check_clocks,
    security.check_certificates,
    security.check_unread,
)


def examine(facts: Facts) -> list[Finding]:
    """Run every check; findings worst first."""
    return in_order(finding for check in CHECKS for finding in check(facts))
