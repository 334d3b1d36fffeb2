"""Which cards and nodes policies prefer, with the very numbers by which nodes are ranked, and the counts of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from gcushare.core.card_state import CardState
from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE, InventoryCard
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


def node_of(sizes: tuple[int, ...], used: int, modes: tuple[str, ...] = BOTH_MODES) -> NodeState:
    """A node whose first card has ``used`` units in use, or is held whole where it serves nothing else."""
    node = NodeState("n")
    node.set_cards(cards(*sizes), GIB_UNIT, modes)
    if used:
        node.add(held("a", "n", (0, used), whole=modes == (SERVES_WHOLE,)))
    return node


@pytest.mark.parametrize(
    ("policy", "node", "request_", "score"),
    [
        pytest.param("binpack", node_of((16, 16), 4), asks(4), 0.5625, id="next to others"),
        pytest.param("binpack", node_of((16, 16), 4), asks(12), 0.5625, id="just next to others"),
        pytest.param("binpack", node_of((16, 16), 4), asks(13), 0.03125, id="opens a card that could be given whole"),
        pytest.param("binpack", node_of((16, 16), 4, (SERVES_MEMORY,)), asks(13), 0.28125, id="opens one that not"),
        pytest.param("binpack", node_of((16, 16), 4), asks(4, 4), 0.03125 / 3, id="several cards are one sum"),
        pytest.param("binpack", node_of((16, 16), 40), asks(4), 0.25, id="no fuller than full"),
        pytest.param("binpack", node_of((16, 16), 4), asks_whole(), 0.0625, id="whole"),
        pytest.param("binpack", node_of((16, 16), 16, (SERVES_WHOLE,)), asks_whole(), 0.75, id="whole only"),
        pytest.param("binpack", node_of((16, 16), 0), asks_whole(2), 1 / 3, id="several whole, one NUMA node"),
        pytest.param("binpack", node_of((), 0), asks_whole(), 0.0, id="no cards"),
        pytest.param("spread", node_of((16, 16), 4), asks(4), 0.875, id="spread"),
        pytest.param("spread", node_of((16, 16), 40), asks(4), 0.0, id="spread, overfull"),
        pytest.param("spread", node_of((), 0), asks(4), 0.0, id="spread, no cards"),
        pytest.param("spread", node_of((16, 16), 0), asks_whole(2), 2 / 3, id="spread, several whole"),
    ],
)
def test_a_nodes_score_is_the_one_that_its_policy_states(
    policy: str, node: NodeState, request_: CardRequest, score: float
) -> None:
    assert POLICIES[policy].score_node(node, request_) == pytest.approx(score)


def test_cards_are_ranked_for_the_request_that_is_placed() -> None:
    def far_for_large(state: CardState, request: CardRequest) -> tuple[int, ...]:
        return (state.index if request.units < 8 else -state.index,)

    node = node_of((16, 16, 16), 0)
    for request, index in ((asks(4), 0), (asks(8), 2)):
        chosen = choose_cards(node, request, far_for_large)
        assert chosen is not None
        assert [state.index for state in chosen] == [index]


def test_counting_a_node_again_says_what_was_wrong_and_puts_it_right() -> None:
    node = node_of((16, 16), 4)
    node.cards[0].used = 5
    assert node.recount() == ["card 0: (5, 0, 1) counted, (4, 0, 1) held, as units, whole cards and pods"]
    node.used = 9
    assert node.recount() == [
        "(16, 12, 1, 32, 9) counted, (16, 12, 1, 32, 4) true: largest free, shared, empty cards, total, used"
    ]
    assert node.recount() == []
