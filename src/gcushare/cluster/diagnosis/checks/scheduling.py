"""Does kube-scheduler call the extender, and the right one?"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cluster.diagnosis.checks.views import asks_for, needs_extender, requesting_pods, vendor_nodes
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, error, info, warning
from gcushare.cluster.diagnosis.schedulers import ConfiguredExtender, SchedulerFacts
from gcushare.cluster.programs import ProgramKind, port_of
from gcushare.cluster.rights import Area
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.wording import counted, some_names, span
from gcushare.vendors import VENDORS
from gcushare.wire.contracts import VERBS_PORT
from gcushare.wire.objects import DEFAULT_SCHEDULER

WAITED_S = 30.0
"""A pod younger than this may not have had its turn."""

_CONFIGURE = (
    "let the config manager do it (chart value scheduler.mode=config-manager), or run gcushare-config-manager apply on "
    "every control-plane node; if the control plane is out of reach, use scheduler.mode=second-scheduler"
)
_OUT_OF_REACH = (
    "on a managed cluster set the chart value scheduler.mode=second-scheduler, or from Kubernetes 1.36 on serve "
    "claims, which need no extender (docs/claims.md); if kube-scheduler is a systemd unit, run "
    "gcushare-config-manager apply on every master"
)
_CONTROL_PLANE = frozenset({"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"})
"""Labels of the nodes that the config manager runs on."""
_LOOK_CLOSER = "give it with --scheduler-config FILE, or create a pod that asks for cards and examine again"
_PREFIXES = frozenset(vendor.url_prefix for vendor in VENDORS)


def check_configuration(facts: Facts) -> Iterator[Finding]:
    """A scheduler that was started without the extender does not know it."""
    if not needs_extender(facts):
        return
    has_second = any(extenders_of(scheduler) and scheduler.is_second for scheduler in facts.schedulers)
    for scheduler in facts.schedulers:
        if extenders_of(scheduler) or (has_second and not scheduler.is_second):
            continue  # pods name the second one as theirs
        subject = f"scheduler {scheduler.name}"
        if scheduler.problem:
            yield error(
                "scheduler-not-calling", subject, f"{scheduler.source}: {scheduler.problem}", "repair that document"
            )
        elif not scheduler.config_file:
            yield error(
                "scheduler-not-calling",
                subject,
                "it was started without --config (or --policy-config-file), so it knows no extender",
                _CONFIGURE,
            )
        elif scheduler.extenders is not None:
            # Quoted, so that a support bundle leaves them out: others' paths and queries have carried tokens.
            named = some_names([repr(each.url) for each in scheduler.extenders]) or "none"
            yield error(
                "scheduler-not-calling",
                subject,
                f"{scheduler.source} names no extender of gcushare; it names {named}",
                _CONFIGURE,
            )
        elif not scheduler.has_our_file and not facts.extender.calls("filter"):
            yield info(
                "scheduler-unseen",
                subject,
                f"its configuration {scheduler.config_file!r} lies on its host, and the extender counts no call yet",
                _LOOK_CLOSER,
            )


def check_names(facts: Facts) -> Iterator[Finding]:
    """Next to a second scheduler, pods that do not name it are placed by one that calls no extender."""
    calling = [each for each in facts.schedulers if extenders_of(each)]
    names = {name or DEFAULT_SCHEDULER for each in calling for name in each.profiles or {DEFAULT_SCHEDULER}}
    may_call = any(each.has_our_file for each in facts.schedulers) or any(r.state == "applied" for r in facts.reports)
    if not calling or may_call or not all(each.is_second for each in calling) or DEFAULT_SCHEDULER in names:
        return
    past = {
        each.pod.key
        for vendor in facts.vendors()
        for each in requesting_pods(facts, vendor)
        if asks_for(each.pod, vendor.memory_resource) and each.pod.spec.is_for_default_scheduler
    }
    if past:
        yield warning(
            "scheduler-not-calling",
            f"scheduler {DEFAULT_SCHEDULER}",
            f"{counted(len(past), 'pod', 'ask')} it for cards, and it calls no extender: {some_names(sorted(past))}; "
            "it places them by the sum of a node's memory alone",
            f"create them again with schedulerName: {min(names)}; a policy can set it (docs/install.md)",
        )


def check_visibility(facts: Facts) -> Iterator[Finding]:
    """If no scheduler is visible, only the calls of the extender show that it is configured."""
    is_unseen = facts.knows(Area.PODS) and not facts.schedulers and facts.scope is None and needs_extender(facts)
    if not is_unseen or not facts.vendors() or facts.extender.calls("filter"):
        return
    has_masters = any(not _CONTROL_PLANE.isdisjoint(node.metadata.labels) for node in facts.nodes)
    if facts.has_every_node and not has_masters and not facts.running(ProgramKind.CONFIG_MANAGER):
        yield warning(
            "control-plane-out-of-reach",
            "kube-scheduler",
            f"no node of {len(facts.nodes)} is labelled as control plane, so no config manager runs, and the extender "
            "counts no call yet: pods are placed by the sum of a node's memory alone",
            _OUT_OF_REACH,
        )
    else:
        yield info(
            "scheduler-unseen",
            "kube-scheduler",
            "no pod of it can be seen (a managed control plane, or systemd), and the extender counts no call yet",
            _LOOK_CLOSER,
        )


def check_calls(facts: Facts) -> Iterator[Finding]:
    """Pods wait that came after the extender, and it was never asked about one."""
    if facts.extender.calls("filter") != 0 or not needs_extender(facts):
        return
    started = max((each.started for each in facts.extender.replicas), default=0.0)
    waiting: dict[str, float] = {}
    for vendor in facts.vendors():
        for each in requesting_pods(facts, vendor):
            age_s = facts.age_s(each.pod.metadata.creation_timestamp) or 0.0
            is_later = facts.now.timestamp() - age_s >= started
            is_gated = any(condition.reason == "SchedulingGated" for condition in each.pod.status.conditions)
            if not each.pod.is_bound and age_s >= WAITED_S and is_later and not is_gated:
                waiting[each.pod.key] = age_s
    if waiting:
        yield error(
            "scheduler-not-calling",
            "kube-scheduler",
            f"{counted(len(waiting), 'pod', 'wait')} for cards, up to {span(max(waiting.values()))} "
            f"({some_names(sorted(waiting))}), and the extender was never asked: 0 filter calls since it started",
            f"{_CONFIGURE}. Pods that fit no node by cpu or memory are not asked about: kubectl describe pod says so",
        )


def check_address(facts: Facts) -> Iterator[Finding]:
    """The address that the scheduler calls must be the extender's."""
    accepted, service = _addresses(facts), facts.extender.service
    # A scheduler may call the Service's port of a node that was not read.
    ports = service.spec.ports if service is not None and not facts.has_every_node else ()
    elsewhere = {port.node_port for port in ports} - {0}
    for scheduler in facts.schedulers:
        for entry in extenders_of(scheduler):
            is_right = (entry.host, entry.port) in accepted or entry.port in elsewhere
            if accepted and not is_right:
                called = f"{entry.host}:{entry.port}" if entry.host and entry.port else repr(entry.url)
                known = ", ".join(f"{host}:{port}" for host, port in sorted(accepted)[:4])
                yield error(
                    "scheduler-other-address",
                    f"scheduler {scheduler.name}",
                    f"{scheduler.source} calls {called}, and the extender is at {known}",
                    "bring urlPrefix up to date and restart the scheduler; the config manager does both when the "
                    "Service's address changes",
                )


def check_resources(facts: Facts) -> Iterator[Finding]:
    """A resource that the entry does not manage is scheduled without the extender, so without a card."""
    for scheduler in facts.schedulers:
        entries = extenders_of(scheduler)
        managed = {name for entry in entries for name in entry.resources}
        for vendor in facts.vendors() if entries else ():
            if vendor.memory_resource not in managed:
                yield error(
                    "scheduler-resource-unmanaged",
                    f"scheduler {scheduler.name}",
                    f"{scheduler.source} manages {some_names(sorted(managed)) or 'no resource'}, and nodes offer "
                    f"{vendor.memory_resource}: its pods are bound without a card",
                    f"add {vendor.memory_resource} to managedResources, and start the extender with --vendor both",
                )


def check_claims(facts: Facts) -> Iterator[Finding]:
    """Pods with claims that are marked for the extender fit no node, unless a scheduler ignores the mark."""
    if not facts.schedulers or any(each.extenders is None for each in facts.schedulers):
        return  # One whose configuration is unknown may be the right one.
    managed = {name for each in facts.schedulers for entry in each.extenders or () for name in entry.resources}
    unbound = [each for each in facts.pods if not each.is_bound]
    for mark in sorted({vendor.claims.extender_resource for vendor in VENDORS} - managed):
        waiting = sorted(pod.key for pod in unbound if any(mark in each.resources.limits for each in pod.containers()))
        if waiting:
            yield error(
                "claims-unmanaged",
                "kube-scheduler",
                f"no scheduler manages {mark}, which is a resource of no node; {counted(len(waiting), 'pod', 'wait')} "
                f"with claims that name it: {some_names(waiting)}",
                "have the scheduler call the extender for claims: chart value claims.callExtender, or "
                "gcushare-config-manager --claims; or turn claims.callExtender off, and create the pods again",
            )


def check_whole_cards(facts: Facts) -> Iterator[Finding]:
    """Pods that ask for whole cards must reach the extender if cards are shared too, and only then."""
    for vendor in facts.vendors():
        nodes = list(vendor_nodes(facts, (vendor,)))
        both = sorted(each.name for each in nodes if {SERVES_MEMORY, SERVES_WHOLE} <= {*each.modes})
        served = [each.name for each in nodes if SERVES_WHOLE in each.modes]
        counted = [each.name for each in nodes if each.capacity(vendor.whole_card_resource) != "0"]
        resource = vendor.whole_card_resource
        for scheduler in facts.schedulers:
            managed = {name for entry in extenders_of(scheduler) for name in entry.resources}
            if managed and resource not in managed and both:
                yield warning(
                    "whole-cards-unmanaged",
                    f"scheduler {scheduler.name}",
                    f"{scheduler.source} does not manage {resource}, and {some_names(both)} serve whole cards as "
                    "well as memory: the scheduler counts cards, but not which of them are shared at that moment",
                    f"add {resource} to managedResources: chart value wholeCards: true, or gcushare-config-manager "
                    "--whole-cards; until then pods that lose a race are refused by the kubelet and have to be created "
                    "again",
                )
            elif resource in managed and not served and not counted and facts.has_every_node:
                yield warning(
                    "whole-cards-unserved",
                    f"scheduler {scheduler.name}",
                    f"{scheduler.source} manages {resource}, and no plugin serves whole cards: no pod gets one",
                    f"start the plugins with --mode both, or take {resource} out of managedResources (chart value "
                    "wholeCards)",
                )


def check_reports(facts: Facts) -> Iterator[Finding]:
    """What the config managers themselves say."""
    for report in facts.reports:
        if report.state not in ("applied", "recovered", "changing"):
            yield error(
                "config-manager-failed",
                f"node {report.node}",
                f"its config manager reports {report.state or 'nothing'!r}: {report.reason or 'without a reason'}",
                "the scheduler runs as before; remove the cause, and the config manager tries again by itself",
            )


def extenders_of(scheduler: SchedulerFacts) -> list[ConfiguredExtender]:
    """Ours, by their path. Not by resource: the extender of another product may manage ours among others."""
    return [each for each in scheduler.extenders or () if each.path in _PREFIXES]


def _addresses(facts: Facts) -> set[tuple[str, int]]:
    """Every address at which a scheduler may rightly call the extender."""
    found: set[tuple[str, int]] = set()
    service = facts.extender.service
    if service is not None:
        name, namespace = service.metadata.name, service.metadata.namespace
        local = f"{name}.{namespace}.svc"
        hosts = [service.spec.cluster_ip, name, f"{name}.{namespace}", local, f"{local}.cluster.local"]
        nodes = [each.address for node in facts.nodes for each in node.status.addresses]
        for port in service.spec.ports:
            found |= {(host, port.port) for host in hosts if host not in ("", "None")}
            found |= {(host, port.node_port) for host in nodes if port.node_port}
    for replica in facts.extender.replicas:
        if replica.pod is not None and (address := replica.pod.status.pod_ip):
            found |= {(address, port_of(replica.pod)), (address, VERBS_PORT)}
    return found
