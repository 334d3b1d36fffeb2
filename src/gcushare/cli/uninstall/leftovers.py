"""Which of a Node's fields are ours, and the patch that removes them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gcushare.core.cards import SERVES_WHOLE
from gcushare.core.errors import RemoteContractError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import JsonObject
from gcushare.vendors import Vendor
from gcushare.wire.annotations.inventory import decode_inventory
from gcushare.wire.objects import Node


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Our fields of one Node, without what an admin wrote there, such as cordoned cards."""

    annotations: tuple[str, ...]
    labels: tuple[str, ...]
    resources: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Every key that is ours; empty if nothing is left."""
        return (*self.annotations, *self.labels, *self.resources)

    def patch(self, resource_version: str) -> Patch:
        """Remove them through the Node's status subresource, if the Node still has this version."""
        parts = (("annotations", self.annotations), ("labels", self.labels))
        found = {part: dict.fromkeys(keys) for part, keys in parts if keys}
        body: JsonObject = {"metadata": {"resourceVersion": resource_version, **found}}
        if self.resources:
            gone = dict.fromkeys(self.resources)
            body["status"] = {"capacity": gone, "allocatable": gone}
        return Patch(PatchKind.MERGE, body)


def whole_resources(node: Node, vendors: Sequence[Vendor]) -> frozenset[str]:
    """The whole-card resources that our plugin serves on a Node, by its inventory; others belong to other plugins."""
    return frozenset(vendor.whole_card_resource for vendor in vendors if _serves_whole(node, vendor))


def _serves_whole(node: Node, vendor: Vendor) -> bool:
    text = node.metadata.annotations.get(vendor.inventory_annotation)
    if text is None:
        return False
    try:
        return SERVES_WHOLE in decode_inventory(text).modes
    except RemoteContractError:
        return False  # unreadable: the resource may be another plugin's, so it stays


def has_inventory(node: Node, vendor: Vendor) -> bool:
    """Whether our plugin has published the vendor's cards of a Node."""
    return vendor.inventory_annotation in node.metadata.annotations


def is_counted(node: Node, vendor: Vendor) -> bool:
    """Whether the kubelet counts the vendor's memory: a plugin serves it, or did so within the last five minutes."""
    return node.status.capacity.get(vendor.memory_resource, "0") != "0"


def is_served(node: Node, vendor: Vendor) -> bool:
    """Whether a plugin serves the vendor's memory now. Nothing is allocatable of a plugin that has ended."""
    return is_counted(node, vendor) and node.status.allocatable.get(vendor.memory_resource, "0") != "0"


def find_leftovers(
    node: Node, vendors: Sequence[Vendor], *, with_labels: bool, whole: Collection[str] = ()
) -> Leftovers:
    """Find our fields of a Node; ``whole``: the whole-card resources that are ours there."""
    status = node.status.capacity.keys() | node.status.allocatable.keys()
    resources = [name for vendor in vendors for name in (vendor.count_resource, vendor.memory_resource)]
    resources += sorted(whole)
    inventories = [vendor.inventory_annotation for vendor in vendors]
    labels = [vendor.label_key for vendor in vendors] if with_labels else []
    return Leftovers(
        annotations=tuple(key for key in inventories if key in node.metadata.annotations),
        labels=tuple(key for key in labels if key in node.metadata.labels),
        resources=tuple(name for name in resources if name in status),
    )


def is_remembered(node: Node, vendors: Sequence[Vendor], whole: Collection[str] = ()) -> bool | None:
    """Whether the kubelet still counts our cards; None if the Node does not list them.

    A kubelet writes what it counts back with its next status update. Five minutes after the plugin has ended it forgets
    the resource and writes 0 once.
    """
    ours = [*(vendor.memory_resource for vendor in vendors), *whole]
    amounts = [node.status.capacity[name] for name in ours if name in node.status.capacity]
    return None if not amounts else any(amount != "0" for amount in amounts)
