"""A pod's request with the policies that apply to it: those of its annotations, else those of the settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

from gcushare.core.assignments import PodRef
from gcushare.core.fit_index import Shape
from gcushare.core.matching import KubeletCalls
from gcushare.core.node_rules import NO_RULES, NodeRules
from gcushare.core.other_resources import NO_AMOUNTS, Amounts
from gcushare.core.placement import EXPECTED_FILL, POLICIES
from gcushare.core.requests import CardRequest, PodRequest
from gcushare.vendors.vendor import Vendor
from gcushare.wire.annotations import NODE_POLICY, record_keys
from gcushare.wire.objects import Pod
from gcushare.wire.other_resources import pod_amounts
from gcushare.wire.pods import kubelet_calls, pod_ref, pod_request_and_options

_MAX_GATES = 64
"""Gates that are kept of a pod, to be named: an object may have 80,000."""
_MAX_SHOWN = 256
"""Characters that are kept of an annotation that an unbound pod brings along."""


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies for pods whose annotations name none."""

    node: str
    card: str
    whole_card: str


@dataclass(frozen=True, slots=True)
class SchedulingRequest:
    """An unbound pod that asks for cards of one vendor."""

    pod: PodRef
    shape: Shape
    card_policy: str
    calls: KubeletCalls | None = field(default=None, compare=False)
    """The calls of the kubelet that follow on its bind; None for a pod with a claim."""
    version: str = field(default="", compare=False)
    """The pod's resourceVersion when this was read; a Binding is for the pod as it was then."""
    old_record: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """The annotations that the unbound pod has under the keys of a record; the log line of its bind shows them."""
    amounts: Amounts = field(default=NO_AMOUNTS, compare=False)
    """The pod's CPU and memory, whatever its policies."""
    gates: tuple[str, ...] = field(default=(), compare=False)
    """The scheduling gates that keep kube-scheduler from the pod."""
    group: str = field(default="", compare=False)
    """The PodGroup of the pod as namespace/name; empty for a pod that is scheduled alone."""

    divisor: int = field(default=1, compare=False)
    """The largest number by which each container's amount can be divided; 1 if the pod can have one card only."""
    rules: NodeRules = field(default=NO_RULES, compare=False)
    """What restricts its nodes: kube-scheduler keeps to it, explain shows it."""
    soft_rules: tuple[str, ...] = field(default=(), compare=False)
    """The kinds of what it prefers and does not require."""
    preempts: bool = field(default=True, compare=False)
    """Whether kube-scheduler ends pods of lower priority for it."""

    @property
    def cards(self) -> CardRequest:
        return self.shape.request


@dataclass(frozen=True, slots=True)
class RejectedRequest:
    """An unbound pod whose request is not granted, and why.

    ``is_malformed``: the request cannot be parsed; otherwise it can, but is not granted.
    """

    pod: PodRef
    problem: str
    is_malformed: bool


WaitingPod: TypeAlias = SchedulingRequest | RejectedRequest


def read_claiming_request(pod: Pod, claimed: PodRequest, policies: Policies) -> SchedulingRequest:
    """Read how a pod with these claims is to be placed. Of its options only the node policy counts."""
    chosen = pod.metadata.annotations.get(NODE_POLICY, "")
    policy = chosen if chosen in POLICIES else policies.node
    shape = Shape(claimed.cards, policy, pod_amounts(pod) if policy == EXPECTED_FILL else NO_AMOUNTS)
    return SchedulingRequest(
        pod_ref(pod),
        shape,
        policies.card,
        gates=_gates(pod),
        divisor=claimed.divisor,
        rules=_one_of_equal(pod.spec.node_rules),
    )


def _gates(pod: Pod) -> tuple[str, ...]:
    return tuple(each.name for each in pod.spec.scheduling_gates[:_MAX_GATES])


@lru_cache(maxsize=1024)
def _one_of_equal(rules: NodeRules) -> NodeRules:
    """Share equal rules: thousands of pods of a few workloads wait at once."""
    return rules


def read_scheduling_request(pod: Pod, vendor: Vendor, policies: Policies) -> SchedulingRequest | None:
    """Read a pod's request; None if it asks for no card of this vendor.

    Raises:
        RemoteContractError: a quantity or an annotation is malformed; the message has the value.
        Refused: the request is well-formed, but this system does not grant it.
    """
    found = pod_request_and_options(pod, vendor)
    if found is None:
        return None
    cards, options = found[0].cards, found[1]
    if cards.whole and options.whole_card_policy is None:
        cards = replace(cards, whole_policy=policies.whole_card)
    node_policy, card_policy = options.node_policy or policies.node, options.card_policy or policies.card
    # The other policies ignore CPU and memory, so pods that differ only there share an order of nodes.
    amounts = pod_amounts(pod)
    shape = Shape(cards, node_policy, amounts if EXPECTED_FILL in (node_policy, card_policy) else NO_AMOUNTS)
    annotations = pod.metadata.annotations
    old_record = tuple((key, annotations[key][:_MAX_SHOWN]) for key in record_keys(vendor) if key in annotations)
    return SchedulingRequest(
        pod_ref(pod),
        shape,
        card_policy,
        kubelet_calls(pod, found[0]),
        pod.metadata.resource_version,
        old_record,
        amounts,
        _gates(pod),
        f"{pod.metadata.namespace}/{pod.spec.scheduling_group.pod_group_name}" if pod.spec.scheduling_group else "",
        found[0].divisor if vendor.multi_card_runtime else 1,
        _one_of_equal(pod.spec.node_rules),
        pod.spec.soft_rules,
        pod.spec.preemption_policy != "Never",
    )
