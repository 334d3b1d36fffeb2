"""One node's cards and their figures, asked directly."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.core.assignments import Assignment
from gcushare.core.cards import SERVES_WHOLE
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES
from gcushare.core.requests import CardRequest, CardSelection
from tests.builders import GIB_UNIT, asks, asks_whole, card, cards, held, pod

FULLEST = POLICIES["binpack"].rank_card


def node_of(*units: int) -> NodeState:
    node = NodeState("node-1")
    node.set_cards(cards(*units), GIB_UNIT)
    return node


def only(index: int, units: int = 4, *, whole: bool = False) -> CardRequest:
    """A request that allows one card."""
    return CardRequest(units, 1, whole=whole, selection=CardSelection(use=(f"uuid-{index}",)))


@pytest.mark.parametrize("whole", [False, True])
def test_a_pod_that_allows_some_cards_fits_where_one_of_these_has_room(*, whole: bool) -> None:
    node = node_of(8, 16)
    node.add(held("x", "node-1", (1, 14)))
    assert node.fits(only(0, 0 if whole else 4, whole=whole))
    assert not node.fits(only(1, 0 if whole else 4, whole=whole))
    assert not node.fits(only(2, 0 if whole else 4, whole=whole))


def test_a_request_of_nothing_fits_nowhere() -> None:
    assert not node_of(8).fits(asks(0))


def test_a_card_of_one_unit_can_be_given_whole() -> None:
    node = node_of(1)
    assert node.fits(asks_whole())
    assert node.cards[0].is_empty


def test_the_whole_of_a_card_that_is_gone_is_what_its_record_says() -> None:
    node = node_of(8)
    node.add(held("w", "node-1", (0, 8), whole=True))
    node.set_cards([card(1, 4)], GIB_UNIT)
    assert [node.cards[0].share(grant) for grant in node.assignments["uid-w"].grants] == [8]


def test_a_pod_of_whole_cards_has_all_of_each_whatever_its_record_says() -> None:
    node = node_of(8, 4)
    both = held("w", "node-1", (0, 8), (1, 8), whole=True)
    node.add(both)
    assert node.share(both) == 12
    assert node.share(held("m", "node-1", (0, 3), (1, 2))) == 5


def test_a_card_that_a_pod_has_whole_has_no_room_until_it_goes() -> None:
    node = node_of(8)
    node.add(held("w", "node-1", (0, 8), whole=True))
    assert node.cards[0].room_without() == 0
    node.set_cards(cards(16), GIB_UNIT)
    assert node.cards[0].room_without() == 0, "it grew beyond what the record says"
    assert node.cards[0].room_without(8, 1) == 16


def test_a_node_that_is_gone_and_comes_back_serves_what_it_served() -> None:
    node = NodeState("node-1")
    node.set_cards(cards(8), GIB_UNIT, (SERVES_WHOLE,))
    node.add(held("x", "node-1", (0, 8), whole=True))
    node.drop_cards()
    assert not node.cards[0].serves(asks(4))
    assert node.cards[0].serves(asks_whole())
    assert node.copy().name == "node-1"


@pytest.mark.parametrize("request_", [asks(4), asks_whole()])
def test_a_reservation_leaves_what_is_kept_for_others(request_: CardRequest) -> None:
    ledger = Ledger()
    ledger.set_node("node-1", cards(8, 8), GIB_UNIT)
    reserved = ledger.reserve(pod("a"), "node-1", request_, FULLEST, left={0: 0})
    assert [grant.index for grant in reserved.grants] == [1]
    assert reserved.units == (8 if request_.whole else 4)
    assert ledger.stamp("uid-a", 7).assign_time_ns == 7
    assert ledger.assignment("uid-a") == Assignment(pod("a"), "node-1", reserved.grants, assign_time_ns=7)


def test_how_close_whole_cards_would_be_is_asked_of_those_that_are_free() -> None:
    groups = zip(cards(8, 8, 8), ("a", "a", ""), strict=True)
    linked = [msgspec.structs.replace(each, link_group=group) for each, group in groups]
    free, used = NodeState("free"), NodeState("used")
    for node in (free, used):
        node.set_cards(linked, GIB_UNIT)
    free.add(held("x", "free", (2, 8)))
    used.add(held("x", "used", (0, 8)))
    score = POLICIES["spread"].score_node
    assert score(free, asks_whole(2)) > score(used, asks_whole(2))
