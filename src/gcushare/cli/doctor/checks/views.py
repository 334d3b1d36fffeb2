"""What several checks ask of a snapshot: who asks for cards, what a node offers, when a pod was bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gcushare.cli.doctor.facts import Facts, PluginFacts, has_label, has_trace
from gcushare.cluster.program_pods import SeenPod
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Inventory
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.requests import PodRequest
from gcushare.vendors import Vendor
from gcushare.wire.annotations.inventory import decode_inventory
from gcushare.wire.objects import Node
from gcushare.wire.pods import is_finished, pod_request


@dataclass(frozen=True, slots=True)
class RequestingPod:
    """An unfinished pod that asks for cards of ours; without a ``request``, ``problem`` says why it cannot be read."""

    pod: SeenPod
    request: PodRequest | None
    problem: str = ""


def requesting_pods(facts: Facts, vendor: Vendor) -> Iterator[RequestingPod]:
    """The unfinished pods that ask for this vendor's shared memory, or for whole cards where our plugin serves them."""
    serving = {node.metadata.name for node in facts.nodes if _serves_whole(node, vendor)}
    for pod in facts.pods:
        if is_finished(pod):
            continue
        is_served = pod.spec.node_name in serving if pod.is_bound else bool(serving)
        if not (asks_for(pod, vendor.memory_resource) or (is_served and asks_for(pod, vendor.whole_card_resource))):
            continue
        try:
            yield RequestingPod(pod, pod_request(pod, vendor))
        except (RemoteContractError, Refused) as failure:
            yield RequestingPod(pod, None, str(failure))


def _serves_whole(node: Node, vendor: Vendor) -> bool:
    inventory = inventory_of(node, vendor)
    return inventory is not None and SERVES_WHOLE in inventory.modes


def needs_extender(facts: Facts) -> bool:
    """Whether pods depend on an extender here: not where every node serves whole cards alone and none is installed."""
    if facts.extender.replicas:
        return True
    ours = [
        (node, vendor)
        for vendor in facts.vendors()
        for node in facts.nodes
        if has_label(node, vendor) or has_trace(node, vendor)
    ]
    inventories = [inventory_of(node, vendor) for node, vendor in ours]
    return not inventories or any(found is None or SERVES_MEMORY in found.modes for found in inventories)


def asks_for(pod: SeenPod, resource: str) -> bool:
    """Whether a container of a pod names a resource."""
    return any(resource in each.resources.limits or resource in each.resources.requests for each in pod.containers())


def inventory_of(node: Node, vendor: Vendor) -> Inventory | None:
    """The inventory that a node's plugin published; None where there is none, or none that can be read."""
    text = node.metadata.annotations.get(vendor.inventory_annotation)
    if text is None:
        return None
    try:
        return decode_inventory(text)
    except RemoteContractError:
        return None


def plugins_by_node(facts: Facts, vendor: Vendor) -> dict[str, PluginFacts]:
    """A vendor's plugins by their nodes; of two during an update, the one that answers."""
    found: dict[str, PluginFacts] = {}
    for plugin in facts.plugins:
        if plugin.vendor == vendor and (plugin.node not in found or plugin.status is not None):
            found[plugin.node] = plugin
    return found


def bound_for_s(facts: Facts, pod: SeenPod) -> float:
    """How long ago a pod was bound, in seconds of the API server's clock."""
    scheduled = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    age_s = facts.age_s(scheduled.last_transition_time) if scheduled is not None else None
    return age_s if age_s is not None else facts.age_s(pod.metadata.creation_timestamp) or 0.0


def words_of(names: list[str], *, shown: int = 3) -> str:
    """Name some of many."""
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def span(seconds: float) -> str:
    """A length of time as people say it."""
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.0f} s"
