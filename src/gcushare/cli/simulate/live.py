"""Nodes and pods of a running cluster, reduced to what a simulation needs. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from gcushare.cli.simulate.workload import EmptyNode
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.reader import UNFINISHED, Reader
from gcushare.core.cards import SERVES_WHOLE
from gcushare.core.errors import ConfigError, Refused, RemoteContractError
from gcushare.core.packing.expected_fill import Demand
from gcushare.core.packing.learned_fill import demand_of
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import NODES, PODS, Selector
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.vendors import VENDORS_BY_NAME, Vendor
from gcushare.wire.nodes import NodeCards, node_cards
from gcushare.wire.objects import NODE, POD, Node, Pod
from gcushare.wire.other_resources import node_amounts, pod_amounts
from gcushare.wire.pods import readable_request


async def read_live(
    kube: KubeSettings, vendor_name: str, environ: Mapping[str, str], problems: list[str]
) -> tuple[list[EmptyNode], list[Demand]]:
    """Read the nodes that have cards of this vendor, empty, and every unfinished pod that holds or wants some.

    Pods without cards of these nodes take CPU and memory where they run; they are left out of the pods and subtracted
    from the nodes. ``problems`` takes nodes and pods that cannot be read: they are missing from the simulation.

    Raises:
        ConfigError: no node has cards, or no pod asks for any.
        the errors of ``gcushare.kube.errors``.
    """
    vendor = VENDORS_BY_NAME[vendor_name]
    async with open_cluster(kube, environ, program="gcushare-simulate") as client:
        nodes, pods = await list_all(client, problems)
    return reduce_cluster(nodes, pods, vendor, problems)


async def list_all(client: KubeClient, problems: list[str]) -> tuple[list[Node], list[Pod]]:
    """List all nodes and unfinished pods. Pods without cards count too: they take CPU and memory."""
    reader = Reader(client, problems=problems)
    nodes = await reader.list_objects(NODES, NODE.read)
    return nodes, await reader.list_objects(PODS, POD.read, selector=Selector(fields=UNFINISHED))


def reduce_cluster(
    nodes: Iterable[Node], pods: Iterable[Pod], vendor: Vendor, problems: list[str]
) -> tuple[list[EmptyNode], list[Demand]]:
    """The same from objects; pure.

    Raises:
        ConfigError: as ``read_live``.
    """
    found: dict[str, tuple[Node, NodeCards]] = {}
    for node in nodes:
        try:
            cards = node_cards(vendor, node.metadata.annotations, node.status.capacity)
        except RemoteContractError as failure:
            problems.append(f"node {node.metadata.name}: {failure}")
            continue
        if cards is not None:
            found[node.metadata.name] = (node, cards)
    modes = {name: cards.modes for name, (_, cards) in found.items()}
    demands = []
    others: Counter[str] = Counter()
    other_memory: Counter[str] = Counter()
    for pod in sorted(pods, key=lambda each: (each.metadata.creation_timestamp or "", each.key)):
        try:
            demand = read_demand(pod, vendor)
        except Refused as failure:
            problems.append(f"pod {pod.key}: {failure}")
            continue
        if demand.cards and _is_served(pod, demand, modes):
            demands.append(demand)
        else:
            others[pod.spec.node_name] += demand.cpu_milli
            other_memory[pod.spec.node_name] += demand.memory_mib
    specs = [
        EmptyNode(
            spec.name,
            max(0, spec.cpu_milli - others[spec.name]),
            max(0, spec.memory_mib - other_memory[spec.name]),
            spec.cards,
            spec.model,
            spec.card_units,
        )
        for spec in (_spec_of(*each) for each in found.values())
        if spec is not None
    ]
    if not specs:
        raise ConfigError(f"no node of this cluster has cards of {vendor.name}; is the device plugin running?")
    if not demands:
        raise ConfigError(f"no pod of this cluster asks for cards of {vendor.name}: there is nothing to place")
    return sorted(specs, key=lambda spec: spec.name), demands


def read_demand(pod: Pod, vendor: Vendor) -> Demand:
    """Read what a pod takes of a node.

    Raises:
        Refused: its request cannot be read, or is none that is granted.
    """
    request, problem = readable_request(pod, vendor)
    # A bound pod holds its cards, whatever its author has written on it since.
    if problem and (request is None or not pod.is_bound):
        raise Refused(problem)
    amounts = pod_amounts(pod)
    if request is None:
        return Demand(0, 0, False, *amounts)
    return demand_of(request.cards, amounts)


def _is_served(pod: Pod, demand: Demand, modes: Mapping[str, Collection[str]]) -> bool:
    """Whether a pod holds or wants cards of these nodes, by what each hands out.

    Other plugins may serve the same resources on other nodes, and whole cards on nodes of ours that serve none.
    """
    if demand.whole:
        served = modes.values() if not pod.is_bound else [modes.get(pod.spec.node_name, ())]
        return any(SERVES_WHOLE in each for each in served)
    return not pod.is_bound or pod.spec.node_name in modes


def _spec_of(node: Node, found: NodeCards) -> EmptyNode | None:
    usable = [card for card in found.cards if card.is_usable and card.units]
    if not usable:
        return None
    units, _ = Counter(card.units for card in usable).most_common(1)[0]
    alike = [card for card in usable if card.units == units]
    offered = node_amounts(node)
    return EmptyNode(node.metadata.name, offered.cpu_milli, offered.memory_mib, len(alike), alike[0].model, units)
