"""Room that is kept for nominees by card, and the pods that preemption spares if it cannot try every combination."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE, InventoryCard
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.kept_room import APART, can_hold_after_nominees, compute_room_left
from gcushare.core.preemption.victims import choose_victims
from gcushare.core.requests import CardRequest, CardSelection
from tests.builders import API, GIB_UNIT, WEB, asks, asks_whole, card, cards, held
from tests.unit.test_preemption import holds, names, node_with, victims_of


def node_of(offered: list[InventoryCard], modes: tuple[str, ...] = BOTH_MODES) -> NodeState:
    node = NodeState("n")
    node.set_cards(offered, GIB_UNIT, modes)
    return node


def picky(request: CardRequest, **selection: tuple[str, ...]) -> CardRequest:
    chosen = CardSelection(use=selection.get("use", ()), avoid=selection.get("avoid", ()))
    return replace(request, selection=chosen)


@pytest.mark.parametrize(
    ("offered", "nominee", "left"),
    [
        pytest.param([card(0, 8), card(1, 16)], asks(8), {0: 0}, id="the least room that is enough"),
        pytest.param([card(0, 8), card(1, 16)], asks(9), {1: 7}, id="not where there is too little"),
        pytest.param([card(0), card(1)], asks(4), {0: 12}, id="of equals the lowest"),
        pytest.param([card(0, sick=True), card(1)], asks(4), {1: 12}, id="not on a sick card"),
        pytest.param([card(0, cordoned=True), card(1)], asks(4), {1: 12}, id="not on a cordoned card"),
        pytest.param([card(0), card(1)], picky(asks(4), use=("1",)), {1: 12}, id="a card chosen by index"),
        pytest.param([card(0), card(1)], picky(asks(4), avoid=("uuid-0",)), {1: 12}, id="a card avoided by uuid"),
        pytest.param([card(0), card(1, model="S60")], picky(asks(4), use=("S60",)), {1: 12}, id="chosen by model"),
        pytest.param([card(0), card(1)], picky(asks(4), use=("7",)), {}, id="none that the pod allows"),
        pytest.param([card(0), card(1), card(2)], asks(4, 2), {0: 12, 1: 12}, id="several cards"),
        pytest.param([card(0), card(1, 3)], asks(4, 2), {}, id="nothing of one where two are needed"),
        pytest.param([card(0, 0), card(1)], asks_whole(), {1: 0}, id="no whole card without units"),
        pytest.param([card(0, sick=True), card(1)], asks_whole(2), {}, id="nothing whole of too few"),
        pytest.param([card(0, 1)], asks_whole(), {0: 0}, id="a whole card of one unit"),
    ],
)
def test_room_is_kept_where_the_nominee_can_be_and_nowhere_else(
    offered: list[InventoryCard], nominee: CardRequest, left: dict[int, int]
) -> None:
    assert compute_room_left(node_of(offered), [nominee], []) == left


def test_a_pod_has_nothing_where_a_nominee_comes_that_it_shares_no_card_with() -> None:
    node = node_of([card(0), card(1)])
    node.add(replace(held("a", "n", (0, 2)), apart=WEB))
    web = asks(4, apart=WEB)
    for group, left in ((None, {1: 12}), (API, {1: 12}), (WEB, {1: -APART})):
        assert compute_room_left(node, [web], [], group) == left
    assert compute_room_left(node, [web, web], []) == {1: 12}, "no room is kept for the second"
    assert compute_room_left(node, [web, web], ["uid-a"]) == {0: 12, 1: 12}
    assert not can_hold_after_nominees(node.cards[1], web, compute_room_left(node, [web], [], WEB))


def test_room_is_kept_on_linked_cards_for_a_nominee_that_needs_them() -> None:
    node = node_of([card(0, 8), card(1, 16, link="x"), card(2, 16), card(3, 16, link="x")])
    assert compute_room_left(node, [asks(8, 2, linked=True)], []) == {1: 8, 3: 8}
    assert compute_room_left(node, [asks(8, 2, linked=True), asks(9, 2, linked=True)], []) == {1: 8, 3: 8}


@pytest.mark.parametrize(
    ("modes", "nominee", "left"),
    [
        ((SERVES_MEMORY,), asks(4), {0: 12}),
        ((SERVES_MEMORY,), asks_whole(), {}),
        ((SERVES_WHOLE,), asks(4), {}),
        ((SERVES_WHOLE,), asks_whole(), {0: 0}),
    ],
)
def test_room_is_kept_of_what_the_node_hands_out(
    modes: tuple[str, ...], nominee: CardRequest, left: dict[int, int]
) -> None:
    assert compute_room_left(node_of(cards(16), modes), [nominee], []) == left


def test_a_card_that_pods_name_and_the_node_has_no_more_is_kept_for_no_one() -> None:
    node = node_of(cards(16, 16))
    node.add(held("a", "n", (1, 4)))
    node.set_cards(cards(2), GIB_UNIT)
    assert compute_room_left(node, [asks(4), asks_whole()], ["uid-a"]) == {0: 0}


def test_a_whole_card_is_kept_once_the_last_pod_on_it_leaves() -> None:
    node = node_of(cards(16))
    for name in ("a", "b"):
        node.add(held(name, "n", (0, 4)))
    assert compute_room_left(node, [asks_whole()], ["uid-a"]) == {}
    assert compute_room_left(node, [asks_whole()], ["uid-a", "uid-b"]) == {0: 0}
    assert compute_room_left(node, [asks_whole(), asks_whole()], ["uid-a", "uid-b"]) == {0: 0}
    assert compute_room_left(node, [asks(4), asks_whole()], ["uid-a", "uid-b"]) == {0: 12}


def test_a_card_that_a_pod_holds_whole_has_all_of_its_units_once_it_leaves_and_none_before() -> None:
    node = node_of(cards(16))
    node.add(held("w", "n", (0, 16), whole=True))
    assert compute_room_left(node, [asks(1)], []) == {}
    assert compute_room_left(node, [asks(10)], ["uid-w", "uid-stranger"]) == {0: 6}


def test_the_cards_where_pods_leave_come_first_even_with_more_room() -> None:
    node = node_of(cards(16, 8))
    node.add(held("a", "n", (0, 2)))
    assert compute_room_left(node, [asks(4)], ["uid-a"]) == {0: 12}
    assert compute_room_left(node, [asks(4)], []) == {1: 4}


@pytest.mark.parametrize(
    ("request_", "left", "holds_it"),
    [
        (asks(4), {}, True),
        (asks(4), {0: 4}, True),
        (asks(5), {0: 4}, False),
        (asks(17), {0: 17}, False),
        (asks_whole(), {}, True),
        (asks_whole(), {1: 0}, True),
        (asks_whole(), {0: 16}, False),
    ],
)
def test_what_is_kept_of_a_card_stays(request_: CardRequest, left: dict[int, int], holds_it: bool) -> None:
    assert can_hold_after_nominees(node_of(cards(16)).cards[0], request_, left) is holds_it


def wide_node(*, units: int = 16, **different: str) -> NodeState:
    """Two cards on which eight pods hold two units each: too many to try every combination of them."""
    pods = [
        holds(f"p{number}", (0, 2), (1, 2), priority=number, created=different.get(f"p{number}", ""))
        for number in range(8)
    ]
    return node_with(cards(units, units), *pods)


def test_of_too_many_pods_of_several_cards_the_most_important_is_spared() -> None:
    node = wide_node()
    assert names(choose_victims(node, asks(14, 2), victims_of(node))) == [f"p{number}" for number in range(7)]


def test_pods_of_one_card_end_so_that_one_of_several_is_spared() -> None:
    node = wide_node(units=18)
    for index in (0, 1):
        node.add(holds(f"n{index}", (index, 2)))
    chosen = names(choose_victims(node, asks(16, 2), victims_of(node)))
    assert chosen == ["n0", "n1", *(f"p{number}" for number in range(7))]


def test_not_even_all_of_too_many_pods_are_ended_for_nothing() -> None:
    node = wide_node(units=16)
    assert choose_victims(node, asks(17, 2), victims_of(node)) is None
    assert names(choose_victims(node, asks(16, 2), victims_of(node))) == [f"p{number}" for number in range(8)]
    assert choose_victims(node, asks(16, 2), victims_of(node)[1:]) is None
