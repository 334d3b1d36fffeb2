"""Does every labelled node have a plugin that runs, is registered and offers units? What did removed plugins leave?"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cluster.diagnosis.checks.views import VendorNode, vendor_nodes
from gcushare.cluster.diagnosis.facts import Facts, PluginFacts
from gcushare.cluster.diagnosis.findings import Finding, error, warning
from gcushare.cluster.programs import flag
from gcushare.cluster.rights import Area
from gcushare.core.cards import SERVES_MEMORY
from gcushare.core.wording import counted
from gcushare.vendors import VENDORS
from gcushare.wire.contracts import COMPONENT_LABEL, MPS_COMPONENT, NODE_GROUP_LABEL
from gcushare.wire.pods import is_finished

_GRAVE = frozenset({"cards", "checkpoint", "registration"})
"""Problems of a plugin after which a node takes no new pods; the others leave it working."""
_LIMITS = "memoryLimit"


def check_plugins(facts: Facts) -> Iterator[Finding]:
    """Labelled nodes without a plugin, and plugins that do not run, do not answer or are not registered."""
    for each in vendor_nodes(facts):
        if not each.is_labelled:
            continue
        if each.plugin is not None:
            yield from _check_pod(each.plugin, is_node_ready=each.node.is_ready)
            if each.plugin.pod.status.phase == "Running" and not each.serves_claims:
                yield from _check_registration(each)
        elif facts.knows(Area.PODS):
            node, vendor = each.node, each.vendor
            taints = ", ".join(f"{taint.key}:{taint.effect}" for taint in node.spec.taints)
            make = error if node.is_ready else warning
            yield make(
                "node-without-plugin",
                each.subject,
                f"it carries {vendor.node_label}, and no gcushare-device-plugin of {vendor.name} runs on it"
                + ("" if node.is_ready else "; the node is not ready")
                + (f"; its taints: {taints}" if taints else ""),
                f"install the chart gcushare-device-plugin-chart with vendor={vendor.name}, or see the DaemonSet's "
                "events; remove the label if its cards are not to be shared",
            )


def check_namespaces(facts: Facts) -> Iterator[Finding]:
    """Namespaces that refuse our programs' pods: what runs there stays, and nothing is created again."""
    for namespace, level in facts.security_levels.items():
        if level != "privileged" and (facts.plugins or any(each.is_labelled for each in vendor_nodes(facts))):
            yield error(
                "namespace-refuses-programs",
                f"namespace {namespace}",
                f"it enforces the Pod Security level {level!r}, which refuses pods with paths of the host: those of "
                "the device plugin and of the config manager are not created there",
                f"kubectl label namespace {namespace} pod-security.kubernetes.io/enforce=privileged --overwrite",
            )


def check_node_groups(facts: Facts) -> Iterator[Finding]:
    """Nodes whose label names another group than their plugin has the settings of."""
    known = sorted({found for each in facts.plugins if (found := flag(each.pod, "node-group"))})
    for each in vendor_nodes(facts):
        wanted = each.node.metadata.labels.get(NODE_GROUP_LABEL)
        if each.plugin is None or wanted is None or (given := flag(each.plugin.pod, "node-group")) == wanted:
            continue
        has = f"those of the group {given}" if given else "those of the nodes of no group"
        yield each.warning(
            "node-group",
            f"it has the label {NODE_GROUP_LABEL}={wanted}, and the settings of its plugin are {has}",
            f"have nodeGroups of the plugin's chart name {wanted}, or correct the label"
            + (f"; plugins run in the groups {', '.join(known)}" if known else ""),
        )


def check_limits(facts: Facts) -> Iterator[Finding]:
    """Nodes on which memory cannot be limited as their plugin should."""
    for each in facts.plugins:
        problem = each.status.problems.get(_LIMITS) if each.status is not None else None
        if not problem:
            continue
        is_open = flag(each.pod, "limit-fallback") == "unlimited"
        make = warning if is_open else error
        effect = "pods start there without a limit" if is_open else "such cards take no new pods"
        remedy = "give the node a driver from 615 on, which keeps limits, or choose limitFallback: mps or unlimited"
        if "mps" in (flag(each.pod, "memory-limit"), flag(each.pod, "limit-fallback")):
            remedy = (
                f"see the MPS daemon's pod: kubectl -n {each.pod.metadata.namespace} describe pods "
                f"-l {COMPONENT_LABEL}={MPS_COMPONENT} --field-selector spec.nodeName={each.node}; "
                "limitFallback: unlimited lets pods start without a limit"
            )
        yield make("memory-not-limited", f"node {each.node}", f"memory cannot be limited ({problem}): {effect}", remedy)


def _check_pod(plugin: PluginFacts, *, is_node_ready: bool) -> Iterator[Finding]:
    yield from _find_silence(plugin, is_node_ready=is_node_ready)
    for part, problem in sorted(plugin.status.problems.items() if plugin.status is not None else ()):
        if part == _LIMITS:
            continue  # check_limits
        make = error if part in _GRAVE else warning
        kind = "plugin-not-registered" if part == "registration" else "plugin-problem"
        yield make(
            kind, f"node {plugin.node}", f"the plugin says of its {part}: {problem}",
            f"kubectl -n {plugin.pod.metadata.namespace} logs {plugin.pod.metadata.name} says what it tried",
        )  # fmt: skip


def _find_silence(plugin: PluginFacts, *, is_node_ready: bool) -> Iterator[Finding]:
    """Why a plugin does not run or answer."""
    pod, subject = plugin.pod, f"node {plugin.node}"
    if not is_node_ready and (plugin.problem or pod.status.phase != "Running"):
        yield warning(
            "plugin-unreachable",
            subject,
            f"the node is not ready, so its plugin {pod.key} does not report its state",
            "bring the node back; if it is gone for good, delete the Node: its pods then end, and their controllers "
            "replace them",
        )
    elif pod.status.phase != "Running":
        why = f", {pod.status.reason}" if pod.status.reason else ""
        problem = f"the plugin's pod {pod.key} is {pod.status.phase or 'Pending'}{why}; restarts: {pod.restarts}"
        remedy = f"kubectl -n {pod.metadata.namespace} describe pod {pod.metadata.name}"
        yield error("plugin-not-running", subject, problem, remedy)
    elif plugin.problem:
        yield error(
            "plugin-unreachable",
            subject,
            f"the plugin {pod.key} does not report its state: {plugin.problem}",
            "see its log; a network policy may keep the API server away from its port; another system's plugin has no "
            "/status",
        )


def _check_registration(each: VendorNode) -> Iterator[Finding]:
    """A plugin that runs must have its units in the node's capacity."""
    vendor, inventory = each.vendor, each.inventory
    if _GRAVE & each.plugin_problems.keys():
        return  # the plugin itself says why there are none
    if inventory is not None and SERVES_MEMORY not in inventory.modes:
        return  # whole cards have a check of their own
    amount = each.node.status.capacity.get(vendor.memory_resource)
    offered = inventory.total_units if inventory is not None else 0
    if amount is None:
        yield each.error(
            "plugin-not-registered",
            f"the plugin runs, and the capacity has no {vendor.memory_resource}; the inventory has "
            f"{counted(offered, 'unit')}",
            "see the plugin's log for its registration with the kubelet, and the kubelet's for "
            f"{vendor.plugin_socket}; both must use the same device-plugins directory",
        )
    elif amount == "0" and offered:
        yield each.error(
            "units-zero",
            f"{vendor.memory_resource} is 0 on the node, and the inventory has {counted(offered, 'unit')}: the "
            "kubelet has lost the plugin, or refuses its list",
            "restart the plugin's pod; if it stays 0, search the kubelet's log for 'ResourceExhausted' and "
            f"{vendor.plugin_socket}",
        )


def check_leftovers(facts: Facts) -> Iterator[Finding]:
    """Inventories on nodes without label and plugin: pods are placed there while they stay."""
    if not facts.knows(Area.PODS):
        return  # a plugin may run there and not be listed
    for each in vendor_nodes(facts, VENDORS):
        key = each.vendor.inventory_annotation
        if each.is_labelled or each.plugin is not None or key not in each.node.metadata.annotations:
            continue
        here = (pod for pod in facts.pods if pod.spec.node_name == each.name and not is_finished(pod))
        holders = [pod.key for pod in here if each.vendor.record.card_index in pod.metadata.annotations]
        kept = f"; records of {counted(len(holders), 'pod')} are still here, such as {holders[0]}" if holders else ""
        yield each.warning(
            "stale-inventory",
            f"{key} still offers cards, so pods may be placed there: the node carries no {each.vendor.node_label} and "
            f"runs no plugin{kept}",
            "delete those pods first, then examine again"
            if holders
            else f"kubectl annotate node {each.name} {key}-, or put the label back",
        )
