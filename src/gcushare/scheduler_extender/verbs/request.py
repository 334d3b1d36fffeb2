"""What a pod asks for, with the policies that apply to it: its author's where it names some, else the settings'."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gcushare.core.fit_index import Shape
from gcushare.core.nodes import PodRef
from gcushare.core.placement import CARD_POLICIES, CardPolicy
from gcushare.core.requests import PodRequest
from gcushare.core.topology import CLOSE
from gcushare.vendors.vendor import Vendor
from gcushare.wire.objects import Pod
from gcushare.wire.pods import pod_ref, pod_request_and_options


@dataclass(frozen=True, slots=True)
class Policies:
    """Names of the policies for pods whose author asks for none."""

    node: str = "binpack"
    card: str = "binpack"
    whole_card: str = CLOSE


@dataclass(frozen=True, slots=True)
class SchedulingRequest:
    """A pod that wants cards of one vendor."""

    pod: PodRef
    request: PodRequest
    shape: Shape
    card_policy_name: str
    version: str = field(default="", compare=False)
    """The pod's resourceVersion when this was read; a Binding is for the pod as it was then."""

    @property
    def card_policy(self) -> CardPolicy:
        return CARD_POLICIES[self.card_policy_name]


def read_scheduling_request(pod: Pod, vendor: Vendor, policies: Policies) -> SchedulingRequest | None:
    """Read what a pod asks for; None when it asks for no card of this vendor.

    Raises:
        RemoteContractError: a quantity or an annotation of the author's is malformed; names the value.
        Refused: well-formed, but nothing that this system grants.
    """
    found = pod_request_and_options(pod, vendor)
    if found is None:
        return None
    request, options = found
    if request.cards.whole and options.whole_card_policy is None:
        request = replace(request, cards=replace(request.cards, whole_policy=policies.whole_card))
    shape = Shape(request.cards, options.node_policy or policies.node)
    return SchedulingRequest(
        pod_ref(pod), request, shape, options.card_policy or policies.card, pod.metadata.resource_version
    )
