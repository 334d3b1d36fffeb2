"""Are whole cards served as the nodes say, by nobody beside us, and does the scheduler ask the extender about them?"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cli.doctor.checks.scheduling import extenders_of
from gcushare.cli.doctor.checks.views import inventory_of, plugins_by_node, words_of
from gcushare.cli.doctor.facts import Facts
from gcushare.cli.doctor.findings import Finding, error, warning
from gcushare.cli.doctor.schedulers import SchedulerFacts
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.vendors import Vendor
from gcushare.wire.objects import Node


def check_capacity(facts: Facts) -> Iterator[Finding]:
    """The kubelet must count as many whole cards as the inventory of a node that serves them has."""
    for vendor in facts.vendors():
        resource = vendor.whole_card_resource
        plugins = plugins_by_node(facts, vendor)
        for node in facts.nodes:
            inventory, plugin = inventory_of(node, vendor), plugins.get(node.metadata.name)
            if inventory is None or SERVES_WHOLE not in inventory.modes or plugin is None:
                continue
            if plugin.status is None or plugin.status.problems:
                continue  # found elsewhere, with its cause
            counted = node.status.capacity.get(resource, "0")
            if counted != str(len(inventory.cards)):
                yield error(
                    "whole-card-count",
                    f"node {node.metadata.name}",
                    f"its plugin serves {len(inventory.cards)} whole cards, the kubelet counts {counted} {resource}",
                    "see the plugin's log for its registration; more than there are come from another plugin of the "
                    "same resource, which must not run on this node",
                )


def check_managed(facts: Facts) -> Iterator[Finding]:
    """Pods that ask for whole cards must reach the extender where cards are shared too, and nowhere else."""
    for vendor in facts.vendors():
        both = sorted(
            node.metadata.name for node in facts.nodes if _modes(node, vendor) >= {SERVES_MEMORY, SERVES_WHOLE}
        )
        served = {node.metadata.name for node in facts.nodes if SERVES_WHOLE in _modes(node, vendor)}
        others = [
            node.metadata.name
            for node in facts.nodes
            if node.metadata.name not in served and _counts_whole(node, vendor)
        ]
        for scheduler in facts.schedulers:
            managed = {name for entry in extenders_of(scheduler) for name in entry.resources}
            if not managed:
                continue
            if vendor.whole_card_resource not in managed:
                yield from _check_unmanaged(scheduler, vendor, both)
            elif not served or others:
                yield _unserved(scheduler, vendor, sorted(others))


def _check_unmanaged(scheduler: SchedulerFacts, vendor: Vendor, both: list[str]) -> Iterator[Finding]:
    resource = vendor.whole_card_resource
    if both:
        yield warning(
            "whole-cards-unmanaged",
            f"scheduler {scheduler.name}",
            f"{scheduler.source} does not manage {resource}, and {words_of(both)} serve whole cards beside memory: the "
            "scheduler counts cards, but not which of them are shared at that moment",
            f"add {resource} to managedResources: chart value wholeCards: true, or gcushare-config-manager "
            "--whole-cards; until then pods that lose a race are refused by the kubelet and have to be created again",
        )


def _unserved(scheduler: SchedulerFacts, vendor: Vendor, others: list[str]) -> Finding:
    resource = vendor.whole_card_resource
    found = f"another plugin serves it on {words_of(others)}" if others else "no node's plugin serves whole cards"
    return warning(
        "whole-cards-unserved",
        f"scheduler {scheduler.name}",
        f"{scheduler.source} manages {resource}, and {found}: pods that ask for it fit only where ours serves it",
        f"start the plugins with --mode both, or take {resource} out of managedResources (chart value wholeCards)",
    )


def _modes(node: Node, vendor: Vendor) -> set[str]:
    inventory = inventory_of(node, vendor)
    return set(inventory.modes) if inventory is not None else set()


def _counts_whole(node: Node, vendor: Vendor) -> bool:
    return node.status.capacity.get(vendor.whole_card_resource, "0") != "0"
