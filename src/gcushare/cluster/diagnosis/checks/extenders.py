"""Is there exactly one extender that serves?"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cluster.diagnosis.checks.views import needs_extender
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, error, info
from gcushare.cluster.rights import Area
from gcushare.core.wording import counted, span
from gcushare.wire.contracts import LEADS_LABEL


def check_presence(facts: Facts) -> Iterator[Finding]:
    """There must be an extender that answers."""
    if not facts.knows(Area.PODS, Area.SERVICE):
        return
    extender = facts.extender
    if not facts.vendors() and not extender.replicas:
        if facts.scope is None and facts.knows(Area.NODES):
            yield info("nothing-found", "cluster", "no node shares cards, and there is no extender", "install gcushare")
    # Behind a Service that could not be asked there may be one whose pods are not recognised.
    elif not extender.replicas and extender.service is None and needs_extender(facts):
        yield error(
            "extender-missing",
            f"Service {extender.service_name}",
            "no pod runs gcushare-scheduler-extender, and there is no such Service: pods stay Pending",
            "install the chart gcushare-scheduler-extender-chart, or say where it is with --extender-service",
        )


def check_answers(facts: Facts) -> Iterator[Finding]:
    """Every replica and the Service must answer."""
    extender = facts.extender
    for replica in extender.replicas:
        if replica.problem and facts.knows(Area.EXTENDER, Area.PLUGINS):
            yield error(
                "extender-unreachable",
                f"extender {replica.name}",
                replica.problem,
                "see its log and events: kubectl logs, kubectl describe pod; without it pods stay Pending",
            )
    if extender.service_problem:
        yield error(
            "extender-unreachable",
            f"Service {extender.service_name}",
            f"nothing answers behind it: {extender.service_problem}",
            f"it selects the pod that the leader labels {LEADS_LABEL}: see the other findings and the replicas' logs",
        )


def check_leader(facts: Facts) -> Iterator[Finding]:
    """Exactly one replica serves."""
    reported = [each for each in facts.extender.replicas if each.figures]
    leaders = [each.name for each in reported if each.is_leader]
    if reported and not leaders:
        yield error(
            "no-leader",
            "scheduler extender",
            f"{counted(len(reported), 'replica')}, and none serves; {_lease_text(facts)}",
            "see in the replicas' logs why the Lease cannot be renewed: rights, another namespace, no API server",
        )
    if len(leaders) > 1:
        yield error(
            "two-leaders",
            "scheduler extender",
            f"{counted(len(leaders), 'replica', 'serve')} at once: {', '.join(leaders)}",
            "start every replica with --leader-elect and the same --lease-name and --lease-namespace, or keep only one",
        )


def _lease_text(facts: Facts) -> str:
    lease = facts.extender.lease
    if lease is None:
        return "there is no Lease" if facts.knows(Area.LEASES) else "their Lease could not be read"
    holder = lease.spec.holder_identity or "no one"
    age_s = facts.age_s(lease.spec.renew_time)
    renewed = f", renewed {span(age_s)} ago" if age_s is not None else ""
    return f"the Lease {lease.metadata.namespace}/{lease.metadata.name} is held by {holder}{renewed}"
