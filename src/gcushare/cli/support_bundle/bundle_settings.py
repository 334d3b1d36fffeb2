"""The settings of ``gcushare support-bundle``."""

from __future__ import annotations

from pathlib import Path

from gcushare.cluster.cluster_flags import WhereSettings
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, optional_setting, settings
from gcushare.runtime.settings.kubernetes import KubeSettings

BUNDLE = "gcushare support-bundle"


@settings
class BundleSettings:
    """Bundle."""

    file: Path | None = optional_setting(
        parsers.optional_file("gcushare-support-TIME.tar.gz here"),
        argument=True,
        help="The archive to write; it must not exist yet.",
    )
    where: WhereSettings = group(WhereSettings)
    kube: KubeSettings = group(KubeSettings)


PROGRAM = Program(
    name=BUNDLE,
    summary="Collect what is needed to find out what is wrong: findings, versions, nodes and pods with "
    "cards, what plugins and extender know, logs, events; in one archive without secrets.",
    settings=BundleSettings,
    examples=(
        (BUNDLE, "everything, into gcushare-support-<time>.tar.gz"),
        (f"{BUNDLE} --node gpu-7 /tmp/gpu-7.tar.gz", "one node, its plugin and its pods"),
    ),
    notes="Fields go in by name: no Secrets, no environment, no annotations or labels of others, no command lines but "
    "flags, no messages, no log lines but those of these programs; and from what is left whatever looks like a "
    "password, token or key is masked. MANIFEST.json lists every file, and what was left out and why. "
    "Names of nodes, pods, namespaces and images stay: read the archive before you send it.",
)
