"""Are our programs of one release, and do kubelets have one that works with them?"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cluster.diagnosis.checks.views import vendor_nodes
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, warning
from gcushare.core.cards import SERVES_MEMORY
from gcushare.wire.kubernetes_versions import OLDEST_KUBERNETES, find_release, most_quick_units, release_text


def check_versions(facts: Facts) -> Iterator[Finding]:
    """Extender, plugins and this program must be of one release."""
    reported = [(f"extender {each.name}", each.version) for each in facts.extender.replicas if each.version]
    reference = reported[0][1] if reported else facts.own_version
    reported += [
        (f"plugin of node {each.node}", each.status.version) for each in facts.plugins if each.status is not None
    ]
    reported.append(("gcushare doctor", facts.own_version))
    for subject, version in reported:
        if find_release(version) != find_release(reference):
            yield warning(
                "versions-differ",
                subject,
                f"it is version {version or 'unknown'}, and the extender (or this program) is {reference}",
                "bring everything to one release: inventory and records are only promised to fit within one",
            )


def check_kubelets(facts: Facts) -> Iterator[Finding]:
    """Labelled nodes whose kubelet mixes units of several cards, or is slow with so many; also before installing."""
    for each in vendor_nodes(facts):
        version = each.node.status.node_info.kubelet_version
        release = find_release(version)
        has_one_card = each.inventory is not None and len(each.inventory.cards) == 1
        if each.is_labelled and release is not None and release < OLDEST_KUBERNETES and not has_one_card:
            yield each.error(
                "kubelet-too-old",
                f"its kubelet is {version}, older than {release_text(OLDEST_KUBERNETES)}: it does not ask which units "
                "to give and mixes those of several cards, so pods fail at random",
                "upgrade the kubelet, or remove the node's label",
            )
        most = most_quick_units(version)
        units = each.inventory.total_units if SERVES_MEMORY in each.modes and each.inventory is not None else 0
        if most is not None and units > most and each.is_labelled:
            yield each.warning(
                "many-units",
                f"its kubelet is {version} and has {units} units: above {most} it takes minutes to start pods, unless "
                "its feature gates ResourceHealthStatus and ResourceHealthStatusMessage are off",
                "turn both off (that is not seen from here), or choose a coarser memoryUnit once its cards are free",
            )
