from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from gcushare.core.cards import BOTH_MODES, InventoryCard
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES, choose_cards
from gcushare.core.requests import CardRequest, CardSelection
from tests.builders import GIB_UNIT, asks, asks_whole, card, cards, held


def node(
    offered: list[InventoryCard], *grants: tuple[int, int], name: str = "n", modes: Sequence[str] = BOTH_MODES
) -> NodeState:
    state = NodeState(name)
    state.set_cards(offered, GIB_UNIT, modes)
    for number, grant in enumerate(grants):
        state.add(held(f"p{number}", name, grant))
    return state


def chosen(state: NodeState, request: CardRequest, policy: str) -> list[int] | None:
    states = choose_cards(state, request, POLICIES[policy].rank_card)
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


def test_binpack_leaves_an_empty_card_whole_if_a_shared_one_has_the_same_room() -> None:
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


def linked(groups: str) -> list[InventoryCard]:
    """Cards of 16 in the link groups that the letters name; a dot is a card without a link, alone on its NUMA node."""
    made = []
    for index, group in enumerate(groups):
        place = {"numa_node": index} if group == "." else {"numa_node": 100, "link_group": group}
        made.append(msgspec.structs.replace(card(index), **place))
    return made


def test_a_single_whole_card_comes_from_the_tightest_group_so_that_pairs_stay_whole() -> None:
    assert chosen(node(linked("aab")), asks_whole(), "binpack") == [2]


def test_several_whole_cards_are_close_together_or_spare_the_groups() -> None:
    state = node(linked("a.bb.a"))
    assert chosen(state, asks_whole(2), "binpack") == [0, 5]
    assert chosen(state, replace(asks_whole(2), whole_policy="loose"), "binpack") == [1, 4]


def test_among_equally_close_whole_cards_the_card_policy_decides() -> None:
    state = node([card(0, 32), card(1, 16), card(2, 24)])
    assert chosen(state, asks_whole(), "binpack") == [1]
    assert chosen(state, asks_whole(2), "binpack") == [1, 2]
    assert chosen(state, asks_whole(2), "spread") == [0, 2]


@pytest.mark.parametrize("name", ["binpack", "spread"])
def test_the_node_where_several_whole_cards_are_close_is_preferred(name: str) -> None:
    apart, near, linked_pair = node(linked("..")), node(linked("ab")), node(linked("aa"))
    worth = [POLICIES[name].score_node(state, asks_whole(2)) for state in (apart, near, linked_pair)]
    assert worth == sorted(worth)
    assert len(set(worth)) == 3
    loose = replace(asks_whole(2), whole_policy="loose")
    assert len({POLICIES[name].score_node(state, loose) for state in (apart, near, linked_pair)}) == 1
