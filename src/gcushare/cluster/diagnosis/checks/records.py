"""Are the pods' records true: written by us, of cards that exist, and confirmed?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from gcushare.cluster.diagnosis.checks.views import RequestingPod, asks_for, bound_for_s, requesting_pods, vendor_nodes
from gcushare.cluster.diagnosis.facts import Facts, parse_time
from gcushare.cluster.diagnosis.findings import Finding, error, warning
from gcushare.cluster.programs import SeenPod
from gcushare.cluster.rights import Area
from gcushare.core.errors import RemoteContractError
from gcushare.core.wording import counted, some_names, span
from gcushare.vendors import VENDORS, Vendor
from gcushare.wire.annotations import CLAIMED_RESOURCE, PodRecord, is_own_record, over_use_text
from gcushare.wire.kubernetes_versions import find_release
from gcushare.wire.own_devices import describe_free_ride, describe_own_devices
from gcushare.wire.pods import is_finished, names_resources, pod_record
from gcushare.wire.unread_keys import unread_keys_of_node, unread_keys_of_pod, unread_resources

STALE_AFTER_S = 120.0
"""A pod is admitted within seconds of its binding: its image is pulled afterwards."""
CLOCK_TOLERANCE_S = 60.0
FIRST_WITH_POLICIES = (1, 30)
"""ValidatingAdmissionPolicy is generally available from here on."""

_POLICY = (
    "take these annotations out of the manifest or template that makes the pod, have records protected (chart value "
    "admission.protectRecords), and delete the pod if it is not known"
)


def check_requests(facts: Facts) -> Iterator[Finding]:
    """Requests that are malformed, or larger than any node, are never granted."""
    for vendor in facts.vendors():
        for each in requesting_pods(facts, vendor):
            if each.problem:
                yield warning("request-refused", f"pod {each.pod.key}", each.problem, "correct the pod's manifest")


def check_keys(facts: Facts) -> Iterator[Finding]:
    """Keys and resources like ours, on pods and Nodes, that no program reads."""
    pods: dict[str, list[str]] = {}
    for pod in facts.pods:
        asks = any(names_resources(pod, each) for each in VENDORS) or CLAIMED_RESOURCE in pod.metadata.annotations
        texts = (*(unread_keys_of_pod(pod) if asks else ()), *unread_resources(pod))
        for text in texts if not is_finished(pod) else ():
            pods.setdefault(text, []).append(pod.key)
    for text, found in pods.items():
        problem = f"{text} {counted(len(found), 'pod', 'have')} it: {some_names(found)}"
        yield warning("unread-key", "pods", problem, "correct the template that makes the pods, and create them again")
    vendors = facts.vendors()
    for node in facts.nodes:
        for text in unread_keys_of_node(node, vendors):
            yield warning("unread-key", f"node {node.metadata.name}", text, "correct it with kubectl, or remove it")


def check_reservations(facts: Facts) -> Iterator[Finding]:
    """Bound pods that were never confirmed, and bound pods without a record."""
    for vendor in facts.vendors():
        reported = {
            each.name: {holder.pod for holder in each.inventory.unrecorded}
            for each in vendor_nodes(facts, (vendor,))
            if each.inventory is not None
        }
        for each in requesting_pods(facts, vendor):
            age_s, node = bound_for_s(facts, each.pod), each.pod.spec.node_name
            # Of a pod that its node reports `check_holders` says it.
            if node in reported and each.pod.key not in reported[node] and age_s > STALE_AFTER_S:
                yield from _check_confirmed(each, vendor, age_s)


def _check_confirmed(each: RequestingPod, vendor: Vendor, age_s: float) -> Iterator[Finding]:
    record = _record(each.pod, vendor)
    subject, node = f"pod {each.pod.key}", each.pod.spec.node_name
    if record is None and each.request is not None:
        whole = each.request.cards.cards if each.request.cards.whole else 0
        amount = f"{each.request.total_units} {vendor.memory_resource}"
        if whole:
            amount = f"{whole} {vendor.whole_card_resource}"
        yield warning(
            "unrecorded-pod",
            subject,
            f"it was bound to {node} {span(age_s)} ago, asks for {amount}, and no record says on which card it is",
            f"see the plugin of {node} and the pod's events: the plugin writes it once the kubelet admits the pod",
        )
    elif record is not None and not record.assigned:
        cards = _cards(record.card_indexes)
        yield warning(
            "stale-reservation",
            subject,
            f"card {cards} of {node} was reserved for it {span(age_s)} ago, and the kubelet has not started it",
            f"see the pod's events and the kubelet of {node}; deleting the pod returns its units",
        )


def check_forgeries(facts: Facts) -> Iterator[Finding]:
    """Records that our programs would not have written."""
    for vendor in facts.vendors():
        cards = {
            each.name: {card.index for card in each.inventory.cards} | {card.index for card in each.inventory.left_out}
            for each in vendor_nodes(facts, (vendor,))
            if each.inventory is not None
        }
        asked = {each.pod.key: each for each in requesting_pods(facts, vendor)}
        for pod in facts.pods:
            if is_finished(pod) or vendor.record.card_index not in pod.metadata.annotations:
                continue
            for make, problem in _suspicions(asked.get(pod.key, RequestingPod(pod, None)), vendor, cards):
                yield make("forged-record", f"pod {pod.key}", problem, _POLICY)


def _suspicions(
    each: RequestingPod, vendor: Vendor, cards: Mapping[str, set[int]]
) -> Iterator[tuple[Callable[[str, str, str, str], Finding], str]]:
    pod, keys = each.pod, vendor.record
    if not pod.is_bound:
        yield warning, f"it carries {keys.card_index} and is not bound: its author wrote it, and it is ignored"
        return
    if not is_own_record(pod.metadata.annotations, pod.metadata.uid):
        yield (
            warning,
            "it carries the record of another pod, as a manifest that was exported does; that counts for none",
        )
        return
    record = _record(pod, vendor)
    if record is None:
        yield error, f"its record cannot be read: {keys.card_index}={pod.metadata.annotations[keys.card_index][:40]!r}"
        return
    there = cards.get(pod.spec.node_name, set(record.card_indexes))
    if absent := [index for index in record.card_indexes if index not in there]:
        found = _cards(sorted(there)) or "none"
        yield error, f"its record names card {_cards(absent)}, and node {pod.spec.node_name} has {found}"
    created = parse_time(pod.metadata.creation_timestamp)
    earlier_s = created.timestamp() - record.assign_time_ns / 1e9 if created is not None else 0.0
    if record.assign_time_ns and earlier_s > CLOCK_TOLERANCE_S:
        yield warning, f"its record was made {span(earlier_s)} before the pod was created"
    request = each.request
    if request is None and not each.problem and not asks_for(pod, vendor.whole_card_resource):
        yield warning, f"it has a record and asks for no {vendor.memory_resource} and no {vendor.whole_card_resource}"
    elif request is not None and not request.cards.whole:
        asked = request.total_units
        if record.pod_units not in (0, asked):
            spec = f"and its spec asks for {asked}"
            yield warning, f"its record says {counted(record.pod_units, 'unit')} ({keys.pod_units}), {spec}"


def check_own_devices(facts: Facts) -> Iterator[Finding]:
    """Pods must leave it to the plugin which cards their containers see; one that asks for none sees none."""
    for vendor in facts.vendors():
        asking = {each.pod.key for each in requesting_pods(facts, vendor)}
        nodes = {each.name for each in vendor_nodes(facts, (vendor,)) if each.inventory is not None}
        for pod in facts.pods:
            if pod.spec.node_name not in nodes or is_finished(pod):
                continue
            if pod.key in asking:
                if text := describe_own_devices(pod.containers(), vendor):
                    yield warning("own-visible-devices", f"pod {pod.key}", text, "remove the variable from the pod")
            elif text := (
                over_use_text(pod.metadata.annotations, is_ungranted=True)
                or describe_free_ride(pod, tuple(pod.containers()), vendor)
            ):
                remedy = f"ask for {vendor.memory_resource} there, or take away what shows it the card"
                yield warning("free-rider", f"pod {pod.key}", text, remedy)


def check_policy(facts: Facts) -> Iterator[Finding]:
    """Pods' authors must not be able to write records."""
    release = find_release(facts.server_version)
    if release is None or release < FIRST_WITH_POLICIES or not facts.knows(Area.POLICIES) or facts.scope is not None:
        return
    for vendor in facts.vendors():
        key = vendor.record.card_index
        naming = [policy for policy in facts.policies if key in policy.text]
        if any(policy.denies for policy in naming):
            continue
        if naming:
            found = f"ValidatingAdmissionPolicy {naming[0].name} has no binding that denies it"
        elif facts.policies:
            found = f"no ValidatingAdmissionPolicy of {len(facts.policies)} names it"
        else:
            found = "there is no ValidatingAdmissionPolicy"
        yield warning(
            "policy-missing",
            f"vendor {vendor.name}",
            f"anyone who may create a pod may write {key} on it, and so make cards look full or free: {found}",
            "install the extender's chart with admission.enabled=auto and admission.protectRecords=true",
        )


def check_totals(facts: Facts) -> Iterator[Finding]:
    """No card holds more than it has, counted by the scheduler's own ledger."""
    for vendor in facts.vendors():
        # What cannot be read is reported by the checks of inventories, requests and records.
        for name, node in sorted(facts.snapshots[vendor.name].ledger.nodes.items()):
            for index, card in sorted(node.cards.items()):
                if node.known and card.card is not None and card.held > card.total:
                    pods = [str(a.pod) for a in node.assignments.values() if any(g.index == index for g in a.grants)]
                    yield error(
                        "overcommitted-card",
                        f"node {name} card {index}",
                        f"records assign {card.held} of {counted(card.total, 'unit')}, to {some_names(sorted(pods))}",
                        "the kubelet gives no unit twice, so a record is wrong or the unit was changed: compare with "
                        "kubectl inspect, and delete the pods that hold nothing",
                    )


def _record(pod: SeenPod, vendor: Vendor) -> PodRecord | None:
    try:
        return pod_record(pod, vendor)
    except RemoteContractError:
        return None


def _cards(indexes: Iterable[int]) -> str:
    return ", ".join(map(str, indexes))
