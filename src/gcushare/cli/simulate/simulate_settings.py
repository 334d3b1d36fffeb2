"""What ``gcushare simulate`` takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gcushare._version import __version__
from gcushare.cli.terminal.output import TextOrJson, text_or_json_flag
from gcushare.core import placement
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.vendors import VENDORS, VENDORS_BY_NAME

SIMULATE = "gcushare simulate"
POLICIES = tuple((policy.name, policy.nodes) for policy in placement.POLICIES.values())


@settings
class SourceSettings:
    """What is simulated."""

    from_cluster: bool = setting(
        parsers.boolean(),
        default=False,
        help="Instead of files: the cards, CPU and memory of a cluster's nodes, and its unfinished pods with cards, as "
        "if they all came again to empty nodes. It is only read.",
    )
    vendor: str = setting(
        parsers.one_of(*VENDORS_BY_NAME), default=VENDORS[0].name, help="With --from-cluster: whose cards."
    )
    nodes: Path | None = setting(
        parsers.optional_file("from the cluster"),
        default=None,
        env="GCUSHARE_SIMULATE_NODES",  # GCUSHARE_NODES belongs to deploy.sh
        help="Nodes as CSV with the columns sn, cpu_milli, memory_mib, gpu and model.",
    )
    pods: Path | None = setting(
        parsers.optional_file("from the cluster"),
        default=None,
        help="Pods as CSV with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and, if any, gpu_spec.",
    )
    load: float | None = setting(
        parsers.optional(parsers.fraction(0.01, 10.0), "the pods as they are"),
        default=None,
        help="How much is asked for of all cards, such as 130%: pods are sampled again, or left out, until that much "
        "is asked for.",
    )


@settings
class SimulateSettings:
    """Simulation."""

    policy: tuple[str, ...] = setting(
        parsers.comma_list(replace(parsers.one_of(*placement.POLICIES), metavar="POLICY")),
        default=tuple(placement.POLICIES),
        help="The policies to compare; see below.",
    )
    cards_needed: bool = setting(
        parsers.boolean(),
        default=False,
        help="Instead of comparing: how many nodes of this mix, and so how many cards, each policy needs to "
        "place every pod.",
    )
    output: TextOrJson = text_or_json_flag("text for people, json for programs.")
    source: SourceSettings = group(SourceSettings)
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """Both files, or a cluster; and policies."""
        has_files = self.source.nodes is not None and self.source.pods is not None
        if self.source.from_cluster and (self.source.nodes is not None or self.source.pods is not None):
            yield "from-cluster and files are two sources: name one"
        if not self.source.from_cluster and not has_files:
            yield "nodes and pods are both needed: name two CSV files, or use --from-cluster"
        if not self.policy:
            yield f"policy is empty: name some of {', '.join(placement.POLICIES)}"


SIMULATE_PROGRAM = Program(
    name=SIMULATE,
    summary="Place a workload on a cluster by each policy and compare what they waste, without touching a cluster. "
    "Cards are counted and granted by the code that the scheduler extender uses.",
    version=__version__,
    settings=SimulateSettings,
    examples=(
        (f"{SIMULATE} --nodes nodes.csv --pods pods.csv --load 130%", "which policy fills the cluster best"),
        (f"{SIMULATE} --nodes nodes.csv --pods pods.csv --cards-needed", "how many cards these pods need"),
    ),
    legends=(("Policies", POLICIES),),
    notes="Percentages are of all card units: allocated is what pods hold at the end, partial what is free on cards in "
    "use, idle on others. The policies are asked about pods with "
    "cards, as kube-scheduler asks the extender; the others go where most CPU and memory is free.",
)
