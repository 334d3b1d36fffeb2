"""Which pods wait or failed in vain, so that only a person helps: requests that no node can hold, refused pods."""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cluster.diagnosis.checks.scheduling import WAITED_S
from gcushare.cluster.diagnosis.checks.views import asks_for, vendor_nodes
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, warning
from gcushare.cluster.explaining import Question, answer
from gcushare.cluster.programs import SeenPod
from gcushare.core.wording import counted, some_names
from gcushare.vendors import VENDORS
from gcushare.vendors.neighbours import Neighbour, find_neighbours
from gcushare.wire.documents.explain import explain_waiting, request_document
from gcushare.wire.documents.explain_text import describe_ways_out
from gcushare.wire.pods import card_resources, is_finished, pod_ref, resource_asked
from gcushare.wire.unread_keys import find_foreign_request

MAX_QUESTIONS = 64
"""Kinds of waiting pods that are judged, the most common first; each is compared with every node."""

_REFUSED_BY_KUBELET = ("UnexpectedAdmissionError", "OutOf")
"""How the reasons of pods begin that a kubelet does not admit: by our plugin's answer, or because too little is left.
Source: pkg/kubelet/lifecycle/predicate.go; after OutOf the resource's name follows."""


def check_never_fitting(facts: Facts) -> Iterator[Finding]:
    """Waiting pods that no node could hold even if every other pod ended."""
    if not facts.has_every_node:
        return
    for vendor in VENDORS:
        labelled = [each for each in vendor_nodes(facts, (vendor,)) if each.is_labelled]
        if any(each.inventory is None for each in labelled):
            continue  # What such a node has is not known; it has a finding of its own.
        snapshot, asking = facts.snapshots[vendor.name], dict[tuple[Question, int], list[SeenPod]]()
        pods = {pod.metadata.uid: pod for pod in facts.pods if not pod.is_bound and _has_waited(facts, pod)}
        for each in snapshot.waiting():
            pod = pods.get(each.ref.uid)
            if pod is not None and each.request is not None and not each.problem:
                by_claim = snapshot.claims.request_of(pod)
                question = Question(each.request, rules=pod.spec.node_rules, by_claim=by_claim is not None)
                asking.setdefault((question, each.units), []).append(pod)
        for (question, _), alike in sorted(asking.items(), key=lambda item: -len(item[1]))[:MAX_QUESTIONS]:
            request, resource = question.request, resource_asked(question.request, vendor)
            about = explain_waiting(
                pod_ref(alike[0]), request_document(request, "", "", ""), answer(snapshot, question), divisor=1
            )
            if about.can_ever_fit is False:
                yield warning(
                    "pod-never-fits",
                    f"pod {alike[0].key}" if len(alike) == 1 else "pods",
                    f"{counted(len(alike), 'pod', 'wait')} for {resource} in vain "
                    f"({some_names([pod.key for pod in alike])}): {about.summary}",
                    describe_ways_out(about) or "do that, and create the pods again if they still wait",
                )


def _has_waited(facts: Facts, pod: SeenPod) -> bool:
    return (facts.age_s(pod.metadata.creation_timestamp) or 0.0) >= WAITED_S


def check_foreign_words(facts: Facts) -> Iterator[Finding]:
    """Waiting pods that ask in the words of a system that no node shows any trace of."""
    for vendor in facts.vendors() if facts.has_every_node else ():
        asking: dict[str, list[str]] = {}
        for pod in facts.pods:
            other = None if pod.is_bound or is_finished(pod) else find_foreign_request(pod, vendor)
            if other is not None and _has_waited(facts, pod) and not _is_here(facts, other.neighbour):
                asking.setdefault(str(other), []).append(pod.key)
        for words, pods in asking.items():
            yield warning(
                "foreign-request",
                some_names(pods),
                f"{counted(len(pods), 'pod', 'ask')} for cards in the words of {words}, which serves no node here",
                f"ask for {vendor.memory_resource} and create them again; docs/moving-over.md has both systems' words",
            )


def _is_here(facts: Facts, other: Neighbour) -> bool:
    return any(
        find_neighbours(
            (other,), node.status.capacity, node.metadata.annotations, facts.drivers.get(node.metadata.name, ())
        )
        for node in facts.nodes
    )


def check_refused_by_kubelet(facts: Facts) -> Iterator[Finding]:
    """Pods that their node's kubelet refused, and that no controller starts again."""
    for vendor in VENDORS:
        failed = [
            pod.key
            for pod in facts.pods
            if pod.status.phase == "Failed"
            and pod.status.reason.startswith(_REFUSED_BY_KUBELET)
            and not any(owner.controller for owner in pod.metadata.owner_references)
            and any(asks_for(pod, resource) for resource in card_resources(vendor))
        ]
        if failed:
            yield warning(
                "pod-refused-by-kubelet",
                some_names(failed),
                f"{counted(len(failed), 'pod')} with a request for {vendor.device_word} cards failed when the kubelet "
                "was to admit them, and no controller starts them again",
                "kubectl describe pod says why; delete them and create them again, best by a Job or a Deployment",
            )
