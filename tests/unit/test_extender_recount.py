"""A fresh count finds what the ledger has wrong, and nothing that is under way."""

from __future__ import annotations

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.fit_index import Shape
from gcushare.core.ledger import Drift, FigureDrift
from gcushare.scheduler_extender import maintenance
from tests.builders import asks, cards
from tests.extender_objects import a_node, recount, state_of
from tests.unit.test_extender_state import bound, largest, used


def test_drift_is_found_and_repaired() -> None:
    state = state_of(a_node("node-1", 16, 16))
    for name in ("a", "b"):
        state.pod_applied(bound(name))
    state.ledger.forget("uid-a")
    state.ledger.apply(Assignment(PodRef("uid-ghost", "default", "ghost"), "node-1", ()))

    assert [drift.uid for drift in recount(state) if isinstance(drift, Drift)] == ["uid-a", "uid-ghost"]
    assert used(state) == {0: 8, 1: 0}
    assert recount(state) == []


def test_a_cached_answer_that_does_not_follow_from_the_cards_is_found_and_repaired() -> None:
    state = state_of(a_node("node-1", 16))
    state.ledger.nodes["node-1"].largest_free = 7

    (drift,) = recount(state)
    assert isinstance(drift, FigureDrift)
    assert drift.where == "node-1"
    assert largest(state) == 16
    assert recount(state) == []


def test_an_order_of_nodes_that_missed_a_change_is_found_and_repaired() -> None:
    state = state_of(a_node("node-1", 16), a_node("node-2", 16))
    shape = Shape(asks(12), "binpack")
    assert state.indexes.get(shape).fits("node-1")
    node = state.ledger.nodes["node-1"]
    node.set_cards(cards(8), node.unit)  # Past the ledger, which tells the order of nodes of each change.
    assert state.indexes.get(shape).fits("node-1")

    (drift,) = recount(state)
    assert isinstance(drift, FigureDrift)
    assert drift.where == "node-1"
    assert not state.indexes.get(shape).fits("node-1")
    assert recount(state) == []


def test_what_is_reported_between_two_steps_is_no_drift() -> None:
    state = state_of(a_node("node-1", 16, 16))
    state.pod_applied(bound("a"))
    state.pod_applied(bound("b"))
    steps = maintenance.recount(state)
    found = next(steps)
    state.pod_applied(bound("a", card_index=1))
    state.pod_deleted("uid-b")
    state.pod_applied(bound("c"))

    assert [*found, *(drift for some in steps for drift in some)] == []
