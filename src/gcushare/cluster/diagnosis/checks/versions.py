"""Are the programs of one release?"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, warning
from gcushare.wire.kubernetes_versions import find_release


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
