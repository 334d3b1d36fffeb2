"""The order of cards that a pod's author writes: it decides before the policy, on a card, a node and in the index."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from gcushare.core.change_log import ChangeLog
from gcushare.core.explain.reason_text import describe_shortage
from gcushare.core.fit_index import FitIndex, Shape
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES, choose_cards
from gcushare.core.requests import STRONGEST, CardRequest, CardSelection
from tests.builders import GIB_UNIT, asks, asks_whole, card, held


def wants(request: CardRequest, *use: str) -> CardRequest:
    return replace(request, selection=CardSelection(use))


def mixed(*grants: tuple[int, int]) -> NodeState:
    """T4, A100, H200, A100 by index."""
    state = NodeState("n")
    models = [("T4", 16), ("A100", 80), ("H200", 141), ("A100", 80)]
    offered = [card(index, units, model=model) for index, (model, units) in enumerate(models)]
    state.set_cards(offered, GIB_UNIT, ("memory", "whole"))
    for number, grant in enumerate(grants):
        state.add(held(f"p{number}", "n", grant))
    return state


def chosen(state: NodeState, request: CardRequest, policy: str = "binpack") -> list[int] | None:
    found = choose_cards(state, request, POLICIES[policy].rank_card)
    return None if found is None else [each.index for each in found]


@pytest.mark.parametrize("policy", ["binpack", "spread"])
@pytest.mark.parametrize(
    ("use", "units", "expected"),
    [
        pytest.param(("H200", "A100"), 8, 2, id="the first model that has room"),
        pytest.param(("T4", "H200"), 17, 2, id="the next where the first is too small"),
        pytest.param((STRONGEST,), 8, 2, id="the strongest"),
    ],
)
def test_the_authors_order_decides_before_the_policy(
    policy: str, use: tuple[str, ...], units: int, expected: int
) -> None:
    assert chosen(mixed((1, 40)), wants(asks(units), *use), policy) == [expected]


def test_the_policy_decides_among_cards_of_one_model() -> None:
    state = mixed((3, 8), (2, 141))
    assert chosen(state, wants(asks(4), "H200", "A100"), "binpack") == [3]
    assert chosen(state, wants(asks(4), "H200", "A100"), "spread") == [1]


def test_a_list_of_indexes_or_uuids_has_no_order() -> None:
    state = mixed((1, 40))
    assert not CardSelection(("3", "1")).is_ordered
    assert chosen(state, wants(asks(4), "3", "1")) == [1]
    uuids = [f"GPU-{number}8a3b11c-0d4e-4f00-8000-00000000000{number}" for number in range(4)]
    renamed = [msgspec.structs.replace(c, uuid=uuids[c.index]) for c in state.present_cards]
    state.set_cards(renamed, GIB_UNIT, ("memory",))
    assert chosen(state, wants(asks(4), uuids[3], uuids[1])) == [1]
    assert chosen(state, wants(asks(4), uuids[3], "1")) == [1]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        pytest.param(("A100", "0"), [1, 3, 0], id="models first"),
        pytest.param(("2", "0", "A100"), [0, 2, 1, 3], id="indexes side by side are equal"),
        pytest.param(("2", "A100", "0"), [2, 1, 3, 0], id="a model between indexes"),
        pytest.param(("3", "A100"), [3, 1], id="the first entry that names a card counts"),
        pytest.param(("uuid-0", "H200", "uuid-1"), [0, 2, 1], id="a uuid of any form among models"),
    ],
)
def test_a_mixed_list_is_in_the_order_in_which_it_is_written(use: tuple[str, ...], expected: list[int]) -> None:
    found, state = [], mixed()
    while (card := chosen(state, wants(asks(16), *use))) is not None:
        found += card
        state.add(held(f"on-{card[0]}", "n", (card[0], state.cards[card[0]].total)))
    assert found == expected


def test_several_cards_are_the_most_preferred_ones_that_are_enough() -> None:
    state = mixed()
    assert chosen(state, wants(asks(4, cards=2), "H200", "A100")) == [1, 2]
    assert chosen(state, wants(asks_whole(2), STRONGEST)) == [1, 2]
    assert chosen(state, wants(asks_whole(1), "H200", "T4")) == [2]


def test_strongest_allows_every_card_and_takes_what_is_left() -> None:
    assert chosen(mixed((1, 80), (2, 141), (3, 80)), wants(asks(4), STRONGEST)) == [0]


@pytest.mark.parametrize(
    ("selection", "excludes"),
    [
        (None, False),
        (CardSelection((STRONGEST,)), False),
        (CardSelection((STRONGEST,), ("T4",)), True),
        (CardSelection(("T4",)), True),
        (CardSelection(avoid=("0",)), True),
    ],
)
def test_only_a_pod_that_excludes_cards_is_explained_by_the_cards_that_it_allows(
    selection: CardSelection | None, excludes: bool
) -> None:
    request = replace(asks(17), selection=selection)
    assert request.excludes_cards is excludes
    state = NodeState("n")
    state.set_cards([card(0, 16, model="A100"), card(1, 16, model="T4")], GIB_UNIT)
    assert ("among the cards that the pod allows" in describe_shortage(state, request)) is excludes


def ranked(request: CardRequest, policy: str) -> list[str]:
    """The names of nodes that fit, best first."""
    ledger = Ledger()
    for name, model, gib in (("a-t4", "T4", 16), ("b-a100", "A100", 80), ("c-h200", "H200", 141)):
        ledger.set_node(name, [card(0, gib, model=model)], GIB_UNIT)
    index = FitIndex(ledger.nodes, ChangeLog(ledger), Shape(request, policy))
    index.refresh()
    return index.best(set(ledger.nodes), 9)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize(
    ("use", "expected"),
    [
        pytest.param(("H200", "A100"), ["c-h200", "b-a100"], id="list"),
        pytest.param(("T4", "H200", "A100"), ["a-t4", "c-h200", "b-a100"], id="another list"),
        pytest.param((STRONGEST,), ["c-h200", "b-a100", "a-t4"], id="strongest"),
    ],
)
def test_nodes_are_ordered_as_their_cards_are(policy: str, use: tuple[str, ...], expected: list[str]) -> None:
    assert ranked(wants(asks(4), *use), policy) == expected


def test_scores_stay_between_zero_and_one_and_the_order_outweighs_any_policy() -> None:
    selection = CardSelection(("H200", "A100", "T4"))
    scores = [selection.weigh(preference, score) for preference in (-2, -1, 0) for score in (0.0, 1.0)]
    assert scores == sorted(scores)
    assert scores[0] == 0.0
    assert scores[-1] < 1.0
