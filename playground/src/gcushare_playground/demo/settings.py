"""What ``gcushare demo`` can be set to do."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from gcushare.core.units import GIB
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, setting, settings
from gcushare.vendors import DEFAULT_VENDOR, VENDORS_BY_NAME
from gcushare_playground.plans import ClusterPlan, NodePlan
from gcushare_playground.scheduler import UNSCHEDULABLE_S

NAME = "gcushare demo"


class ScenarioName(enum.Enum):
    """What is played."""

    VENDOR = "vendor"
    WHOLE = "whole-and-shared"
    CLAIMS = "claims"
    IDLE = "idle"
    APART = "apart-and-linked"
    UNIFIED = "unified-memory"


_NVIDIA = "aliyun"
_CARD_BYTES = {_NVIDIA: 59 * GIB // 4}
_CARD_BYTES_OF_OTHERS = 16 * GIB
"""The manual's."""
_CARDS = {(ScenarioName.VENDOR, "enflame"): 8, (ScenarioName.CLAIMS, "enflame"): 8, (ScenarioName.VENDOR, _NVIDIA): 1}
_CARDS_OF_OTHERS = {ScenarioName.IDLE: 3, ScenarioName.UNIFIED: 1}
_SEVERAL_CARDS = 4
"""Where several cards are needed and no other number is given: two pairs of linked cards, too."""
_UNIFIED_BYTES = 96 * GIB
"""What an admin lets a card offer that has no memory of its own, of a machine with 128 GB."""
IDLE_S = 6
"""The seconds that stand for hours where idle is played."""
_IDLE_FLAGS = ("--idle", "evict", "--idle-after", f"{IDLE_S}s", "--idle-least-age", "0")
_MODELS = {"enflame": "T20", _NVIDIA: "Tesla T4"}
_KEPT_BY_DRIVER = {_NVIDIA: 450 << 20}
"""Of a T4, as its users measured it; what is left below a unit covers it."""


@settings
class DemoSettings:
    """The cluster."""

    # None of the variables is one that the programs read: what is exported for them must not change the demo.

    vendor: str = setting(
        parsers.one_of(*VENDORS_BY_NAME),
        default=DEFAULT_VENDOR.name,
        env="GCUSHARE_DEMO_VENDOR",
        help="Whose words and scenario: the Enflame manual's chapter 4, or one T4 shared by a class of students.",
    )
    scenario: ScenarioName = setting(
        parsers.choice(ScenarioName),
        default=ScenarioName.VENDOR,
        env="GCUSHARE_DEMO_SCENARIO",
        help="What is played: the vendor's own scenario, or whole-and-shared: pods that share cards by memory, "
        "and pods that want whole cards; or claims: the manual's pods, unchanged, on a node whose cards Kubernetes "
        "itself shares among claims; or idle: a pod that does not use its card gives it back to one that waits; or "
        "apart-and-linked: replicas that share no card, and a pod over two cards that are linked; or unified-memory: "
        "pods on a card without memory of its own, such as NVIDIA's GB10.",
    )
    keep: bool = setting(
        parsers.boolean(),
        default=False,
        env="GCUSHARE_DEMO_KEEP",
        help="Leave the cluster running at the end, and print how to play with it; Ctrl-C ends it.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """Only NVIDIA has cards of every kind that is played."""
        if self.scenario is ScenarioName.UNIFIED and self.vendor != _NVIDIA:
            yield (
                f"scenario {self.scenario.value!r} with vendor {self.vendor!r}: only NVIDIA has cards without memory "
                f"of their own; give --vendor {_NVIDIA}"
            )

    def plan(self) -> ClusterPlan:
        """The cluster on which the scenario is played; its node carries no label yet."""
        vendor, scenario = VENDORS_BY_NAME[self.vendor], self.scenario
        is_unified, is_claims = scenario is ScenarioName.UNIFIED, scenario is ScenarioName.CLAIMS
        card_bytes = _UNIFIED_BYTES if is_unified else _CARD_BYTES.get(vendor.name, _CARD_BYTES_OF_OTHERS)
        count = _CARDS.get((scenario, vendor.name)) or _CARDS_OF_OTHERS.get(scenario, _SEVERAL_CARDS)
        flags: tuple[str, ...] = _IDLE_FLAGS if scenario is ScenarioName.IDLE else ()
        if is_unified:
            flags = ("--unified-memory", str(card_bytes))
        node = NodePlan(
            name="node-1",
            card_bytes=(card_bytes,) * count,
            model="GB10" if is_unified else _MODELS.get(vendor.name, "simulated"),
            is_unified=is_unified,
            driver_bytes=0 if is_unified else _KEPT_BY_DRIVER.get(vendor.name, 0),
            link_groups=("first", "first", "second", "second") if scenario is ScenarioName.APART else (),
        )
        return ClusterPlan(
            nodes=(node,),
            vendor=vendor,
            whole_cards=scenario is ScenarioName.WHOLE,
            labels_nodes=False,
            wait_factor=0.2,
            # The cards begin to tell their use at the end: that is seen within a moment.
            plugin_flags=("--poll-interval", "0.5", *flags),
            pod_use=scenario is ScenarioName.IDLE,
            extender_flags=(
                "--no-leader-elect",
                *(("--verbs", "off", "--claims", "--memory-unit", vendor.default_unit) if is_claims else ()),
            ),
            unschedulable_s=1.0 if is_claims else UNSCHEDULABLE_S,
        )


PROGRAM = Program(
    name=NAME,
    summary="Play the whole system on this machine, without a cluster: the real device plugin and scheduler extender "
    "with simulated cards, between doubles of the API server, the scheduler and the kubelet. Pods are created step by "
    "step; every step is shown and checked.",
    settings=DemoSettings,
    examples=(
        (NAME, "the manual's chapter 4: one node, 8 cards of 16 GB"),
        (f"{NAME} --vendor aliyun", "a Deployment and a second pod on one T4"),
        (f"{NAME} --scenario whole-and-shared", "whole and shared cards, on one node"),
        (f"{NAME} --scenario claims", "the manual's pods through Dynamic Resource Allocation"),
        (f"{NAME} --scenario idle", "a forgotten notebook gives its card back"),
        (f"{NAME} --scenario apart-and-linked", "replicas on different cards, and a pod over linked ones"),
        (f"{NAME} --scenario unified-memory --vendor aliyun", "a card that takes its memory from the machine's"),
        (f"{NAME} --keep", "go on with kubectl and curl afterwards"),
    ),
    notes="Everything listens on 127.0.0.1 and keeps its files in a temporary directory that is removed at the end.",
)
