"""The victims that preemption keeps: always enough, each needed, and for one card the best set that there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE, InventoryCard
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.kept_room import APART, LeavingShares, can_hold_after_nominees, compute_room_left
from gcushare.core.preemption.victims import choose_victims, rank_victims
from gcushare.core.requests import CardRequest, CardSelection
from tests.builders import API, GIB_UNIT, WEB, asks, asks_whole, card, cards


def node_with(
    offered: Sequence[InventoryCard], *assignments: Assignment, modes: Sequence[str] = BOTH_MODES
) -> NodeState:
    node = NodeState("node-1")
    node.set_cards(offered, GIB_UNIT, modes)
    for assignment in assignments:
        node.add(assignment)
    return node


def holds(name: str, *grants: tuple[int, int], priority: int = 0, created: str = "", whole: bool = False) -> Assignment:
    pod = PodRef(f"uid-{name}", "default", name, created, priority)
    return Assignment(pod, "node-1", tuple(CardGrant(index, units, whole) for index, units in grants), assigned=True)


def victims_of(node: NodeState) -> list[PodRef]:
    return [held.pod for held in node.assignments.values()]


def names(chosen: Sequence[PodRef] | None) -> list[str] | None:
    return None if chosen is None else sorted(victim.name for victim in chosen)


def fits_without(node: NodeState, request: CardRequest, ended: Sequence[PodRef]) -> bool:
    trial = node.copy()
    for victim in ended:
        trial.remove(victim.uid)
    return trial.fits(request)


def by_brute_force(node: NodeState, request: CardRequest, victims: Sequence[PodRef]) -> tuple[PodRef, ...] | None:
    sets = [chosen for count in range(len(victims) + 1) for chosen in combinations(victims, count)]
    enough = [chosen for chosen in sets if fits_without(node, request, chosen)]
    return min(enough, key=rank_victims, default=None)


@st.composite
def crowded_nodes(draw: st.DrawFn, most_cards: int = 3) -> tuple[NodeState, list[PodRef]]:
    """A node, and most of its pods; some hold several cards, alike on each."""
    sizes = draw(st.lists(st.integers(1, 16), min_size=1, max_size=most_cards))
    offered = [card(index, size, sick=draw(st.integers(0, 9)) == 0) for index, size in enumerate(sizes)]
    modes = draw(st.sampled_from([BOTH_MODES, BOTH_MODES, (SERVES_MEMORY,), (SERVES_WHOLE,)]))
    node = node_with(offered, modes=modes)
    for number in range(draw(st.integers(0, 8))):
        spread = draw(st.sampled_from([1, 1, 1, 2, 3]))
        indexes = draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=spread, unique=True))
        states = [node.cards[index] for index in indexes]
        whole = draw(st.integers(0, 7)) == 0
        if any(state.whole or (whole and state.pods) for state in states):
            continue
        created = draw(st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]))
        units = draw(st.integers(1, 8))
        grants = [(index, sizes[index] if whole else units) for index in indexes]
        node.add(holds(f"p{number}", *grants, priority=draw(st.integers(0, 2)), created=created, whole=whole))
    pods = [held.pod for held in node.assignments.values()]
    return node, [pod for pod in pods if draw(st.integers(0, 4))]


def requests(units: st.SearchStrategy[int], cards: st.SearchStrategy[int]) -> st.SearchStrategy[CardRequest]:
    return st.builds(asks, units, cards) | st.builds(asks_whole, cards)


def has_wide_victims(crowd: tuple[NodeState, list[PodRef]]) -> bool:
    """Whether pods that may end hold several cards: then the set need not be the best."""
    node, victims = crowd
    return any(len(node.assignments[victim.uid].grants) > 1 for victim in victims)


CASES = st.tuples(crowded_nodes(), requests(st.integers(1, 16), st.just(1))) | st.tuples(
    crowded_nodes(most_cards=4).filter(lambda crowd: not has_wide_victims(crowd)),
    requests(st.integers(1, 12), st.integers(2, 3)),
)


@pytest.mark.slow
@settings(max_examples=3 * settings().max_examples)
@given(CASES)
def test_the_chosen_set_is_the_one_that_trying_every_set_finds(
    case: tuple[tuple[NodeState, list[PodRef]], CardRequest],
) -> None:
    (node, victims), request = case
    assert names(choose_victims(node, request, victims)) == names(by_brute_force(node, request, victims))


@pytest.mark.slow
@given(crowded_nodes(most_cards=4), requests(st.integers(1, 8), st.integers(2, 3)))
def test_among_pods_of_several_cards_the_set_is_enough_and_every_pod_of_it_is_needed(
    crowd: tuple[NodeState, list[PodRef]], request: CardRequest
) -> None:
    node, victims = crowd
    chosen = choose_victims(node, request, victims)

    assert (chosen is not None) == fits_without(node, request, victims)
    if chosen is not None:
        assert fits_without(node, request, chosen)
        assert not any(fits_without(node, request, [v for v in chosen if v is not spared]) for spared in chosen)


@pytest.mark.slow
@given(crowded_nodes(most_cards=4), st.integers(1, 12), st.integers(1, 2), st.booleans(), st.data())
def test_the_set_frees_linked_cards_without_pods_that_are_to_be_kept_apart(
    crowd: tuple[NodeState, list[PodRef]], units: int, count: int, is_linked: bool, data: st.DataObject
) -> None:
    node, victims = crowd
    assume(count == 1 or not has_wide_victims(crowd))
    links = st.sampled_from(["", "x", "x", "y"])
    offered = [msgspec.structs.replace(each, link_group=data.draw(links)) for each in node.present_cards]
    node.set_cards(offered, GIB_UNIT, node.modes)
    for holder in list(node.assignments.values()):
        node.remove(holder.pod.uid)
        is_whole = any(grant.whole for grant in holder.grants)
        node.add(replace(holder, apart=None if is_whole else data.draw(st.sampled_from([None, WEB, API]))))
    request = asks(units, count, linked=is_linked and count > 1, apart=data.draw(st.sampled_from([None, WEB])))

    assert names(choose_victims(node, request, victims)) == names(by_brute_force(node, request, victims))


SMALL = PodRef("uid-a", "default", "a", "2026-01-02T00:00:00Z", 1)


@pytest.mark.parametrize(
    "worse",
    [
        pytest.param([replace(SMALL, priority=2)], id="more important"),
        pytest.param([SMALL, replace(SMALL, uid="uid-b", priority=0)], id="two pods"),
        pytest.param([replace(SMALL, created="2026-01-01T00:00:00Z")], id="older"),
        pytest.param([replace(SMALL, uid="uid-0")], id="of the same second"),
    ],
)
def test_sets_are_ordered_by_each_criterion_in_turn(worse: list[PodRef]) -> None:
    assert rank_victims([]) < rank_victims([SMALL]) < rank_victims(worse)
    assert not rank_victims([SMALL]) < rank_victims([SMALL])


def test_only_cards_that_the_pod_allows_are_freed() -> None:
    node = node_with(cards(16, 16), holds("a", (0, 16)), holds("b", (1, 16)))
    for index, name in (("0", "a"), ("1", "b")):
        assert names(choose_victims(node, chooses(index), victims_of(node))) == [name]


def test_a_pod_that_is_enough_on_both_cards_ends_alone() -> None:
    """By itself card 0 would be freed by the youngest pod there."""
    node = node_with(
        cards(8, 8),
        holds("both", (0, 4), (1, 4), created="2026-01-02T00:00:00Z"),
        holds("young", (0, 4), created="2026-01-03T00:00:00Z"),
        holds("old", (1, 4), created="2026-01-01T00:00:00Z"),
    )
    assert names(choose_victims(node, asks(4, 2), victims_of(node))) == ["both"]


@pytest.mark.parametrize(("units", "ended"), [(5, None), (4, ["w"])])
def test_units_kept_for_a_pod_of_which_no_card_is_known_stay_kept_on_a_card_freed_whole(
    units: int, ended: list[str] | None
) -> None:
    unplaced = Assignment(PodRef("uid-u", "default", "u"), "node-1", (), unplaced=4)
    node = node_with(cards(8), holds("w", (0, 8), whole=True), unplaced)

    assert names(choose_victims(node, asks(units), victims_of(node))) == ended


def test_a_card_that_two_leaving_pods_have_whole_is_free_once_both_have_gone() -> None:
    node = node_with(cards(8), *(holds(name, (0, 8), whole=True) for name in ("w1", "w2")))
    assert LeavingShares(node, ["uid-w1"]).count_staying(node.cards[0]) == 1
    assert LeavingShares(node, ["uid-w1"]).stays_whole(node.cards[0])
    assert not LeavingShares(node, ["uid-w1", "uid-w2"]).stays_whole(node.cards[0])


def test_a_victim_that_holds_nothing_here_is_not_counted_on() -> None:
    node = node_with(cards(16), holds("a", (0, 16)))
    stranger = PodRef("uid-x", "default", "x")

    assert choose_victims(node, asks(4), [stranger]) is None


def test_no_one_ends_for_room_on_a_node_that_settles() -> None:
    waiting = replace(holds("a", (0, 8)), assigned=False)
    node = node_with(cards(8, 8), waiting, holds("b", (0, 8)))
    assert choose_victims(node, asks(8), victims_of(node)) is None


def chooses(card: str) -> CardRequest:
    return CardRequest(4, selection=CardSelection(use=(card,)))


LINKED = node_with([card(0, 8), card(1, 16, link="x"), card(2, 16), card(3, 16, link="x")])
LEFT_BY_TWO = node_with(cards(16), holds("a", (0, 4)), holds("b", (0, 4)))
HELD_WHOLE = node_with(cards(16), holds("w", (0, 16), whole=True))
LEFT_BY_ONE = node_with(cards(16, 8), holds("a", (0, 2)))


@pytest.mark.parametrize(
    ("node", "nominees", "leaving", "left"),
    [
        pytest.param(node_with(cards(8, 16)), [asks(8)], "", {0: 0}, id="the least room that is enough"),
        pytest.param(node_with(cards(8, 16)), [asks(9)], "", {1: 7}, id="not where there is too little"),
        pytest.param(node_with(cards(16, 16)), [asks(4)], "", {0: 12}, id="of equals the lowest"),
        pytest.param(node_with([card(0, sick=True), card(1)]), [asks(4)], "", {1: 12}, id="not on a sick card"),
        pytest.param(node_with([card(0, cordoned=True), card(1)]), [asks(4)], "", {1: 12}, id="not on a cordoned card"),
        pytest.param(node_with(cards(16, 16)), [chooses("1")], "", {1: 12}, id="a card that the pod allows"),
        pytest.param(node_with(cards(16, 16)), [chooses("7")], "", {}, id="none that the pod allows"),
        pytest.param(node_with(cards(16, 16, 16)), [asks(4, 2)], "", {0: 12, 1: 12}, id="several cards"),
        pytest.param(node_with(cards(16, 3)), [asks(4, 2)], "", {}, id="nothing of one where two are needed"),
        pytest.param(node_with(cards(0, 16)), [asks_whole()], "", {1: 0}, id="no whole card without units"),
        pytest.param(node_with([card(0, sick=True), card(1)]), [asks_whole(2)], "", {}, id="nothing whole of too few"),
        pytest.param(node_with(cards(1)), [asks_whole()], "", {0: 0}, id="a whole card of one unit"),
        pytest.param(LINKED, [asks(8, 2, linked=True)], "", {1: 8, 3: 8}, id="on linked cards"),
        pytest.param(
            LINKED, [asks(8, 2, linked=True), asks(9, 2, linked=True)], "", {1: 8, 3: 8}, id="none is linked any more"
        ),
        pytest.param(node_with(cards(16), modes=[SERVES_MEMORY]), [asks(4)], "", {0: 12}, id="memory of such a node"),
        pytest.param(node_with(cards(16), modes=[SERVES_MEMORY]), [asks_whole()], "", {}, id="it has no whole cards"),
        pytest.param(node_with(cards(16), modes=[SERVES_WHOLE]), [asks(4)], "", {}, id="whole cards alone"),
        pytest.param(node_with(cards(16), modes=[SERVES_WHOLE]), [asks_whole()], "", {0: 0}, id="a whole card of them"),
        pytest.param(LEFT_BY_TWO, [asks_whole()], "a", {}, id="a whole card, and a pod stays on it"),
        pytest.param(LEFT_BY_TWO, [asks_whole()], "ab", {0: 0}, id="a whole card once the last pod leaves"),
        pytest.param(LEFT_BY_TWO, [asks_whole(), asks_whole()], "ab", {0: 0}, id="no second whole card"),
        pytest.param(LEFT_BY_TWO, [asks(4), asks_whole()], "ab", {0: 12}, id="no whole card where a part is kept"),
        pytest.param(HELD_WHOLE, [asks(1)], "", {}, id="nothing of a card that is held whole"),
        pytest.param(HELD_WHOLE, [asks(10)], "wx", {0: 6}, id="all of it once its pod leaves"),
        pytest.param(LEFT_BY_ONE, [asks(4)], "a", {0: 12}, id="first where pods leave, even with more room"),
        pytest.param(LEFT_BY_ONE, [asks(4)], "", {1: 4}, id="else where the least is enough"),
    ],
)
def test_room_is_kept_where_the_nominee_can_be_and_nowhere_else(
    node: NodeState, nominees: list[CardRequest], leaving: str, left: dict[int, int]
) -> None:
    assert compute_room_left(node, nominees, [f"uid-{name}" for name in leaving]) == left


def test_a_pod_has_nothing_where_a_nominee_comes_that_it_shares_no_card_with() -> None:
    node = node_with([card(0), card(1)], replace(holds("a", (0, 2)), apart=WEB))
    web = asks(4, apart=WEB)
    for group, left in ((None, {1: 12}), (API, {1: 12}), (WEB, {1: -APART})):
        assert compute_room_left(node, [web], [], group) == left
    assert compute_room_left(node, [web, web], []) == {1: 12}, "no room is kept for the second"
    assert compute_room_left(node, [web, web], ["uid-a"]) == {0: 12, 1: 12}
    assert not can_hold_after_nominees(node.cards[1], web, compute_room_left(node, [web], [], WEB))


def test_a_card_that_pods_name_and_the_node_has_no_more_is_kept_for_no_one() -> None:
    node = node_with(cards(16, 16), holds("a", (1, 4)))
    node.set_cards(cards(2), GIB_UNIT)
    assert compute_room_left(node, [asks(4), asks_whole()], ["uid-a"]) == {0: 0}


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
    assert can_hold_after_nominees(node_with(cards(16)).cards[0], request_, left) is holds_it


def wide_node(*, units: int = 16) -> NodeState:
    """Two cards on which eight pods hold two units each: too many to try every combination of them."""
    pods = (holds(f"p{number}", (0, 2), (1, 2), priority=number) for number in range(8))
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
    node = wide_node()
    assert choose_victims(node, asks(17, 2), victims_of(node)) is None
    assert names(choose_victims(node, asks(16, 2), victims_of(node))) == [f"p{number}" for number in range(8)]
    assert choose_victims(node, asks(16, 2), victims_of(node)[1:]) is None
