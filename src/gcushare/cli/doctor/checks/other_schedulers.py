"""Does another system share the same cards? Two accountings of one card end in pods that starve each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gcushare.cli.doctor.checks.views import asks_for, inventory_of, plugins_by_node, words_of
from gcushare.cli.doctor.facts import Facts, has_label
from gcushare.cli.doctor.findings import Finding, error, warning
from gcushare.core.cards import SERVES_WHOLE
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.objects import Node
from gcushare.wire.pods import is_finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A system that hands out cards, and how it shows: resources in capacities and requests, annotations of nodes."""

    name: str
    vendor: Vendor
    resources: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    """Beginnings of keys."""
    grants_whole_cards: bool = False
    """Whether our own plugin may register the same resource, where its inventory says that it grants whole cards."""


NEIGHBOURS = (
    Neighbour(
        name="HAMi",
        vendor=ALIYUN,
        resources=("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
        annotations=("hami.io/node-nvidia", "4pd.io/node-nvidia"),
    ),
    Neighbour(
        name="HAMi",
        vendor=ENFLAME,
        resources=("enflame.com/vgcu", "enflame.com/vgcu-percentage"),
        annotations=("hami.io/node-enflame", "4pd.io/node-enflame"),
    ),
    Neighbour(
        name="Volcano's vGPU plugin",
        vendor=ALIYUN,
        resources=("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/gpu-memory"),
        annotations=("volcano.sh/node-vgpu",),
    ),
    Neighbour(name="NVIDIA's time-slicing", vendor=ALIYUN, resources=("nvidia.com/gpu.shared",)),
    Neighbour(
        name="NVIDIA's device plugin",
        vendor=ALIYUN,
        resources=(ALIYUN.whole_card_resource,),
        grants_whole_cards=True,
    ),
    Neighbour(
        name="Enflame's plain device plugin",
        vendor=ENFLAME,
        resources=(ENFLAME.whole_card_resource,),
        grants_whole_cards=True,
    ),
)
"""Systems met in the field. Source: their documentation's resource names and node annotations."""

_SEPARATE = (
    "keep the systems on different nodes: label only one set with {label}, and keep the other's DaemonSet off it by "
    "node selector"
)


def check_nodes(facts: Facts) -> Iterator[Finding]:
    """Nodes that share cards here and offer the same cards there."""
    for vendor in facts.vendors():
        for node in facts.nodes:
            if has_label(node, vendor) or inventory_of(node, vendor) is not None:
                yield from _neighbours_on(facts, node, vendor)


def _neighbours_on(facts: Facts, node: Node, vendor: Vendor) -> Iterator[Finding]:
    for other in (each for each in NEIGHBOURS if each.vendor == vendor):
        signs = _signs(node, other)
        if not signs:
            continue
        users = [
            pod.key
            for pod in facts.pods
            if pod.spec.node_name == node.metadata.name
            and not is_finished(pod)
            and any(asks_for(pod, resource) for resource in other.resources)
        ]
        yield error(
            "other-sharing-system",
            f"node {node.metadata.name}",
            f"{other.name} hands out the same cards: {', '.join(signs)}; "
            + (f"{len(users)} pods hold them, such as {words_of(users)}" if users else "no pod holds them yet"),
            _SEPARATE.format(label=vendor.node_label),
        )


def _signs(node: Node, other: Neighbour) -> list[str]:
    inventory = inventory_of(node, other.vendor)
    if other.grants_whole_cards and inventory is not None and SERVES_WHOLE in inventory.modes:
        return []  # ours
    amounts = {name: node.status.capacity.get(name, "0") for name in other.resources}
    signs = [f"{name} {amount}" for name, amount in amounts.items() if amount != "0"]
    return signs + [
        f"annotation {key}"
        for key in sorted(node.metadata.annotations)
        if other.annotations and key.startswith(other.annotations)
    ]


def check_foreign_plugins(facts: Facts) -> Iterator[Finding]:
    """Units on a node whose plugin is not ours, and pods that hold ids of another plugin."""
    for vendor in facts.vendors():
        plugins = plugins_by_node(facts, vendor)
        for node in facts.nodes:
            amount = node.status.capacity.get(vendor.memory_resource, "0")
            has_ours = node.metadata.name in plugins or inventory_of(node, vendor) is not None
            if amount != "0" and not has_ours:
                yield warning(
                    "other-sharing-system",
                    f"node {node.metadata.name}",
                    f"it has {amount} {vendor.memory_resource} and no inventory: another system's plugin registered "
                    "them (Aliyun's gpushare, the Go gcushare); its cards are taken to be of equal size",
                    "replace that plugin by gcushare-device-plugin once its pods have ended",
                )
    for plugin in facts.plugins:
        count = plugin.status.foreign_containers if plugin.status is not None else 0
        if count:
            yield warning(
                "foreign-device-ids",
                f"node {plugin.node}",
                f"{count} containers hold device ids of another plugin: their memory is not counted",
                "the node's events name them (ForeignDeviceIds): delete those pods, their controllers start them again",
            )
