"""What would help a pod that can never fit: changes of its request, each tried on the nodes as they would be empty."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from gcushare.core.cards import BOTH_MODES, MAX_CARDS, InventoryCard
from gcushare.core.explain.explanation import MAX_EXAMPLES, Explanation
from gcushare.core.explain.verdicts import UNSERVED, Verdict
from gcushare.core.nodes import NodeState
from gcushare.core.requests import CardRequest, CardSelection


class Change(enum.Enum):
    """What is changed."""

    AMOUNT = "units, or the number of whole cards"
    CARDS = "over how many cards the memory is divided, perhaps with a larger amount"
    LIMIT = "the limit of memory"
    SELECTION = "which cards the pod allows"
    LINKS = "whether the cards have to be linked with each other"
    RULES = "where the pod may run: nodes that its rules exclude could hold it"
    NODE = "the cluster: a node is added for the request as it is"


@dataclass(frozen=True, slots=True)
class WayOut:
    """One change, and the request after it, which a node can hold once its pods have ended.

    ``nodes``: of a change of rules, such nodes; ``obstacle``: the rule that keeps the pod off them.
    """

    change: Change
    request: CardRequest
    nodes: tuple[str, ...] = ()
    obstacle: str = ""


def find_ways_out(found: Explanation, divisor: int) -> list[WayOut]:
    """Find the changes that help; none for a request that can fit as it is, or on nodes whose cards are not known yet.

    ``divisor``: the largest number by which the amount of each of the pod's containers can be divided; 1 if the pod
    cannot have its memory on several cards.
    """
    if found.can_ever_fit or found.awaited:
        return []
    request, options = found.request, found.request.selection or CardSelection()
    nodes = [emptied(node) for node in found.kinds]

    def is_granted(changed: CardRequest) -> bool:
        return any(node.fits(changed) for node in nodes)

    tried = [WayOut(Change.AMOUNT, each) for each in _smaller(request, found.largest_ever)]
    several = next(filter(is_granted, _divided(request, divisor)), None)
    tried += [WayOut(Change.CARDS, several)] if several is not None else []
    sizes = sorted({card.units for node in nodes for card in node.present_cards}, reverse=True)
    lowered = (replace(request, selection=replace(options, limit=size)) for size in sizes if size >= request.units)
    lower = next(filter(is_granted, lowered), None) if request.limit else None
    tried += [WayOut(Change.LIMIT, lower)] if lower is not None else []
    if options.use or options.avoid:
        tried.append(WayOut(Change.SELECTION, replace(request, selection=replace(options, use=(), avoid=()))))
    if options.linked:
        tried.append(WayOut(Change.LINKS, replace(request, selection=replace(options, linked=False))))
    ways = [way for way in tried if is_granted(way.request)]
    excluded = max(found.of(Verdict.EXCLUDED), key=lambda each: (len(each.with_room), each.possible), default=None)
    if excluded is not None and excluded.possible:
        nodes_named = tuple(sorted(excluded.with_room) or excluded.examples)[:MAX_EXAMPLES]
        ways.append(WayOut(Change.RULES, request, nodes_named, excluded.obstacle))
    least = max(request.units, request.limit, 1)
    new = NodeState("new")
    new.set_cards(
        [
            InventoryCard(index=index, uuid="", memory_bytes=0, units=least, link_group="all")
            for index in range(MAX_CARDS)
        ],
        None,
        BOTH_MODES,
    )
    # Where nodes have such cards and give them to other requests alone, no further one is needed.
    is_served = found.most_cards or not UNSERVED & {each.verdict for each in found.tried}
    return [*ways, WayOut(Change.NODE, request)] if is_served and new.fits(request) else ways


def emptied(node: NodeState) -> NodeState:
    """A node as it is once every pod has ended and every closure of a card is over."""
    twin = NodeState(node.name)
    twin.set_cards((msgspec.structs.replace(card, closures=()) for card in node.present_cards), node.unit, node.modes)
    twin.is_odd = node.is_odd
    return twin


def _smaller(request: CardRequest, largest: int) -> Iterator[CardRequest]:
    if request.whole and 0 < largest < request.cards:
        yield replace(request, cards=largest)
    elif 0 < largest < request.units:
        yield replace(request, units=largest)


def _divided(request: CardRequest, divisor: int) -> Iterator[CardRequest]:
    """The request over more cards, the fewest first. One container's amount may be raised to divide it equally."""
    if request.whole or divisor <= 1:
        return
    total, limit = request.units * request.cards, request.limit * request.cards
    for cards in range(request.cards + 1, MAX_CARDS + 1):
        units = -(-total // cards)
        if (divisor % cards and divisor != total) or limit % cards or (limit and limit < units * cards):
            continue
        selection = request.selection
        if selection is not None and limit:
            selection = replace(selection, limit=0 if limit == units * cards else limit // cards)
        yield replace(request, units=units, cards=cards, selection=selection)
