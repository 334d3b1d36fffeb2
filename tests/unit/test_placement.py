import pytest

from gcushare.core.cards import InventoryCard
from gcushare.core.nodes import NodeState
from gcushare.core.placement import CARD_POLICIES, NODE_POLICIES, choose_cards, score_node
from gcushare.core.requests import CardRequest, CardSelection
from tests.builders import GIB_UNIT, asks, asks_whole, card, cards, held


def node(offered: list[InventoryCard], *grants: tuple[int, int], name: str = "n") -> NodeState:
    state = NodeState(name)
    state.set_cards(offered, GIB_UNIT)
    for number, grant in enumerate(grants):
        state.add(held(f"p{number}", name, grant))
    return state


def chosen(state: NodeState, request: CardRequest, policy: str) -> list[int] | None:
    states = choose_cards(state, request, CARD_POLICIES[policy])
    return None if states is None else [s.index for s in states]


@pytest.mark.parametrize(
    ("policy", "units", "expected"),
    [
        pytest.param("binpack", 4, [1], id="binpack takes the fullest card that fits"),
        pytest.param("binpack", 5, [0], id="and the next fullest when that is too full"),
        pytest.param("binpack", 16, [2], id="and the lowest index among equals"),
        pytest.param("spread", 4, [2], id="spread takes the emptiest"),
        pytest.param("spread", 17, None, id="nothing holds more than one card"),
    ],
)
def test_card_policies(policy: str, units: int, expected: list[int] | None) -> None:
    state = node(cards(16, 16, 16, 16), (0, 8), (1, 12))
    assert chosen(state, asks(units), policy) == expected


def test_binpack_leaves_an_empty_card_whole_where_a_shared_one_has_the_same_room() -> None:
    assert chosen(node([card(0, 8), card(1, 16)], (1, 8)), asks(4), "binpack") == [1]


def test_sick_and_cordoned_cards_take_nothing() -> None:
    state = node([card(0, sick=True), card(1, cordoned=True), card(2)])
    assert chosen(state, asks(4), "binpack") == [2]
    assert chosen(state, asks_whole(2), "binpack") is None


def test_several_cards_and_whole_cards_are_chosen_by_the_same_policy() -> None:
    state = node(cards(16, 16, 16, 16), (0, 8), (1, 12))
    assert chosen(state, asks(4, cards=2), "binpack") == [0, 1]
    assert chosen(state, asks_whole(2), "binpack") == [2, 3]
    assert chosen(state, asks_whole(3), "binpack") is None


def test_a_choosy_pod_gets_only_what_it_allows() -> None:
    state = node([card(0, model="S60"), card(1, model="T20")])
    assert chosen(state, CardRequest(4, selection=CardSelection(use=("T20",))), "binpack") == [1]
    assert chosen(state, CardRequest(4, selection=CardSelection(use=("T21",))), "binpack") is None


def test_node_binpack_prefers_cards_in_use_then_fuller_nodes() -> None:
    empty, full, tight = node(cards(16, 16)), node(cards(16, 16), (0, 8)), node(cards(16, 16), (0, 15))
    scores = [score_node(state, asks(4), NODE_POLICIES["binpack"]) for state in (empty, tight, full)]
    assert scores == sorted(scores)
    assert scores[0] < scores[1] < scores[2]


def test_node_spread_prefers_the_emptier_node_and_scores_stay_in_bounds() -> None:
    empty, full = node(cards(16)), node(cards(16), (0, 8))
    assert score_node(empty, asks(4), NODE_POLICIES["spread"]) == 10
    assert score_node(full, asks(4), NODE_POLICIES["spread"]) == 5
    assert score_node(full, asks(9), NODE_POLICIES["spread"]) == 0
