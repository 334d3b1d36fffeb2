"""The way out for a pod that can never fit, and how its explanation names many cards."""

from __future__ import annotations

import pytest

from gcushare.core.explain.reasons import Explainer
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import PodRef
from gcushare.core.requests import CardRequest
from gcushare.wire.documents.explain import (
    ExplainDocument,
    RequestDocument,
    describe_ways_out,
    explain_waiting,
    render_explanation,
)
from tests.builders import GIB_UNIT, cards, held


def explained(request: CardRequest, *sizes: tuple[int, ...], ledger: Ledger | None = None) -> ExplainDocument:
    """What is said of a request in a cluster of nodes with these cards."""
    ledger = ledger or Ledger()
    for number, each in enumerate(sizes, start=1):
        ledger.set_node(f"node-{number}", cards(*each), GIB_UNIT, ("memory", "whole") if request.whole else ("memory",))
    explainer = Explainer(request)
    for node in ledger.nodes.values():
        explainer.add(node)
    asked = RequestDocument(request.units, request.cards, request.whole, "binpack", "binpack")
    divisor = request.units * request.cards
    return explain_waiting(PodRef("uid", "default", "huge"), asked, explainer.finish(), {}, divisor)


@pytest.mark.parametrize(
    ("request_", "sizes", "ways"),
    [
        pytest.param(
            CardRequest(20),
            [(16,) * 8],
            'ask for at most 16, or annotate the pod with gcushare.io/cards: "2": 10 in each of 2 cards of one node, '
            "or add a node with a card of 20 or more",
            id="two cards together",
        ),
        pytest.param(
            CardRequest(33),
            [(16, 16), (16, 16, 16)],
            'ask for at most 16, or annotate the pod with gcushare.io/cards: "3": 11 in each of 3 cards of one node, '
            "or add a node with a card of 33 or more",
            id="only one node has as many cards",
        ),
        pytest.param(
            CardRequest(17),
            [(16, 16)],
            'ask for at most 16, or annotate the pod with gcushare.io/cards: "2" and ask for 18: 9 in each of 2 cards '
            "of one node, or add a node with a card of 17 or more",
            id="what cards cannot share equally",
        ),
        pytest.param(
            CardRequest(40),
            [(16,), (16, 16)],
            "ask for at most 16, or add a node with a card of 40 or more",
            id="no node has enough in all",
        ),
        pytest.param(
            CardRequest(20, 2),
            [(16, 16, 16)],
            'ask for at most 16 in each of 2 cards, or annotate the pod with gcushare.io/cards: "3" and ask for 42: 14 '
            "in each of 3 cards of one node, or add a node with 2 cards of 20 or more",
            id="several cards, and still too much",
        ),
        pytest.param(
            CardRequest(0, 3, whole=True),
            [(16, 16)],
            "ask for at most 2 whole cards, or add a node with 3 cards that its plugin serves whole",
            id="whole cards",
        ),
    ],
)
def test_a_pod_that_can_never_fit_is_shown_the_way_out(
    request_: CardRequest, sizes: list[tuple[int, ...]], ways: str
) -> None:
    document = explained(request_, *sizes)
    assert document.can_ever_fit is False
    assert describe_ways_out(document) == f"what would help: {ways}"
    assert f"\n  what would help: {ways}\n" in render_explanation(document)


def test_a_pod_that_fits_once_others_end_needs_no_way_out() -> None:
    ledger = Ledger()
    ledger.set_node("node-1", cards(16), GIB_UNIT)
    ledger.apply(held("a", "node-1", (0, 10)))
    document = explained(CardRequest(8), ledger=ledger)
    assert document.can_ever_fit is True
    assert "what would help" not in render_explanation(document)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [((16,), "cards of 16:"), ((16,) * 8, "cards of 8 x 16:"), ((8, 8, 16), "cards of 2 x 8, 16:")],
)
def test_cards_of_one_size_are_counted_instead_of_listed(sizes: tuple[int, ...], words: str) -> None:
    assert f"1 node with {words} node-1" in render_explanation(explained(CardRequest(99), sizes))
