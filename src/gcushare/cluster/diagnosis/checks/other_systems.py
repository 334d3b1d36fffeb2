"""Does another system share the same cards? Two accountings of one card end in pods that starve each other."""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cluster.diagnosis.checks.scheduling import WAITED_S, extenders_of
from gcushare.cluster.diagnosis.checks.views import VendorNode, asks_for, requesting_pods, vendor_nodes
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, error, info
from gcushare.cluster.programs import SeenPod, flag
from gcushare.core.cards import SERVES_WHOLE
from gcushare.core.wording import counted, some_names
from gcushare.vendors.neighbours import NEIGHBOURS, Neighbour, Sighting, find_neighbours, neighbours_of, vendor_plugin
from gcushare.wire.pods import is_finished


def check_nodes(facts: Facts) -> Iterator[Finding]:
    """Nodes that share cards here and offer the same cards there."""
    on_node: dict[str, list[SeenPod]] = {}
    for pod in facts.pods:
        if not is_finished(pod):
            on_node.setdefault(pod.spec.node_name, []).append(pod)
    for each in vendor_nodes(facts):
        if each.is_labelled or each.inventory is not None:
            yield from _others_on(facts, each, on_node.get(each.name, []))


def _others_on(facts: Facts, each: VendorNode, here: list[SeenPod]) -> Iterator[Finding]:
    """One finding per system; an admin who allows it on the node has divided the cards."""
    drivers = facts.drivers.get(each.name, frozenset())
    known = tuple(_known_to(each))
    status, annotations = each.node.status, each.node.metadata.annotations
    found = {sighting.neighbour: sighting for sighting in find_neighbours(known, status.capacity, annotations, drivers)}
    for other in known:
        users = some_names([pod.key for pod in here if _is_user(pod, other)])
        sighting = found.get(other)
        if sighting is None and any(key in pod.metadata.annotations for pod in here for key in other.pod_annotations):
            sighting = Sighting(other, ("pods that share cards",))
        if sighting is None:
            continue
        is_allowed = each.plugin is not None and flag(each.plugin.pod, "other-systems") == "allow"
        make, count = info if is_allowed else error, sum(_is_user(pod, other) for pod in here)
        yield make(
            "other-sharing-system",
            each.subject,
            f"{other.name} hands out the same cards: {', '.join(sighting.signs)}; "
            + (f"{counted(count, 'pod', 'hold')} them, such as {users}" if count else "no pod holds them yet"),
            f"keep the systems on different nodes: {other.removal}; or label only other nodes with "
            f"{each.vendor.node_label}. docs/moving-over.md has the steps",
        )


def _is_user(pod: SeenPod, other: Neighbour) -> bool:
    return any(asks_for(pod, resource) for resource in other.resources) or any(
        key in pod.metadata.annotations for key in other.pod_annotations
    )


def _known_to(each: VendorNode) -> Iterator[Neighbour]:
    """The systems that may hand out the node's cards; our own plugin may serve whole cards."""
    whole = each.vendor.whole_card_resource
    yield from neighbours_of(whole)
    if SERVES_WHOLE not in each.modes:
        yield vendor_plugin(whole)


def check_pods(facts: Facts) -> Iterator[Finding]:
    """Pods that ask for our cards and name the scheduler of another system, or one that has not tried them."""
    # The chart's second scheduler may have a name that another system's scheduler has too.
    ours = {name for scheduler in facts.schedulers if extenders_of(scheduler) for name in scheduler.profiles}
    theirs = {name for other in NEIGHBOURS for name in other.schedulers} - ours
    for vendor in facts.vendors():
        waiting: dict[str, list[str]] = {}
        for each in requesting_pods(facts, vendor):
            spec, name = each.pod.spec, each.pod.spec.scheduler_name
            is_asked_for = name in theirs or (not spec.is_for_default_scheduler and _is_untried(facts, each.pod))
            if not each.pod.is_bound and is_asked_for:
                waiting.setdefault(name, []).append(each.pod.key)
        for name, pods in sorted(waiting.items()):
            problem = "it places none by our cards" if name in theirs else "no scheduler of that name has tried them"
            yield error(
                "other-scheduler",
                f"scheduler {name}",
                f"{counted(len(pods), 'pod', 'wait')} for {name} with a request for {vendor.memory_resource}, and "
                f"{problem}: {some_names(sorted(pods))}",
                "create them again with the schedulerName of a scheduler that runs and calls gcushare. HAMi's webhook "
                "sets its own on pods that ask for a resource it knows: label their namespace hami.io/webhook=ignore",
            )


def _is_untried(facts: Facts, pod: SeenPod) -> bool:
    """Whether no scheduler has said anything about a pod that had its turn; a gated one has a condition."""
    is_due = (facts.age_s(pod.metadata.creation_timestamp) or 0.0) >= WAITED_S
    return is_due and all(each.type != "PodScheduled" for each in pod.status.conditions)


def check_foreign_plugins(facts: Facts) -> Iterator[Finding]:
    """Units on a node whose plugin is not ours."""
    for each in vendor_nodes(facts):
        resource = each.vendor.memory_resource
        amount = each.capacity(resource)
        if amount != "0" and each.plugin is None and each.inventory is None:
            yield each.warning(
                "other-sharing-system",
                f"it has {amount} {resource} and no inventory: another system's plugin registered "
                "them (Aliyun's gpushare, the Go gcushare); its cards are taken to be of equal size",
                "replace that plugin by gcushare-device-plugin once its pods have ended",
            )
