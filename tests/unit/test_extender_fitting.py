"""The index over a ledger says what looking at every node would say, whatever changed in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.change_log import MAX_LOGGED_CHANGES, ChangeLog, NameLog
from gcushare.core.fit_index import SCORED_PER_CALL, FitIndex, FitIndexes, Shape
from gcushare.core.ledger import Ledger
from tests.builders import GIB_UNIT, asks, cards, held


@pytest.mark.slow
@given(st.lists(st.sampled_from("abc"), max_size=60), st.integers(0, 70))
def test_a_reader_of_the_log_learns_what_was_noted_after_its_position_or_that_it_cannot_know(
    names: list[str], position: int
) -> None:
    log = NameLog()
    for name in names:
        log.record(name)

    reported = log.since(position)

    assert reported == set(names[position:])


def test_the_nodes_that_would_fit_without_their_pods_follow_each_change_and_many_at_once() -> None:
    ledger = Ledger()
    names = [f"n-{number}" for number in range(10)]
    for name in names:
        ledger.set_node(name, cards(16), GIB_UNIT)
        ledger.apply(held(f"p-{name}", name, (0, 16)))
    index = FitIndex(ledger.nodes, ChangeLog(ledger), Shape(asks(12), "binpack"))
    index.refresh()
    assert (set(index.fitting), set(index.after_preemption)) == (set(), set(names))
    for size, changed, left in ((8, names[:1], names[1:]), (16, names[:1], names), (8, names[:9], names[9:])):
        for name in changed:
            ledger.set_node(name, cards(size), GIB_UNIT)
        index.refresh()
        assert set(index.after_preemption) == set(left)
    ledger.remove_node("n-9")
    ledger.forget("uid-p-n-9")
    index.refresh()
    assert not index.after_preemption


def test_nodes_that_are_gone_are_not_kept_under_their_names() -> None:
    """Autoscaled nodes never come back under their names: what an index holds is bounded by the nodes that fit."""
    ledger = Ledger()
    index = FitIndex(ledger.nodes, ChangeLog(ledger), Shape(asks(4), "spread"))
    for number in range(40):
        for name in (f"spot-{number}", *(f"calm-{each}" for each in range(20))):
            ledger.set_node(name, cards(16), GIB_UNIT)
        index.refresh()
        assert index.scores([f"spot-{number}"]) == [10]
        ledger.remove_node(f"spot-{number}")
        index.refresh()

    assert set(index.fitting) == ledger.nodes.keys() == {f"calm-{each}" for each in range(20)}
    assert index.scores(["spot-3"]) == [0]


@pytest.mark.slow
def test_an_index_that_fell_behind_looks_at_every_node_again() -> None:
    ledger = Ledger()
    index = FitIndex(ledger.nodes, ChangeLog(ledger), Shape(asks(4), "binpack"))
    ledger.set_node("node-0", cards(16), GIB_UNIT)
    index.refresh()
    for _ in range(MAX_LOGGED_CHANGES + 1):
        ledger.set_node("node-1", cards(16), GIB_UNIT)
    ledger.remove_node("node-0")
    index.refresh()

    assert set(index.fitting) == {"node-1"}


def test_the_index_unused_for_longest_makes_room() -> None:
    ledger = Ledger()
    indexes = FitIndexes(ledger.nodes, ChangeLog(ledger), limit=2)
    first, second = indexes.get(Shape(asks(1), "binpack")), indexes.get(Shape(asks(2), "binpack"))
    assert indexes.get(Shape(asks(1), "binpack")) is first

    indexes.get(Shape(asks(3), "binpack"))

    assert indexes.get(Shape(asks(1), "binpack")) is first
    assert indexes.get(Shape(asks(2), "binpack")) is not second


def test_nodes_that_are_not_scored_yet_come_after_the_others_the_fullest_first() -> None:
    ledger = Ledger()
    for number in range(20):
        ledger.set_node(f"n-{number:02d}", cards(16, 16), GIB_UNIT)
        ledger.apply(held(f"p{number}", f"n-{number:02d}", (0, number % 10 + 1)))
    indexes = FitIndexes(ledger.nodes, ChangeLog(ledger), slow={"expected-fill": lambda _node, _shape: 0.5})
    index = indexes.get(Shape(asks(4), "expected-fill"))
    plain = FitIndexes(ledger.nodes, ChangeLog(ledger)).get(Shape(asks(4), "binpack"))
    everywhere = dict.fromkeys(ledger.nodes)
    order = plain.best(everywhere, 20)
    first = sorted(order[:SCORED_PER_CALL])
    assert index.best(everywhere, 20) == [*first, *order[SCORED_PER_CALL:]]


@pytest.mark.parametrize("lost", range(SCORED_PER_CALL))
def test_a_call_does_not_name_a_node_by_an_old_score_while_it_may_score_more(lost: int) -> None:
    ledger = Ledger()
    for number in range(60):
        ledger.set_node(f"n-{number:02d}", cards(16), GIB_UNIT)
    names = dict.fromkeys(ledger.nodes)
    value = {name: (99 - number) / 100 for number, name in enumerate(names)}
    indexes = FitIndexes(ledger.nodes, ChangeLog(ledger), slow={"expected-fill": lambda node, _: value[node.name]})
    index = indexes.get(Shape(asks(4), "expected-fill"))
    while indexes.score_due(1):
        pass
    changed = [*list(names)[:lost], *list(names)[20:50]]
    for name in changed:
        value[name] = 0.0
        indexes.score_node_again(name)
    index.refresh()
    assert index.best(names, 1) == [f"n-{lost:02d}"]
    assert index.due > 0

    value["n-20"] = 1.0
    indexes.score_node_again("n-20")
    index.refresh()
    assert index.best(names, 1) == ["n-20"], "what changed last is scored first"


def test_preferences_that_change_do_not_empty_the_order_while_nodes_are_scored_again() -> None:
    ledger = Ledger()
    for number in range(10):
        ledger.set_node(f"n-{number}", cards(16), GIB_UNIT)
    sign = 1
    indexes = FitIndexes(
        ledger.nodes, ChangeLog(ledger), slow={"expected-fill": lambda node, _: 0.5 + sign * int(node.name[2:]) / 100}
    )
    index = indexes.get(Shape(asks(4), "expected-fill"))
    while indexes.score_due(1):
        pass
    assert index.best(dict.fromkeys(ledger.nodes), 2) == ["n-9", "n-8"]
    sign = -1
    indexes.score_again("expected-fill")
    assert len(index.best(dict.fromkeys(ledger.nodes), 10)) == 10
    while indexes.score_due(1):
        pass
    assert index.best(dict.fromkeys(ledger.nodes), 2) == ["n-0", "n-1"]
