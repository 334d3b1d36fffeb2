"""Sums that follow changes are the sums of a look at every node."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.cards import SERVES_CLAIMS, SERVES_WHOLE, Closure, UnrecordedHolder
from gcushare.core.fit_index import ChangeLog, can_ever_fit
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import Assignment, CardMode
from gcushare.core.totals import ClusterTotals, UnitTotals
from gcushare.core.units import parse_memory_unit
from tests.builders import GIB_UNIT, asks, asks_whole, card, cards, held, pod

steps = st.lists(
    st.tuples(
        st.sampled_from(["set", "set fine", "remove", "hold", "forget", "ask"]),
        st.integers(0, 3),
        st.integers(0, 2),
        st.integers(1, 16),
    ),
    max_size=30,
)


@given(steps)
def test_totals_that_follow_changes_are_those_of_every_node(changes: list[tuple[str, int, int, int]]) -> None:
    ledger = Ledger()
    totals = ClusterTotals(ledger, ChangeLog(ledger))
    for kind, node, index, units in changes:
        match kind:
            case "set":
                ledger.set_node(f"node-{node}", cards(*[units] * index), GIB_UNIT)
            case "set fine":
                ledger.set_node(f"node-{node}", cards(*[units] * index), parse_memory_unit("MiB"))
            case "remove":
                ledger.remove_node(f"node-{node}")
            case "hold":
                ledger.apply(held(f"p{units}", f"node-{node}", (index, units)))
            case "forget":
                ledger.forget(f"uid-p{units}")
            case _:
                totals.by_unit()

    known = [node for node in ledger.nodes.values() if node.known]
    found = totals.by_unit()
    assert {unit: (each.nodes, each.total, each.granted, each.pods) for unit, each in found.items()} == {
        unit: (
            len(nodes),
            sum(node.total for node in nodes),
            sum(node.used for node in nodes),
            sum(len(node.assignments) for node in nodes),
        )
        for unit in {node.unit.name for node in known if node.unit}
        for nodes in [[node for node in known if node.unit and node.unit.name == unit]]
    }
    for unit, each in found.items():
        states = [s for node in known if node.unit and node.unit.name == unit for s in node.cards.values()]
        assert each.free == sum(s.grantable for s in states)
        assert each.largest_free == max((s.grantable for s in states), default=0)
        here = [node for node in known if node.unit and node.unit.name == unit]
        for request in (*map(asks, (1, 4, 9, 16, 17)), *map(asks_whole, (1, 2, 3))):
            assert each.fits(request) == any(node.fits(request) for node in here)
            assert each.can_ever_fit(request) == any(can_ever_fit(node, request) for node in here)
        assert each.modes == Counter(s.mode for s in states if s.card is not None)


def test_what_claims_give_is_free_and_is_not_for_requests_that_the_extender_places() -> None:
    ledger = Ledger()
    totals = ClusterTotals(ledger, ChangeLog(ledger))
    ledger.set_node("claims", cards(16, 16), GIB_UNIT, (SERVES_CLAIMS,))
    ledger.set_node("memory", cards(4), GIB_UNIT)
    found = totals.by_unit()["GiB"]
    assert (found.free, found.largest_free) == (36, 16)
    assert [found.fits(asks(4)), found.fits(asks(5)), found.fits_in_sum(asks(5))] == [True, False, False]
    ledger.apply(held("a", "claims", (0, 6)))
    found = totals.by_unit()["GiB"]
    assert (found.free, found.largest_free, found.fragmentation(16)) == (30, 16, 14 / 30)


def test_fragmentation_is_the_share_of_free_units_in_cards_too_small_for_the_request() -> None:
    ledger = Ledger()
    totals = ClusterTotals(ledger, ChangeLog(ledger))
    ledger.set_node("node-1", [card(0, 16), card(1, 4), card(2, 12), card(3, 64, sick=True)], GIB_UNIT)
    found = totals.by_unit()["GiB"]

    assert [found.fragmentation(size) for size in (1, 5, 13, 17)] == [0.0, 4 / 32, 16 / 32, 1.0]
    assert found.sizes() == [1, 2, 4, 8, 16]


def test_a_size_that_fits_nowhere_any_more_is_reported_as_lost_and_not_left_out() -> None:
    ledger = Ledger()
    totals = ClusterTotals(ledger, ChangeLog(ledger))
    ledger.set_node("node-1", cards(16, 16), GIB_UNIT)
    for index in (0, 1):
        ledger.apply(held(f"p{index}", "node-1", (index, 9)))
    found = totals.by_unit()["GiB"]

    assert {size: found.fragmentation(size) for size in found.sizes()} == {1: 0.0, 2: 0.0, 4: 0.0, 8: 1.0, 16: 1.0}


def test_totals_that_many_changes_stand_before_are_left_to_callers_that_can_wait() -> None:
    ledger = Ledger()
    totals = ClusterTotals(ledger, ChangeLog(ledger))
    for number in range(5):
        ledger.set_node(f"node-{number}", cards(16), GIB_UNIT)

    assert totals.by_unit_within(4) is None
    assert totals.by_unit()["GiB"].nodes == 5
    for number in range(2):
        ledger.remove_node(f"node-{number}")
    assert totals.by_unit_within(1) is None
    found = totals.by_unit_within(2)
    assert found is not None
    assert found["GiB"].nodes == 3


def test_cards_are_distinguished_by_their_use_and_whether_new_pods_may_come() -> None:
    ledger = Ledger()
    totals = ClusterTotals(ledger, ChangeLog(ledger))
    ledger.set_node("node-1", [*cards(16, 16, 16), card(3, 16, sick=True), card(4, 16, cordoned=True)], GIB_UNIT)
    ledger.apply(held("a", "node-1", (0, 4)))
    ledger.apply(held("b", "node-1", (3, 4)))
    ledger.apply(held("c", "node-1", (1, 0), whole=True))
    found = totals.by_unit()["GiB"]

    assert found.modes == {CardMode.FREE: 2, CardMode.SHARED: 2, CardMode.WHOLE: 1}
    assert (found.unusable, found.largest_free) == (2, 16)
    assert [found.fits_in_sum(asks_whole(count)) for count in (1, 2)] == [True, False]
    assert [found.fits_in_sum(asks(units)) for units in (28, 29)] == [True, False]


def test_nothing_free_is_not_fragmented() -> None:
    assert UnitTotals().fragmentation(4) == 0.0
    assert UnitTotals().sizes() == []


def test_what_is_held_without_a_record_kept_or_closed_is_counted_and_taken_away_again() -> None:
    ledger = Ledger()
    totals = ClusterTotals(ledger, ChangeLog(ledger))
    closed = msgspec.structs.replace(
        card(0), closures=(Closure(use=SERVES_WHOLE, pod="d/gone"), Closure(use=SERVES_WHOLE, pod="d/b"))
    )
    holder = UnrecordedHolder(pod="d/odd", units={1: 12})
    ledger.set_node("node-1", [closed, card(1)], GIB_UNIT, unrecorded=[holder])
    ledger.apply(Assignment(pod("young"), "node-1", (), unplaced=3))
    found = totals.by_unit()["GiB"]
    assert (found.unrecorded, found.granted, found.unplaced, found.closed) == (12, 12, 3, {SERVES_WHOLE: 1})
    ledger.forget("uid-young")
    ledger.set_node("node-1", cards(16, 16), GIB_UNIT)
    found = totals.by_unit()["GiB"]
    assert (found.unrecorded, found.granted, found.unplaced, found.closed) == (0, 0, 0, {})
