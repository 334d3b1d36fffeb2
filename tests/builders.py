"""Values for tests, built from the few words that matter to them."""

from __future__ import annotations

from typing import Any

from gcushare.core.assignments import ApartGroup, Assignment, CardGrant, PodRef
from gcushare.core.cards import Health, Inventory, InventoryCard
from gcushare.core.nodes import NodeState
from gcushare.core.over_use.tracking import Tolerance
from gcushare.core.placement import MAX_NODE_SCORE, POLICIES
from gcushare.core.requests import CardRequest, CardSelection
from gcushare.core.units import GIB, parse_memory_unit

GIB_UNIT = parse_memory_unit("GiB")
TOLERANCE = Tolerance(share_percent=5.0, least_bytes=GIB // 4)
"""How much above its grant a pod may be, as the flags set it by default."""


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


def asks(units: int, cards: int = 1, *, linked: bool = False, apart: ApartGroup | None = None) -> CardRequest:
    chosen = CardSelection(linked=linked, apart=apart) if linked or apart is not None else None
    return CardRequest(units, cards, selection=chosen)


def asks_whole(cards: int = 1) -> CardRequest:
    return CardRequest(0, cards, whole=True)


def node_score(node: NodeState, request: CardRequest, policy: str) -> int:
    """A node's score as the scheduler takes it, worked out plainly."""
    return round(MAX_NODE_SCORE * POLICIES[policy].score_node(node, request)) if node.fits(request) else 0
