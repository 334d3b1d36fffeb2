"""What ``gcushare demo`` can be set to do."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gcushare.cards.simulated.file import parse_size
from gcushare.core.cards import MAX_CARDS
from gcushare.core.errors import Refused
from gcushare.core.units import GIB, MEMORY_UNIT_NAMES, MemoryUnit, parse_memory_unit
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, setting, settings
from gcushare.runtime.settings.parsers import Parser
from gcushare.vendors import DEFAULT_VENDOR, VENDORS_BY_NAME, Vendor
from gcushare.wire.kubelet.device_ids import check_fits_kubelet
from gcushare_playground.plans import ClusterPlan, NodePlan
from gcushare_playground.scheduler import UNSCHEDULABLE_S

NAME = "gcushare demo"
MAX_NODES = 32
"""Each node is a process; more would take longer than a minute on a small machine."""


class ScenarioName(enum.Enum):
    """What is played."""

    VENDOR = "vendor"
    WHOLE = "whole-and-shared"
    CLAIMS = "claims"
    IDLE = "idle"
    APART = "apart-and-linked"
    UNIFIED = "unified-memory"


@dataclass(frozen=True, slots=True)
class CardSet:
    """The cards of one node: how many, of how many bytes each."""

    count: int
    memory_bytes: int

    def __str__(self) -> str:
        return f"{self.count}x{_size_text(self.memory_bytes)}"


_NVIDIA = "aliyun"
_CARDS = {_NVIDIA: CardSet(1, 59 * GIB // 4)}
_CARDS_OF_OTHERS = CardSet(8, 16 * GIB)
"""The manual's."""
_WHOLE_CARDS = 4
"""Cards of the node on which whole-and-shared is played, and claims of a vendor that has one card otherwise."""
APART_CARDS = 4
"""Of the node on which apart-and-linked is played: two pairs of linked cards."""
_UNIFIED_CARDS = CardSet(1, 96 * GIB)
"""What an admin lets a card offer that has no memory of its own, of a machine with 128 GB."""
IDLE_CARDS, IDLE_S = 3, 6
"""Of the node on which idle is played, and the seconds that stand for hours there."""
_LEAST_CARDS = {ScenarioName.WHOLE: 3, ScenarioName.CLAIMS: 2}
_EXACT_CARDS = {ScenarioName.IDLE: IDLE_CARDS, ScenarioName.APART: APART_CARDS}
"""Of the one node on which these are played."""
IDLE_FLAGS = ("--idle", "evict", "--idle-after", f"{IDLE_S}s", "--idle-least-age", "0")
_MODELS = {"enflame": "T20", _NVIDIA: "Tesla T4"}
_KEPT_BY_DRIVER = {_NVIDIA: 450 << 20}
"""Of a T4, as its users measured it; what is left below a unit covers it."""


def _size_text(memory_bytes: int) -> str:
    return f"{memory_bytes / GIB:g}GiB"


def _card_set() -> Parser[CardSet | None]:
    def parse(raw: str) -> CardSet | None:
        if not raw:
            return None
        match = re.fullmatch(r"(\d{1,3})(?:x(.+))?", raw)
        if match is None:
            raise ValueError("neither a number of cards nor COUNTxSIZE")
        count = int(match[1])
        if not 1 <= count <= MAX_CARDS:
            raise ValueError(f"not 1 to {MAX_CARDS} cards")
        size = parse_size(match[2]) if match[2] else 16 * GIB
        if size < GIB:
            raise ValueError("cards of less than 1GiB")
        return CardSet(count, size)

    def show(cards: CardSet | None) -> str:
        return "" if cards is None else str(cards)

    return Parser("CARDS", f"1 to {MAX_CARDS}, or COUNTxSIZE such as 8x32GiB, or empty (the vendor's)", parse, show)


def _unit() -> Parser[str]:
    known = parsers.one_of(*MEMORY_UNIT_NAMES)
    return Parser("UNIT", f"{known.accepted}, or empty (the vendor's)", lambda raw: known.parse(raw) if raw else "")


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
    nodes: int = setting(
        parsers.integer(1, MAX_NODES),
        default=1,
        env="GCUSHARE_DEMO_NODES",
        help="How many nodes; each has a kubelet and a device plugin.",
    )
    cards: CardSet | None = setting(
        _card_set(),
        default=None,
        env="GCUSHARE_DEMO_CARDS",
        help="Simulated cards of each node. Without it 8x16GiB for enflame, 1x14.75GiB (a T4) for aliyun; 4 of them "
        "for whole-and-shared, and for claims of aliyun.",
    )
    memory_unit: str = setting(
        _unit(),
        default="",
        env="GCUSHARE_DEMO_MEMORY_UNIT",
        help="What 1 in a pod's request stands for. Without it 1 (GB) for enflame, GiB for aliyun.",
    )
    keep: bool = setting(
        parsers.boolean(),
        default=False,
        env="GCUSHARE_DEMO_KEEP",
        help="Leave the cluster running at the end, and print how to play with it; Ctrl-C ends it.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """The cards must be enough for the scenario, and their units few enough for the kubelet."""
        cards, unit = self.card_set(), self.unit()
        played_on = (
            f"scenario {self.scenario.value!r} with nodes {self.nodes} and cards {str(cards)!r}: it is played on 1"
        )
        least = _LEAST_CARDS.get(self.scenario, 0)
        if least and (self.nodes != 1 or cards.count < least):
            yield f"{played_on} node of at least {least} cards; leave nodes out and give more cards"
        exactly = _EXACT_CARDS.get(self.scenario, 0)
        if exactly and (self.nodes != 1 or cards.count != exactly):
            yield f"{played_on} node of {exactly} cards; leave both out"
        if self.scenario is ScenarioName.UNIFIED and self.vendor != _NVIDIA:
            yield (
                f"scenario {self.scenario.value!r} with vendor {self.vendor!r}: only NVIDIA has cards without memory "
                f"of their own; give --vendor {_NVIDIA}"
            )
        elif self.vendor not in _CARDS and cards.count * self.nodes < 2:
            yield f"cards {str(cards)!r} with nodes {self.nodes}: the scenario needs 2 cards; give more of either"
        if unit.units_in(cards.memory_bytes) < 4:
            yield f"cards {str(cards)!r} have less than 4 units of {unit.label}; give larger cards or a finer unit"
        if self.scenario is ScenarioName.CLAIMS:
            return  # slices have no limit of units
        try:
            check_fits_kubelet(dict.fromkeys(range(cards.count), unit.units_in(cards.memory_bytes)))
        except Refused as refusal:
            yield f"memory-unit {unit.name!r} with cards {str(cards)!r}: {refusal}; give a coarser unit or fewer cards"

    def words(self) -> Vendor:
        """The vendor's words."""
        return VENDORS_BY_NAME[self.vendor]

    def unit(self) -> MemoryUnit:
        """The unit in which memory is granted."""
        return parse_memory_unit(self.memory_unit or self.words().default_unit)

    def card_set(self) -> CardSet:
        """The cards of each node."""
        own = _CARDS.get(self.vendor, _CARDS_OF_OTHERS)
        if exactly := _EXACT_CARDS.get(self.scenario):
            return self.cards or CardSet(exactly, own.memory_bytes)
        if self.scenario is ScenarioName.UNIFIED:
            return self.cards or _UNIFIED_CARDS
        needs_several = self.scenario is not ScenarioName.VENDOR and own.count < _WHOLE_CARDS
        if self.scenario is ScenarioName.WHOLE or needs_several:
            own = CardSet(_WHOLE_CARDS, own.memory_bytes)
        return self.cards or own

    def plan(self) -> ClusterPlan:
        """The cluster that these settings describe; its nodes carry no label yet."""
        cards, vendor = self.card_set(), self.words()
        is_claims, is_unified = self.scenario is ScenarioName.CLAIMS, self.scenario is ScenarioName.UNIFIED
        flags: tuple[str, ...] = IDLE_FLAGS if self.scenario is ScenarioName.IDLE else ()
        if is_unified:
            flags = ("--unified-memory", str(cards.memory_bytes))
        nodes = tuple(
            NodePlan(
                name=f"node-{number}",
                card_bytes=(cards.memory_bytes,) * cards.count,
                model="GB10" if is_unified else _MODELS.get(vendor.name, "simulated"),
                is_unified=is_unified,
                driver_bytes=0 if is_unified else _KEPT_BY_DRIVER.get(vendor.name, 0),
                link_groups=("first", "first", "second", "second") if self.scenario is ScenarioName.APART else (),
            )
            for number in range(1, self.nodes + 1)
        )
        return ClusterPlan(
            nodes=nodes,
            vendor=vendor,
            memory_unit=self.unit().name,
            whole_cards=self.scenario is ScenarioName.WHOLE,
            labels_nodes=False,
            wait_factor=0.2,
            # The cards begin to tell their use at the end: that is seen within a moment.
            plugin_flags=("--poll-interval", "0.5", *flags),
            pod_use=self.scenario is ScenarioName.IDLE,
            extender_flags=(
                "--no-leader-elect",
                *(("--verbs", "off", "--claims", "--memory-unit", self.unit().name) if is_claims else ()),
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
        (f"{NAME} --nodes 3 --cards 4x32GiB --memory-unit 0.1", "another cluster, tenths of a GB"),
        (f"{NAME} --keep", "go on with kubectl and curl afterwards"),
    ),
    notes="Everything listens on 127.0.0.1 and keeps its files in a temporary directory that is removed at the end.",
)
