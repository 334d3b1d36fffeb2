"""What several checks read from a snapshot: pods that request cards, what a node offers, when a pod was bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gcushare.cluster.diagnosis.facts import Facts, PluginFacts, has_label
from gcushare.cluster.diagnosis.findings import Finding, error, warning
from gcushare.cluster.programs import SeenPod
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Inventory
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.requests import PodRequest
from gcushare.vendors import Vendor
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.nodes import has_trace
from gcushare.wire.objects import Node
from gcushare.wire.pods import current_request, is_finished, is_mirror


@dataclass(frozen=True, slots=True)
class RequestingPod:
    """An unfinished pod that asks for our cards; without a ``request``, ``problem`` says why it cannot be read."""

    pod: SeenPod
    request: PodRequest | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class VendorNode:
    """A node as one vendor's cards see it. ``inventory`` is None if there is none, or ``problem`` says why it cannot
    be read; ``plugin`` is the one that answers, of two during an update.
    """

    node: Node
    vendor: Vendor
    inventory: Inventory | None
    problem: str
    plugin: PluginFacts | None

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def subject(self) -> str:
        return f"node {self.name}"

    def error(self, id: str, problem: str, remedy: str) -> Finding:
        """What is wrong with this node now."""
        return error(id, self.subject, problem, remedy)

    def warning(self, id: str, problem: str, remedy: str) -> Finding:
        """What will be wrong with it, or is for some pods."""
        return warning(id, self.subject, problem, remedy)

    @property
    def is_labelled(self) -> bool:
        """Whether its label selects it to share cards of this vendor."""
        return has_label(self.node, self.vendor)

    @property
    def modes(self) -> tuple[str, ...]:
        """What its plugin serves, as far as the inventory says."""
        return self.inventory.modes if self.inventory is not None else ()

    @property
    def serves_claims(self) -> bool:
        """Whether its admin has its cards given as claims."""
        return self.node.metadata.labels.get(SERVE_LABEL) == SERVE_CLAIMS

    @property
    def plugin_problems(self) -> Mapping[str, str]:
        """What the plugin itself says is wrong, by part."""
        return self.plugin.status.problems if self.plugin is not None and self.plugin.status is not None else {}

    def capacity(self, resource: str) -> str:
        """What the kubelet counts of a resource; 0 if it says nothing."""
        return self.node.status.capacity.get(resource, "0")


def vendor_nodes(facts: Facts, vendors: Iterable[Vendor] | None = None) -> Iterator[VendorNode]:
    """Every node, once for each vendor that is in use here, or for each of these vendors."""
    for vendor in facts.vendors() if vendors is None else vendors:
        plugins: dict[str, PluginFacts] = {}
        for plugin in facts.plugins:
            if plugin.vendor == vendor and (plugin.node not in plugins or plugin.status is not None):
                plugins[plugin.node] = plugin
        for node in facts.nodes:
            inventory, problem = facts.inventories.get((node.metadata.name, vendor.name), (None, ""))
            yield VendorNode(node, vendor, inventory, problem, plugins.get(node.metadata.name))


def sharing_nodes(facts: Facts) -> Iterator[tuple[VendorNode, Inventory]]:
    """The nodes with a readable inventory that are labelled, or whose plugin runs."""
    for each in vendor_nodes(facts):
        if each.inventory is not None and (each.is_labelled or each.plugin is not None):
            yield each, each.inventory


def requesting_pods(facts: Facts, vendor: Vendor) -> Iterator[RequestingPod]:
    """The unfinished pods that ask for this vendor's shared memory, or for whole cards where our plugin serves them.

    No mirrors: they count for nothing.
    """
    serving = {each.name for each in vendor_nodes(facts, (vendor,)) if SERVES_WHOLE in each.modes}
    for pod in facts.pods:
        if is_finished(pod) or is_mirror(pod.metadata.annotations):
            continue
        is_served = pod.spec.node_name in serving if pod.is_bound else bool(serving)
        if not (asks_for(pod, vendor.memory_resource) or (is_served and asks_for(pod, vendor.whole_card_resource))):
            continue
        try:
            yield RequestingPod(pod, current_request(pod, vendor))
        except (RemoteContractError, Refused) as failure:
            yield RequestingPod(pod, None, str(failure))


def needs_extender(facts: Facts) -> bool:
    """Whether pods need an extender.

    Not if none is installed, and every node has one card and no scheduler is configured to call one, or every node
    serves whole cards alone, or claims.
    """
    if facts.extender.replicas:
        return True
    ours = [
        each
        for each in vendor_nodes(facts)
        if not each.serves_claims and (each.is_labelled or has_trace(each.node, each.vendor))
    ]
    if not ours and any(each.serves_claims for each in vendor_nodes(facts)):
        return False
    is_called = any(each.has_our_file or each.extenders for each in facts.schedulers)
    if ours and not is_called and all(each.inventory is not None and len(each.inventory.cards) == 1 for each in ours):
        return False
    return not ours or any(each.inventory is None or SERVES_MEMORY in each.modes for each in ours)


def asks_for(pod: SeenPod, resource: str) -> bool:
    """Whether a container of a pod asks for a resource."""
    return any(each.resources.asks_for(resource) for each in pod.containers())


def bound_for_s(facts: Facts, pod: SeenPod) -> float:
    """How long ago a pod was bound, in seconds of the API server's clock."""
    scheduled = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    age_s = facts.age_s(scheduled.last_transition_time) if scheduled is not None else None
    return age_s if age_s is not None else facts.age_s(pod.metadata.creation_timestamp) or 0.0
