"""A fresh count finds what the ledger has wrong, and nothing that is under way; loops repair and settle it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.fit_index import Shape
from gcushare.core.ledger import Drift, FigureDrift
from gcushare.runtime.health import Heartbeat
from gcushare.scheduler_extender import maintenance
from gcushare.scheduler_extender.leadership import AlwaysLeader
from gcushare.scheduler_extender.maintenance import confirm_periodically, recount_periodically
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.scheduler_extender.verbs.request_metrics import RequestMetrics
from gcushare.wire.extender_api import BindArguments
from tests.builders import asks, cards
from tests.extender_objects import a_node, a_pod, on_card, recount, state_of
from tests.unit.extender_cluster import Cluster
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


async def run_until(loop: asyncio.Task[None], holds: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 - the loops tell no one
                await asyncio.sleep(0.001)
    finally:
        loop.cancel()
        await asyncio.wait([loop])


async def test_drift_is_repaired_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    state = state_of(a_node("node-1", 16))
    state.pod_applied(a_pod("a", 4, node="node-1", record=on_card(0, 4)))
    state.ledger.forget("uid-a")
    registry = CollectorRegistry()
    counter = RequestMetrics(registry, ["enflame"]).drifts["enflame"]
    task = asyncio.create_task(recount_periodically([(state, counter)], 0.001, Heartbeat("recount", 60)))
    await run_until(task, lambda: any("ledger repaired" in each.getMessage() for each in caplog.records))

    assert state.ledger.assignment("uid-a") is not None
    assert registry.get_sample_value("gcushare_ledger_drifts_total", {"vendor": "enflame"}) == 1.0
    logged = [record.getMessage() for record in caplog.records]
    assert any("ledger repaired" in line and "drifts=1" in line for line in logged)
    assert any("counted=nothing" in line and "default/a on node-1: 4 of card 0" in line for line in logged)


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
