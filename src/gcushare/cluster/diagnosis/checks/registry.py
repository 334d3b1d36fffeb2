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


CHECKS: tuple[Check, ...] = (
    scheduling.check_configuration,
    scheduling.check_names,
    scheduling.check_visibility,
    scheduling.check_calls,
    scheduling.check_address,
    scheduling.check_resources,
    scheduling.check_claims,
    scheduling.check_whole_cards,
    scheduling.check_reports,
    extenders.check_presence,
    extenders.check_answers,
    extenders.check_leader,
    plugins.check_plugins,
    plugins.check_namespaces,
    plugins.check_kubelets,
    plugins.check_node_groups,
    plugins.check_limits,
    plugins.check_leftovers,
    claims.check_claims_kubelets,
    claims.check_claims_slices,
    claims.check_claims_cluster,
    claims.check_quotas,
    claims.check_limit_ranges,
    inventories.check_readable,
    inventories.check_counts,
    inventories.check_units,
    inventories.check_cards,
    inventories.check_holders,
    inventories.check_cordons,
    records.check_requests,
    records.check_keys,
    records.check_reservations,
    records.check_forgeries,
    records.check_own_devices,
    records.check_policy,
    records.check_totals,
    waiting.check_never_fitting,
    waiting.check_foreign_words,
    waiting.check_refused_by_kubelet,
    other_systems.check_nodes,
    other_systems.check_foreign_plugins,
    other_systems.check_pods,
    autoscaler.check_gpu_labels,
    autoscaler.check_startup_taint,
    certificates.check_certificates,
    versions.check_versions,
    check_unread,
)


def examine(facts: Facts) -> list[Finding]:
    """Run every check; findings worst first."""
    return in_order(finding for check in CHECKS for finding in check(facts))
