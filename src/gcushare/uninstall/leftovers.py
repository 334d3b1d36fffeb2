"""Which of a Node's fields are ours, and the patches that take them away: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gcushare.kube.patches import Patch, PatchKind
from gcushare.vendors import Vendor
from gcushare.wire.objects import Node


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Our fields of one Node. What an admin wrote, such as cordoned cards, is not ours."""

    annotations: tuple[str, ...]
    labels: tuple[str, ...]
    resources: tuple[str, ...]

    @property
    def metadata_patch(self) -> Patch | None:
        """Remove annotations and labels; None when there are none. Repeatable."""
        parts = (("annotations", self.annotations), ("labels", self.labels))
        metadata = {part: dict.fromkeys(keys) for part, keys in parts if keys}
        return Patch(PatchKind.MERGE, {"metadata": metadata}) if metadata else None

    @property
    def status_patch(self) -> Patch | None:
        """Remove resources; None when there are none. Repeatable."""
        gone = dict.fromkeys(self.resources)
        return Patch(PatchKind.MERGE, {"status": {"capacity": gone, "allocatable": gone}}) if gone else None


def find_leftovers(node: Node, vendors: Sequence[Vendor], *, with_labels: bool) -> Leftovers:
    """Find our fields of a Node."""
    status = node.status.capacity.keys() | node.status.allocatable.keys()
    resources = [name for vendor in vendors for name in (vendor.count_resource, vendor.memory_resource)]
    inventories = [vendor.inventory_annotation for vendor in vendors]
    labels = [vendor.label_key for vendor in vendors] if with_labels else []
    return Leftovers(
        annotations=tuple(key for key in inventories if key in node.metadata.annotations),
        labels=tuple(key for key in labels if key in node.metadata.labels),
        resources=tuple(name for name in resources if name in status),
    )


def is_remembered(node: Node, vendors: Sequence[Vendor]) -> bool | None:
    """Tell whether the kubelet still counts our memory; None where the Node says nothing of it.

    A kubelet writes what it counts back within its next status update. Five minutes after the plugin's end it forgets
    the resource and writes 0, once.
    """
    amounts = [node.status.capacity[v.memory_resource] for v in vendors if v.memory_resource in node.status.capacity]
    return None if not amounts else any(amount != "0" for amount in amounts)
