"""Does every labelled node have a plugin that runs, is registered and offers units?"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cli.doctor.checks.views import inventory_of, plugins_by_node
from gcushare.cli.doctor.facts import Area, Facts, PluginFacts, has_label
from gcushare.cli.doctor.findings import Finding, error, warning
from gcushare.core.cards import SERVES_MEMORY
from gcushare.vendors import Vendor
from gcushare.wire.objects import Node

_GRAVE = frozenset({"cards", "registration"})
"""Problems of a plugin after which a node takes no new pods; the others leave it working."""


def check_plugins(facts: Facts) -> Iterator[Finding]:
    """Labelled nodes without a plugin, and plugins that do not run or do not answer."""
    for vendor in facts.vendors():
        plugins = plugins_by_node(facts, vendor)
        for node in facts.nodes:
            if not has_label(node, vendor):
                continue
            plugin = plugins.get(node.metadata.name)
            if plugin is not None:
                yield from _check_pod(plugin)
            elif facts.knows(Area.PODS):
                yield _without_plugin(node, vendor)


def check_registration(facts: Facts) -> Iterator[Finding]:
    """A plugin that runs must have its units in the node's capacity."""
    for vendor in facts.vendors():
        plugins = plugins_by_node(facts, vendor)
        for node in facts.nodes:
            plugin = plugins.get(node.metadata.name)
            if plugin is not None and plugin.pod.status.phase == "Running" and has_label(node, vendor):
                yield from _check_units(node, vendor, plugin)


def _without_plugin(node: Node, vendor: Vendor) -> Finding:
    taints = ", ".join(f"{taint.key}:{taint.effect}" for taint in node.spec.taints)
    make = error if node.is_ready else warning
    return make(
        "node-without-plugin",
        f"node {node.metadata.name}",
        f"it carries {vendor.node_label}, and no gcushare-device-plugin of {vendor.name} runs on it"
        + ("" if node.is_ready else "; the node is not ready")
        + (f"; its taints: {taints}" if taints else ""),
        f"install the chart gcushare-device-plugin-chart with vendor={vendor.name}, or see the DaemonSet's events; "
        f"remove the label where cards are not to be shared",
    )


def _check_pod(plugin: PluginFacts) -> Iterator[Finding]:
    subject, status = f"node {plugin.node}", plugin.pod.status
    if status.phase != "Running":
        why = f", {status.reason}" if status.reason else ""
        yield error(
            "plugin-not-running",
            subject,
            f"the plugin's pod {plugin.pod.key} is {status.phase or 'Pending'}{why}; restarts: {plugin.pod.restarts}",
            f"kubectl -n {plugin.pod.metadata.namespace} describe pod {plugin.pod.metadata.name}",
        )
    elif plugin.problem:
        yield error(
            "plugin-unreachable",
            subject,
            f"the plugin {plugin.pod.key} does not report its state: {plugin.problem}",
            "see its log; a network policy may keep the API server away from its port; another system's plugin has no "
            "/status",
        )
    elif plugin.status is not None:
        yield from _check_problems(plugin)


def _check_problems(plugin: PluginFacts) -> Iterator[Finding]:
    for part, problem in sorted((plugin.status.problems if plugin.status is not None else {}).items()):
        make = error if part in _GRAVE else warning
        kind = "plugin-not-registered" if part == "registration" else "plugin-problem"
        yield make(
            kind, f"node {plugin.node}", f"the plugin says of its {part}: {problem}",
            f"kubectl -n {plugin.pod.metadata.namespace} logs {plugin.pod.metadata.name} says what it tried",
        )  # fmt: skip


def _check_units(node: Node, vendor: Vendor, plugin: PluginFacts) -> Iterator[Finding]:
    problems = plugin.status.problems if plugin.status is not None else {}
    amount = node.status.capacity.get(vendor.memory_resource)
    if _GRAVE & problems.keys():
        return  # the plugin itself says why there are none
    inventory = inventory_of(node, vendor)
    if inventory is not None and SERVES_MEMORY not in inventory.modes:
        return  # whole cards have a check of their own
    offered = inventory.total_units if inventory is not None else 0
    if amount is None:
        yield error(
            "plugin-not-registered",
            f"node {node.metadata.name}",
            f"the plugin runs, and the capacity has no {vendor.memory_resource}; the inventory has {offered} units",
            "see the plugin's log for its registration with the kubelet, and the kubelet's for "
            f"{vendor.plugin_socket}; both must use the same device-plugins directory",
        )
    elif amount == "0" and offered:
        yield error(
            "units-zero",
            f"node {node.metadata.name}",
            f"{vendor.memory_resource} is 0 on the node, and the inventory has {offered} units: the kubelet has lost "
            "the plugin, or refuses its list",
            "restart the plugin's pod; if it stays 0, search the kubelet's log for 'ResourceExhausted' and "
            f"{vendor.plugin_socket}",
        )
