"""Orders of nodes, sums and recounts: what follows changes is what a look at every node says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.cards import SERVES_CLAIMS, SERVES_WHOLE, Closure, UnrecordedHolder
from gcushare.core.change_log import MAX_LOGGED_CHANGES, ChangeLog, NameLog
from gcushare.core.fit_index import SCORED_PER_CALL, FitIndex, FitIndexes, Shape, can_ever_fit
from gcushare.core.ledger import Drift, FigureDrift, Ledger
from gcushare.core.totals import ClusterTotals
from gcushare.core.units import parse_memory_unit
from gcushare.runtime.health import Heartbeat
from gcushare.scheduler_extender import maintenance
from gcushare.scheduler_extender.leadership import AlwaysLeader
from gcushare.scheduler_extender.maintenance import confirm_periodically, recount_periodically
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.scheduler_extender.verbs.request_metrics import RequestMetrics
from gcushare.wire.extender_api import BindArguments
from tests.builders import GIB_UNIT, asks, asks_whole, card, cards, held, pod
from tests.extender_objects import a_node, a_pod, on_card, recount, state_of
from tests.unit.extender_cluster import Cluster
from tests.unit.test_extender_state import bound, largest, used


@pytest.mark.slow
@given(st.lists(st.sampled_from("abc"), max_size=60), st.integers(0, 70))
def test_a_reader_of_the_log_learns_what_was_noted_after_its_position_or_that_it_cannot_know(
    names: list[str], position: int
) -> None:
    log = NameLog()
    for name in names:
        log.record(name)

    assert log.since(position) == set(names[position:])


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
    assert index._due

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


async def run_until(loop: asyncio.Task[None], holds: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 - the loops tell no one
                await asyncio.sleep(0.001)
    finally:
        loop.cancel()
        await asyncio.wait([loop])


async def test_drift_is_repaired_and_counted() -> None:
    state = state_of(a_node("node-1", 16))
    state.pod_applied(a_pod("a", 4, node="node-1", record=on_card(0, 4)))
    state.ledger.forget("uid-a")
    registry = CollectorRegistry()
    counter = RequestMetrics(registry, ["enflame"]).drifts["enflame"]
    task = asyncio.create_task(recount_periodically([(state, counter)], 0.001, Heartbeat("recount", 60)))
    await run_until(
        task, lambda: bool(registry.get_sample_value("gcushare_ledger_drifts_total", {"vendor": "enflame"}))
    )
    assert state.ledger.assignment("uid-a") is not None


async def test_a_reservation_without_its_watch_event_is_settled_by_reading() -> None:
    state = state_of(a_node("node-1", 16))
    state.pod_applied(a_pod("a", 4))
    cluster = Cluster(a_pod("a", 4))
    binds = BindService(state, cluster.client, AlwaysLeader(), times=BindTimes())
    await binds.bind(BindArguments(PodRef("uid-a", "default", "a"), "node-1"))
    assert state.ledger.is_reserved("uid-a")

    await run_until(asyncio.create_task(confirm_periodically([binds], 0.003)), lambda: not state.ledger.reserved)

    assert cluster.reads == 1
    assert set(state.bound) == {"uid-a"}


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
    assert found.keys() == {node.unit.name for node in known if node.unit}
    for unit, each in found.items():
        here = [node for node in known if node.unit and node.unit.name == unit]
        states = [state for node in here for state in node.cards.values()]
        assert (each.nodes, each.pods) == (len(here), sum(len(node.assignments) for node in here))
        assert (each.total, each.granted) == (sum(node.total for node in here), sum(node.used for node in here))
        assert each.free == sum(state.grantable for state in states)
        assert each.largest_free == max((state.grantable for state in states), default=0)
        for request in (*map(asks, (1, 4, 9, 16, 17)), *map(asks_whole, (1, 2, 3))):
            assert each.fits(request) == any(node.fits(request) for node in here)
            assert each.can_ever_fit(request) == any(can_ever_fit(node, request) for node in here)
        assert each.modes == Counter(state.mode for state in states if state.card is not None)


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
