"""Does another system share the same cards? Two accountings of one card end in pods that starve each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gcushare.cluster.diagnosis.checks.views import VendorNode, asks_for, vendor_nodes, words_of
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, error, warning
from gcushare.core.cards import SERVES_WHOLE
from gcushare.wire.pods import is_finished


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSystem:
    """A system that hands out cards, and how it shows: resources in capacities and requests, annotations of nodes."""

    name: str
    resources: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    """Beginnings of keys."""


OTHER_SYSTEMS: Mapping[str, tuple[OtherSystem, ...]] = {
    "nvidia.com": (
        OtherSystem(
            name="HAMi",
            resources=("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
            annotations=("hami.io/node-nvidia", "4pd.io/node-nvidia"),
        ),
        OtherSystem(
            name="Volcano's vGPU plugin",
            resources=("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/gpu-memory"),
            annotations=("volcano.sh/node-vgpu",),
        ),
        OtherSystem(name="NVIDIA's time-slicing", resources=("nvidia.com/gpu.shared",)),
    ),
    "enflame.com": (
        OtherSystem(
            name="HAMi",
            resources=("enflame.com/vgcu", "enflame.com/vgcu-percentage"),
            annotations=("hami.io/node-enflame", "4pd.io/node-enflame"),
        ),
    ),
}
"""Systems met in the field, by the domain of the resource of the vendor's whole cards.

Source: their documentation's resource names and node annotations.
"""


def check_nodes(facts: Facts) -> Iterator[Finding]:
    """Nodes that share cards here and offer the same cards there."""
    for each in vendor_nodes(facts):
        if each.is_labelled or each.inventory is not None:
            yield from _others_on(facts, each)


def _others_on(facts: Facts, each: VendorNode) -> Iterator[Finding]:
    whole = each.vendor.whole_card_resource
    known = OTHER_SYSTEMS.get(whole.partition("/")[0], ())
    for other in (*known, OtherSystem(name=f"another device plugin of {whole}", resources=(whole,))):
        # A plugin of ours may register the resource of whole cards, if its inventory says that it grants them.
        is_ours = other.resources == (each.vendor.whole_card_resource,) and SERVES_WHOLE in each.modes
        amounts = {name: each.capacity(name) for name in other.resources}
        signs = [f"{name} {amount}" for name, amount in amounts.items() if amount != "0"]
        if other.annotations:
            keys = sorted(each.node.metadata.annotations)
            signs += [f"annotation {key}" for key in keys if key.startswith(other.annotations)]
        if is_ours or not signs:
            continue
        users = [
            pod.key
            for pod in facts.pods
            if pod.spec.node_name == each.name
            and not is_finished(pod)
            and any(asks_for(pod, resource) for resource in other.resources)
        ]
        yield error(
            "other-sharing-system",
            each.subject,
            f"{other.name} hands out the same cards: {', '.join(signs)}; "
            + (f"{len(users)} pods hold them, such as {words_of(users)}" if users else "no pod holds them yet"),
            f"keep the systems on different nodes: label only one set with {each.vendor.node_label}, and keep the "
            "other's DaemonSet off it by node selector",
        )


def check_foreign_plugins(facts: Facts) -> Iterator[Finding]:
    """Units on a node whose plugin is not ours, and pods that hold ids of another plugin."""
    for each in vendor_nodes(facts):
        resource = each.vendor.memory_resource
        amount = each.capacity(resource)
        if amount != "0" and each.plugin is None and each.inventory is None:
            yield warning(
                "other-sharing-system",
                each.subject,
                f"it has {amount} {resource} and no inventory: another system's plugin registered "
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
