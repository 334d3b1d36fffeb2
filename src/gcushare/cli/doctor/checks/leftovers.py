"""What a plugin that is gone left on a node: harmless to remove, and misleading while it stays."""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cli.doctor.checks.views import plugins_by_node
from gcushare.cli.doctor.facts import Area, Facts, has_label
from gcushare.cli.doctor.findings import Finding, RemoveAnnotation, RemoveCapacity, warning
from gcushare.vendors import VENDORS, Vendor
from gcushare.wire.annotations.record import record_keys
from gcushare.wire.objects import Node
from gcushare.wire.pods import is_finished


def check_leftovers(facts: Facts) -> Iterator[Finding]:
    """Inventories and counts on nodes without label and plugin."""
    if not facts.knows(Area.PODS):
        return  # a plugin may be there unseen
    for vendor in VENDORS:
        plugins = plugins_by_node(facts, vendor)
        for node in facts.nodes:
            if not has_label(node, vendor) and node.metadata.name not in plugins:
                yield from _leftovers_of(facts, node, vendor)


def _leftovers_of(facts: Facts, node: Node, vendor: Vendor) -> Iterator[Finding]:
    name, capacity = node.metadata.name, node.status.capacity
    text = node.metadata.annotations.get(vendor.inventory_annotation)
    # Units above 0 are the kubelet's own count: it has a plugin, whosever that is, or has not forgotten ours yet.
    is_counted = capacity.get(vendor.memory_resource, "0") != "0"
    resources = () if is_counted else (vendor.count_resource, vendor.memory_resource)
    left = [resource for resource in resources if resource in capacity]
    if text is None and not left:
        return
    holders = _holders(facts, node, vendor)
    state = f"the node carries no {vendor.node_label} and runs no plugin"
    kept = f"; {len(holders)} pods still have records here, such as {holders[0]}" if holders else ""
    remedy = (
        "remove it (--fix), or put the label back" if not holders else "delete those pods first, then examine again"
    )
    if text is not None:
        yield warning(
            "stale-inventory",
            f"node {name}",
            f"{vendor.inventory_annotation} still offers cards, so pods may be placed there: {state}{kept}",
            remedy,
            RemoveAnnotation(name, vendor.inventory_annotation, text) if not holders else None,
        )
    for resource in left:
        yield warning(
            "leftover-capacity",
            f"node {name}",
            f"{resource} {capacity[resource]} is left in the capacity: {state}{kept}",
            remedy,
            RemoveCapacity(name, resource, capacity[resource]) if not holders else None,
        )


def _holders(facts: Facts, node: Node, vendor: Vendor) -> list[str]:
    keys = record_keys(vendor)[:-1]
    return [
        pod.key
        for pod in facts.pods
        if pod.spec.node_name == node.metadata.name
        and not is_finished(pod)
        and any(key in pod.metadata.annotations for key in keys)
    ]
