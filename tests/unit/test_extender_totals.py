"""Sums that follow changes are the sums of a look at every node."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.assignments import Assignment
from gcushare.core.cards import SERVES_CLAIMS, SERVES_WHOLE, Closure, UnrecordedHolder
from gcushare.core.change_log import ChangeLog
from gcushare.core.fit_index import can_ever_fit
from gcushare.core.ledger import Ledger
from gcushare.core.totals import ClusterTotals
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


@pytest.mark.slow
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
