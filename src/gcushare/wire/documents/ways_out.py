"""The way out for a pod that can never fit: what its author or an admin could change, with numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcushare.core.explain.reasons import Verdict
from gcushare.wire.annotations.keys import CARDS
from gcushare.wire.pods import MAX_CARDS_PER_POD

if TYPE_CHECKING:
    from gcushare.wire.documents.explain import ExplainDocument, RequestDocument


def describe_ways_out(document: ExplainDocument) -> str:
    """Say in one sentence what would make it fit; empty for a pod that can fit as it is."""
    request = document.request
    if request is None or document.can_ever_fit is not False:
        return ""
    ways = [*_smaller(request, document.largest_that_ever_fits or 0), *_spread(document, request), _larger(request)]
    return f"what would help: {', or '.join(ways)}"


def _smaller(request: RequestDocument, largest: int) -> list[str]:
    if not largest:
        return []
    if request.whole:
        return [f"ask for at most {largest} whole card{'s' if largest > 1 else ''}"]
    each = "" if request.cards == 1 else f" in each of {request.cards} cards"
    return [f"ask for at most {largest}{each}"]


def _spread(document: ExplainDocument, request: RequestDocument) -> list[str]:
    """Name the fewest cards of one node that would hold the request together; nothing where no node has as many."""
    if request.whole:
        return []
    total = request.units * request.cards
    for cards in range(request.cards + 1, MAX_CARDS_PER_POD + 1):
        each = -(-total // cards)
        if not any(_has_cards(found.cards, cards, each) for found in document.classes if _is_too_small(found.reason)):
            continue
        asked = f" and ask for {each * cards}" if each * cards != total else ""
        return [f'annotate the pod with {CARDS}: "{cards}"{asked}: {each} in each of {cards} cards of one node']
    return []


def _is_too_small(reason: str) -> bool:
    return reason == Verdict.TOO_SMALL.value


def _has_cards(sizes: tuple[int, ...], count: int, units: int) -> bool:
    return sum(size >= units for size in sizes) >= count


def _larger(request: RequestDocument) -> str:
    if request.whole:
        return f"add a node with {request.cards} cards that its plugin serves whole"
    if request.cards > 1:
        return f"add a node with {request.cards} cards of {request.units} or more"
    return f"add a node with a card of {request.units} or more"
