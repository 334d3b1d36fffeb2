"""What ``gcushare simulate`` takes."""

from __future__ import annotations

import enum
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
POLICIES: tuple[tuple[str, str], ...] = (
    ("random", "any node that fits"),
    ("dot-product", "the node least aligned with the request"),
    ("clustering", "requests of one kind together"),
    ("packing", "cards in use before idle cards before idle nodes"),
    ("best-fit", "the node with the least left"),
    ("fgd", "fragmentation gradient descent, given the typical pods"),
    (placement.EXPECTED_FILL, "the extender's: the node that loses least of what typical pods would still use"),
    ("expected-fill-learned", "the same, learning the typical pods from arrivals"),
    ("dra-first-fit", "what kube-scheduler does with claims by itself: most CPU and memory left, first card that fits"),
    *(
        (policy.name, f"the extender's, which sees cards alone: {policy.nodes}")
        for policy in placement.POLICIES.values()
        if policy.name != placement.EXPECTED_FILL
    ),
)
"""What can be compared; ``policies`` makes them."""
DEFAULT_POLICIES = ("random", "dot-product", "clustering", "packing", "best-fit", "fgd", "expected-fill")


class Order(enum.Enum):
    """In which order the trace's own pods arrive; what is sampled beyond them comes last either way."""

    SHUFFLED = "shuffled"
    TRACE = "trace"


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
    order: Order = setting(
        parsers.choice(Order),
        default=Order.SHUFFLED,
        help="The order in which the pods arrive: shuffled by the seed, or that of the file. Without --churn.",
    )
    cards_alone: bool = setting(
        parsers.boolean(),
        default=False,
        help="Ask the policies about pods with cards alone, as kube-scheduler asks the extender. The others go where "
        "it places them by default: to the node with the largest share of CPU and memory free.",
    )


@settings
class WhatIfSettings:
    """What if."""

    node_mix: tuple[str, ...] = setting(
        parsers.comma_list(parsers.text("MODEL=COUNT", accepted="MODEL=COUNT")),
        default=(),
        help="Other nodes: so many of each model, each like the model's most frequent node, such as G2=100,T4=20.",
    )
    granularity: int | None = setting(
        parsers.optional(parsers.integer(1, 1_000_000), "as asked for"),
        default=None,
        help="Another unit: every share is rounded up to a multiple of so many units (thousandths of a card in CSV).",
    )
    cards_needed: bool = setting(
        parsers.boolean(),
        default=False,
        help="Instead of comparing: how many nodes of this mix, and so how many cards, each policy needs to "
        "place every pod.",
    )
    pending: bool = setting(
        parsers.boolean(),
        default=False,
        help="Instead of comparing: how many more nodes the waiting pods of the cluster need, beyond the room of its "
        "present nodes. Pods are placed card by card, on paper.",
    )
    node_like: str | None = setting(
        parsers.optional_text("NODE", "every class of the cluster's nodes", "a node's name, or a class such as 8x48"),
        default=None,
        help="With --pending: count nodes like this one, or of a class: CARDSxUNITS, such as 8x48 or 8x48:MODEL.",
    )
    pending_pods: str | None = setting(
        parsers.optional_text("NAMESPACE[/POD]", "all waiting pods"),
        default=None,
        help="With --pending: count for this namespace's pods, or for one pod.",
    )


@settings
class ChurnSettings:
    """Pods that end."""

    churn: float | None = setting(
        parsers.optional(parsers.number(0.1, 1000.0, "LIFETIMES"), "pods stay"),
        default=None,
        help="Let pods end: they live one lifetime on average (exponentially distributed), arrive so that --load of "
        "all cards is asked for at any time, and wait while they do not fit; the clock runs for so many lifetimes.",
    )
    large: int = setting(
        parsers.integer(1, 64), default=8, help="With --churn: whole cards from which a pod counts as large."
    )


@settings
class SimulateSettings:
    """Simulation."""

    policy: tuple[str, ...] = setting(
        parsers.comma_list(replace(parsers.one_of(*(name for name, _ in POLICIES)), metavar="POLICY")),
        default=DEFAULT_POLICIES,
        help="The policies to compare; see below.",
    )
    seed: int = setting(parsers.integer(0, 2**31), default=42, help="The first seed; others follow it.")
    seeds: int = setting(
        parsers.integer(1, 1000),
        default=1,
        help="How many workloads, each by its own seed. With --cards-needed the first alone.",
    )
    jobs: int = setting(
        parsers.integer(1, 1024), default=2, help="Processes that simulate at the same time; two suit most laptops."
    )
    output: TextOrJson = text_or_json_flag("text for people, json with every run.")
    svg: Path | None = setting(
        parsers.optional_file("none"), default=None, help="Draw the curves of the first seed into this SVG file."
    )
    png: Path | None = setting(
        parsers.optional_file("none"), default=None, help="The same as PNG; needs Pillow (gcushare[pictures])."
    )
    source: SourceSettings = group(SourceSettings)
    what_if: WhatIfSettings = group(WhatIfSettings)
    churn: ChurnSettings = group(ChurnSettings)
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """Both files, policies, and one question at a time."""
        what_if, is_compared = self.what_if, self.source.from_cluster or self.source.nodes or self.source.pods
        if what_if.pending:
            if is_compared or self.churn.churn is not None or what_if.cards_needed or self.svg or self.png:
                yield "pending is a question of its own: leave out other sources, churn, cards-needed, svg and png"
            return
        if what_if.node_like is not None or what_if.pending_pods is not None:
            yield "node-like and pending-pods need pending"
        has_files = self.source.nodes is not None and self.source.pods is not None
        if self.source.from_cluster and (self.source.nodes is not None or self.source.pods is not None):
            yield "from-cluster and files are two sources: name one"
        if not self.source.from_cluster and not has_files:
            yield "nodes and pods are both needed: name two CSV files, or use --from-cluster"
        if not self.policy:
            yield f"policy is empty: name some of {', '.join(name for name, _ in POLICIES)}"
        if self.churn.churn is not None and self.source.load is None:
            yield "churn needs load: how much of all cards is asked for at any time, such as 90%"
        if self.churn.churn is not None and self.what_if.cards_needed:
            yield "churn and cards-needed are two questions: ask one"
        if (self.svg or self.png) and (self.churn.churn is not None or self.what_if.cards_needed):
            yield "svg and png draw a comparison: leave out churn and cards-needed"
        for word in self.what_if.node_mix:
            model, equals, count = word.partition("=")
            if not (model and equals and count.isdecimal()):
                yield f"node-mix {word!r} must be MODEL=COUNT"


SIMULATE_PROGRAM = Program(
    name=SIMULATE,
    summary="Place a workload on a cluster by each policy and compare what they waste, without touching a cluster. "
    "Cards are counted and granted by the code that the scheduler extender uses.",
    version=__version__,
    settings=SimulateSettings,
    examples=(
        (f"{SIMULATE} --nodes nodes.csv --pods pods.csv --load 130%", "which policy fills the cluster best"),
        (f"{SIMULATE} --nodes nodes.csv --pods pods.csv --policy binpack,expected-fill --svg a.svg", "with a picture"),
        (f"{SIMULATE} --nodes nodes.csv --pods pods.csv --cards-needed", "how many cards these pods need"),
        (f"{SIMULATE} --pending --node-like node-1", "how many nodes like node-1 the waiting pods need"),
        (f"{SIMULATE} --nodes nodes.csv --pods pods.csv --load 90% --churn 2", "how long large pods wait"),
    ),
    legends=(("Policies", POLICIES),),
    notes="Percentages are of all card units: allocated is what pods hold at the end, partial what is free on cards in "
    "use, idle on others. docs/packing.md says what was measured and how.",
)
