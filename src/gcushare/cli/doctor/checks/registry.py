"""Every check, and the examination that runs them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gcushare.cli.doctor.checks import extenders, inventories, leftovers, plugins, records, scheduling, whole_cards
from gcushare.cli.doctor.checks import other_schedulers as neighbours
from gcushare.cli.doctor.checks import security as trust
from gcushare.cli.doctor.facts import Facts
from gcushare.cli.doctor.findings import Finding, in_order

Check = Callable[[Facts], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    scheduling.check_configuration,
    scheduling.check_visibility,
    scheduling.check_calls,
    scheduling.check_address,
    scheduling.check_resources,
    scheduling.check_reports,
    extenders.check_presence,
    extenders.check_answers,
    extenders.check_leader,
    extenders.check_watches,
    extenders.check_versions,
    plugins.check_plugins,
    plugins.check_registration,
    inventories.check_readable,
    inventories.check_message_limit,
    inventories.check_counts,
    whole_cards.check_capacity,
    whole_cards.check_managed,
    inventories.check_cards,
    inventories.check_cordons,
    inventories.check_closures,
    inventories.check_holders,
    leftovers.check_leftovers,
    records.check_requests,
    records.check_reservations,
    records.check_forgeries,
    records.check_kubelet_ids,
    records.check_totals,
    neighbours.check_nodes,
    neighbours.check_foreign_plugins,
    trust.check_policy,
    trust.check_clocks,
    trust.check_certificates,
    trust.check_unread,
)


def examine(facts: Facts) -> list[Finding]:
    """Run every check; findings worst first."""
    return in_order(finding for check in CHECKS for finding in check(facts))
