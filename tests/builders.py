"""Values for tests, built from the few words that matter to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from gcushare.core.assignments import ApartGroup, Assignment, CardGrant, PodRef
from gcushare.core.cards import BOTH_MODES, Health, Inventory, InventoryCard
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.over_use.eviction import CardReading, Offender
from gcushare.core.over_use.tracking import PolledUse, Tolerance
from gcushare.core.placement import MAX_NODE_SCORE, POLICIES
from gcushare.core.requests import CardRequest, CardSelection
from gcushare.core.units import GIB, parse_memory_unit

GIB_UNIT = parse_memory_unit("GiB")
TOLERANCE = Tolerance(share_percent=5.0, least_bytes=GIB // 4)
"""How much above its grant a pod may be, as the flags set it by default."""


T = TypeVar("T")
WEB, API = ApartGroup("default", "app", "web"), ApartGroup("default", "app", "api")


def card(index: int, units: int = 16, *, sick: bool = False, link: str = "", **more: Any) -> InventoryCard:
    health = Health.UNHEALTHY if sick else Health.HEALTHY
    facts: dict[str, Any] = {"uuid": f"uuid-{index}", "memory_bytes": units * GIB, "units": units, "link_group": link}
    return InventoryCard(index=index, health=health, **(facts | more))


def cards(*units: int) -> list[InventoryCard]:
    return [card(index, size) for index, size in enumerate(units)]


def inventory(*offered: int | InventoryCard, unit: str = "1") -> Inventory:
    """What a node offers: these cards, or healthy ones of these sizes."""
    shown = (card(index, each) if isinstance(each, int) else each for index, each in enumerate(offered))
    return Inventory(unit=parse_memory_unit(unit), cards=tuple(shown))


def pod(name: str, *, namespace: str = "default", created: str = "") -> PodRef:
    return PodRef(f"uid-{name}", namespace, name, created)


def held(name: str, node: str, *grants: tuple[int, int], whole: bool = False) -> Assignment:
    """What a pod holds: (card index, units) pairs."""
    return Assignment(pod(name), node, tuple(CardGrant(index, units, whole) for index, units in grants))


def node_of(
    offered: Sequence[InventoryCard], *holders: tuple[int, int], modes: Sequence[str] = BOTH_MODES, name: str = "node-1"
) -> NodeState:
    """A node with these cards, and a pod for each (card index, units); the pods have the node's name and a number."""
    ledger = Ledger()
    ledger.set_node(name, offered, GIB_UNIT, modes)
    for number, grant in enumerate(holders):
        ledger.apply(held(f"{name}-{number}", name, grant))
    return ledger.nodes[name]


def offender(name: str = "greedy", used: float = 8, *, limit: int = 0, priority: int = 0, card: int = 0) -> Offender:
    """A pod that uses so many GiB of a card and was granted four."""
    figures = PolledUse(int(used * GIB), 4 * GIB, limit=limit * GIB)
    return Offender(PodRef(f"uid-{name}", "default", name, priority=priority), card, figures)


def read_card(
    *offenders: Offender, memory: int = 16, neighbour: tuple[float, int] = (2, 8), index: int = 0
) -> CardReading:
    """A card with these pods and one neighbour: what it uses and what it was granted."""
    used, granted = neighbour
    figures = {each.pod.uid: each.figures for each in offenders} | {"n": PolledUse(int(used * GIB), granted * GIB)}
    in_use = sum(each.used for each in figures.values())
    return CardReading(index=index, memory=memory * GIB, in_use=in_use, unknown=0, figures=figures)


def asks(units: int, cards: int = 1, *, linked: bool = False, apart: ApartGroup | None = None) -> CardRequest:
    chosen = CardSelection(linked=linked, apart=apart) if linked or apart is not None else None
    return CardRequest(units, cards, selection=chosen)


def asks_whole(cards: int = 1) -> CardRequest:
    return CardRequest(0, cards, whole=True)


def node_score(node: NodeState, request: CardRequest, policy: str) -> int:
    """A node's score as the scheduler takes it, worked out plainly."""
    return round(MAX_NODE_SCORE * POLICIES[policy].score_node(node, request)) if node.fits(request) else 0


def present(value: T | None) -> T:
    """A value that has to be there."""
    assert value is not None
    return value
