"""How many more nodes waiting pods need: card by card, present room first, and no more nodes than a sum would hide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.cli.nodes_needed.nodes_needed import describe_class
from gcushare.core.cards import BOTH_MODES
from gcushare.core.errors import RemoteContractError
from gcushare.core.node_rules import NO_PLACE
from gcushare.core.nodes import NodeState
from gcushare.core.other_resources import Amounts
from gcushare.core.packing.nodes_needed import (
    ANY_AMOUNTS,
    MAX_KINDS,
    NodeClasses,
    NodeCount,
    NodesNeeded,
    PodKind,
    empty_like,
    name_class,
    parse_class,
)
from gcushare.core.requests import CardRequest, CardSelection
from tests.builders import API, GIB_UNIT, WEB, asks, asks_whole, card, cards, held

FREE = Amounts(64_000, 256_000)
SMALL = Amounts(1000, 1000)


def node(name: str, *units: int, modes: tuple[str, ...] = BOTH_MODES) -> NodeState:
    state = NodeState(name)
    state.set_cards(cards(*units), GIB_UNIT, modes)
    return state


def wants(request: CardRequest, amounts: Amounts = SMALL) -> PodKind:
    return PodKind(request, amounts)


def need(counted: NodeCount, like: NodeState, spare: Amounts = FREE) -> NodesNeeded:
    return counted.count_new(like, spare, ())


def test_what_present_nodes_hold_needs_no_node_and_changes_nothing_there() -> None:
    present = node("node-1", 16, 16)
    counted = NodeCount({wants(asks(8)): 6})
    counted.use_present(present, FREE, NO_PLACE)
    assert (counted.fit_now, counted.left, counted.filled) == (4, [(wants(asks(8)), 2)], {"node-1"})
    assert (present.used, present.assignments) == (0, {})
    assert need(counted, empty_like(present)) == NodesNeeded(nodes=1, pods=2)


def test_the_largest_are_placed_first_so_that_small_ones_fill_the_rest() -> None:
    waiting = {wants(asks(6)): 4, wants(asks(10)): 4, wants(asks_whole()): 1}
    assert need(NodeCount(waiting), node("like", 16, 16)) == NodesNeeded(nodes=3, pods=9)


def test_pods_that_are_kept_apart_need_a_card_each_and_linked_ones_a_linked_set() -> None:
    waiting = {wants(asks(2, apart=WEB)): 5, wants(asks(2, apart=API)): 2}
    assert need(NodeCount(waiting), node("like", 16, 16)) == NodesNeeded(nodes=3, pods=7)
    linked = node("like")
    linked.set_cards([card(0, link="x"), card(1), card(2, link="x")], GIB_UNIT, BOTH_MODES)
    assert need(NodeCount({wants(asks(9, 2, linked=True)): 2}), linked) == NodesNeeded(nodes=2, pods=2)


def test_cpu_and_memory_count_as_well_as_cards() -> None:
    counted = NodeCount({wants(asks(1), Amounts(8000, 0)): 4})
    assert need(counted, node("like", 16), Amounts(16_000, 0)) == NodesNeeded(nodes=2, pods=4)
    assert need(counted, node("like", 16), Amounts(4000, 0)) == NodesNeeded(too_large=4)
    assert need(counted, node("like", 16), ANY_AMOUNTS) == NodesNeeded(nodes=1, pods=4)


def test_a_pod_that_no_empty_node_holds_is_counted_apart() -> None:
    waiting = {wants(asks(20)): 2, wants(asks(4)): 1, wants(asks(4, 3)): 1}
    assert need(NodeCount(waiting), node("like", 16, 16)) == NodesNeeded(nodes=1, pods=1, too_large=3)


def test_only_the_most_common_kinds_are_placed_and_the_others_are_named() -> None:
    waiting = {wants(asks(units)): 1 for units in range(1, MAX_KINDS + 4)}
    counted = NodeCount(waiting)
    assert (counted.pods, counted.left_out, len(counted.left)) == (MAX_KINDS + 3, 3, MAX_KINDS)


def test_a_new_node_is_healthy_and_open_and_has_no_cards_of_a_known_uuid() -> None:
    sick = NodeState("node-1")
    sick.set_cards([card(0, 16, sick=True), card(1, 16, cordoned=True)], GIB_UNIT)
    by_uuid = wants(CardRequest(4, selection=CardSelection(use=("uuid-0",))))
    assert need(NodeCount({wants(asks(16)): 2}), empty_like(sick)) == NodesNeeded(nodes=1, pods=2)
    assert need(NodeCount({by_uuid: 1}), empty_like(sick)) == NodesNeeded(too_large=1)


class TestClasses:
    @pytest.mark.parametrize("name", ["2x16", "8x48:S60/both", "1x16:A/whole", "2x16:A+4x48:B C"])
    def test_a_class_is_read_as_it_is_named(self, name: str) -> None:
        assert name_class(parse_class(name)) == name

    @pytest.mark.parametrize(
        "text", ["node-9", "0x16", "8x0", "65x16", "40x16+40x16", "8x99999999", "8X48", "x", "8x48/"]
    )
    def test_what_is_no_class_is_refused_with_what_is_accepted(self, text: str) -> None:
        with pytest.raises(RemoteContractError, match=r"is neither a node with cards nor a class.*CARDSxUNITS"):
            parse_class(text)

    def test_nodes_with_the_same_cards_are_one_class(self) -> None:
        made = [node("b", 16, 16), node("a", 16, 16), node("c", 48), NodeState("unknown")]

        def chosen(like: str) -> dict[str, list[str]]:
            classes = NodeClasses()
            for each in made:
                classes.add(each)
            return {name: [each.name for each in alike] for name, alike in classes.choose(like).items()}

        assert chosen("") == {"2x16/both": ["a", "b"], "1x48/both": ["c"]}
        assert chosen("b") == {"2x16/both": ["b", "a"]}
        assert chosen("1x48/both") == {"1x48/both": ["c"]}
        assert chosen("4x48") == {"4x48": []}
        assert chosen("2x16") == {"2x16/both": ["a", "b"]}, "a class without its mode means any"

    def test_a_class_without_a_model_means_any(self) -> None:
        classes = NodeClasses()
        for name in ("8x48:S60", "8x48:T20", "8x48:S60+1x16:B"):
            classes.add(parse_class(name))
        assert list(classes.choose("8x48")) == ["8x48:S60", "8x48:T20"]
        assert list(classes.choose("8x48:T20")) == ["8x48:T20"]

    def test_a_scaler_keeps_what_is_in_use_unless_more_is_needed(self) -> None:
        used, idle = node("a", 16), node("b", 16)
        used.add(held("holder", "a", (0, 4)))
        assert describe_class("1x16", NodesNeeded(), [used, idle], {"b"}).wanted == 2
        assert describe_class("1x16", NodesNeeded(nodes=2, pods=2), [used, idle], ()).wanted == 4


@pytest.mark.slow
@given(
    st.dictionaries(st.integers(1, 20), st.integers(1, 12), min_size=1, max_size=6),
    st.lists(st.integers(1, 20), min_size=1, max_size=4),
)
def test_the_nodes_that_are_named_do_hold_the_pods_and_one_less_leaves_some(
    pods: dict[int, int], sizes: list[int]
) -> None:
    """The shortcut for nodes that are filled alike gives what placing them one by one gives."""
    waiting = {wants(asks(units)): count for units, count in pods.items()}
    found = need(NodeCount(waiting), node("like", *sizes))
    assert found.too_large == sum(count for units, count in pods.items() if units > max(sizes))
    one_by_one = NodeCount(waiting)
    for number in range(found.nodes):
        assert one_by_one.pods - one_by_one.fit_now > found.too_large, "fewer nodes were enough"
        one_by_one.use_present(node(f"n{number}", *sizes), FREE, NO_PLACE)
    assert one_by_one.pods - one_by_one.fit_now == found.too_large
    assert found.pods == one_by_one.fit_now
