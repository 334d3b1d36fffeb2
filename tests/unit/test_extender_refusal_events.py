"""Refused pods are reported with the numbers, never at others' expense."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gcushare.cluster.explaining import Question
from gcushare.core.cards import BOTH_MODES, SERVES_CLAIMS, SERVES_MEMORY
from gcushare.core.explain.explanation import Explanation
from gcushare.scheduler_extender.explain.failed_scheduling_events import (
    BURST_TOKENS,
    NODES_PER_TOKEN,
    REFUSED_REASON,
    SETTLE_S,
    TOKENS_PER_S,
    FailedSchedulingReporter,
)
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.vendor_state import VendorState
from tests.extender_objects import (
    a_node,
    a_pod,
    on_card,
    pod_document,
    request_of,
    state_of,
)
from tests.running import running
from tests.unit.extender_desk import answer_of
from tests.unit.kube_time import VirtualTime
from tests.unit.noted_events import Noted


class Bench:
    """A reporter on virtual time."""

    def __init__(self, state: VendorState) -> None:
        self.state = state
        self.time = VirtualTime()
        self.noted = Noted()
        self.explains = ExplainService(state)
        self.reporter = FailedSchedulingReporter(self.explains, self.noted, clock=self.time.clock())

    def refuse(self, name: str, units: int = 4, **options: Any) -> None:
        """Let filter refuse a pod that the watch has brought."""
        pod = a_pod(name, units, **options)
        self.state.pod_applied(pod)
        self.reporter.on_refused(request_of(pod))

    async def heard(self) -> None:
        async with asyncio.timeout(10):
            await self.time.pass_(SETTLE_S)
            await self.noted.rung.wait()
        self.noted.rung.clear()


def small_state() -> VendorState:
    state = state_of(a_node("node-1", 16))
    state.pod_applied(a_pod("x", 10, node="node-1", record=on_card(0, 10)))
    return state


async def test_a_refused_pod_is_reported_with_the_numbers() -> None:
    bench = Bench(small_state())
    async with running(bench.reporter.run(), "reporter"):
        bench.refuse("a", 12)
        await bench.heard()

    ((name, reason, message),) = bench.noted.events
    assert (name, reason) == ("a", REFUSED_REASON)
    assert message.startswith("needs 12 GB in one card; best card free: 6 GB (card 0 of node-1); total free 6 of 16 GB")


async def test_each_pod_is_reported_once_a_minute() -> None:
    bench = Bench(small_state())
    async with running(bench.reporter.run(), "reporter"):
        for wait_s in (0.0, 30.0, 29.9):
            bench.time.now_s += wait_s
            bench.refuse("a", 12)
        await bench.heard()
        bench.refuse("b", 12)
        await bench.heard()
        bench.time.now_s += 0.1
        bench.refuse("a", 12)
        await bench.heard()

    assert [name for name, _, _ in bench.noted.events] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("change", "other"),
    [
        pytest.param(lambda state: state.pod_deleted("uid-x"), 20, id="it fits"),
        pytest.param(
            lambda state: state.pod_applied(a_pod("a", 4, node="node-1", record=on_card(0, 4))),
            12,
            id="it has its cards",
        ),
        pytest.param(lambda state: state.pod_deleted("uid-a"), 12, id="it is gone"),
    ],
)
async def test_a_pod_that_waits_no_more_when_it_is_its_turn_is_not_reported(
    change: Callable[[VendorState], None], other: int
) -> None:
    """Where the other pod asks alike, both share one explanation, and only one of them hears it."""
    bench = Bench(small_state())
    bench.refuse("a", 12)
    bench.refuse("b", other)
    change(bench.state)
    async with running(bench.reporter.run(), "reporter"):
        await bench.time.pass_(SETTLE_S)
        await bench.heard()

    assert [name for name, _, _ in bench.noted.events] == ["b"]


@pytest.mark.parametrize("mode", [SERVES_MEMORY, SERVES_CLAIMS])
async def test_a_pod_that_fits_after_its_nominated_node_was_asked_about_alone_is_not_reported(mode: str) -> None:
    state = state_of(a_node("node-1", 16, modes=BOTH_MODES), a_node("node-2", 16, modes=(mode,)))
    state.pod_applied(a_pod("x", 10, node="node-1", record=on_card(0, 10)))
    asks: dict[str, Any] = {"units": 12} if mode == SERVES_MEMORY else {"whole": 1}
    bench = Bench(state)
    async with running(bench.reporter.run(), "reporter"):
        bench.refuse("a", **asks)
        assert answer_of(state, pod_document("a", **asks), "node-1")["NodeNames"] == []
        assert answer_of(state, pod_document("a", **asks), "node-1", "node-2")["NodeNames"] == ["node-2"]
        bench.refuse("b", 20)
        await bench.time.pass_(SETTLE_S)
        await bench.heard()
        assert [name for name, _, _ in bench.noted.events] == ["b"]
        state.pod_applied(a_pod("y", 10, node="node-2", record=on_card(0, 10)))
        bench.refuse("a", 12)
        await bench.heard()

    assert [name for name, _, _ in bench.noted.events] == ["b", "a"], "it was not reported before"


async def test_what_was_said_of_a_node_whose_cards_were_not_known_is_corrected_once_they_are() -> None:
    """The kubelet of a node that has just joined counts its cards before the extender has read their record."""
    bench = Bench(small_state())
    bench.state.refused_on.record("uid-a", frozenset({"node-1", "node-2"}))
    async with running(bench.reporter.run(), "reporter"):
        bench.refuse("a", 20)
        await bench.heard()
        bench.state.node_applied(a_node("node-3", 8))
        bench.state.node_applied(a_node("node-2", 16))
        await bench.heard()
        bench.state.node_applied(a_node("node-2", 16, 16))
        await bench.time.pass_(SETTLE_S)

    first, second = (message for _, _, message in bench.noted.events)
    assert first == (
        "needs 20 GB in one card; best card free: 6 GB (card 0 of node-1); total free 6 of 16 GB; 1 node: no card that "
        "is large enough; 1 node: its cards are not known yet, or cannot be read; it may fit once the cards of node-2 "
        "are known"
    )
    assert second.endswith("it can never fit: the largest usable card has 16 GB, of the nodes asked about")
    assert bench.noted.corrections == [second]


async def test_nothing_is_corrected_of_a_pod_that_fits_once_the_cards_are_known() -> None:
    bench = Bench(small_state())
    bench.state.refused_on.record("uid-a", frozenset({"node-2"}))
    async with running(bench.reporter.run(), "reporter"):
        bench.refuse("a", 12)
        await bench.heard()
        bench.state.node_applied(a_node("node-2", 16))
        await bench.time.pass_(SETTLE_S)

    ((_, _, message),) = bench.noted.events
    assert message.endswith("it may fit once the cards of node-2 are known")


async def test_an_explanation_that_cards_overtook_is_not_reported() -> None:
    bench = Bench(small_state())
    bench.state.refused_on.record("uid-a", frozenset({"node-2"}))
    gather = bench.explains.gather

    async def gather_late(question: Question) -> Explanation:
        found = await gather(question)
        bench.state.node_applied(a_node("node-2", 8))
        return found

    bench.explains.gather = gather_late  # type: ignore[method-assign]
    async with running(bench.reporter.run(), "reporter"):
        bench.refuse("a", 12)
        await bench.time.pass_(SETTLE_S)
        await bench.heard()

    ((_, _, message),) = bench.noted.events
    assert "node-2 are known" not in message
    assert message.startswith("needs 12 GB in one card; kube-scheduler asked about 1 of 2 nodes")


@pytest.mark.slow
async def test_nodes_whose_cards_stay_unknown_are_bounded() -> None:
    bench = Bench(small_state())
    async with running(bench.reporter.run(), "reporter"):
        for number in range(70):
            bench.state.refused_on.record(f"uid-p{number}", frozenset({f"new-{number:02}"}))
            bench.refuse(f"p{number}", 12)
            await bench.heard()
        for number in range(70):
            bench.state.node_applied(a_node(f"new-{number:02}", 8))
        for _ in range(140):
            await bench.time.pass_(0.1)

    assert [name for name, _, _ in bench.noted.events[70:]] == [f"p{number}" for number in range(6, 70)]


@pytest.mark.slow
async def test_a_crowd_of_refused_pods_is_bounded() -> None:
    bench = Bench(small_state())
    for number in range(1000):
        bench.refuse(f"p{number}", 12)

    assert bench.noted.events == []
    assert bench.reporter.counters["dropped"] == 1000 - 256
    async with running(bench.reporter.run(), "reporter"):
        while len(bench.noted.events) < 256:
            await bench.heard()


# A large cluster, again and again.
@pytest.mark.slow
async def test_explaining_a_large_cluster_again_and_again_is_paced() -> None:
    nodes = NODES_PER_TOKEN * BURST_TOKENS // 2
    state = state_of(a_node("node-1", 16), *(a_node(f"node-{number}", 8) for number in range(2, nodes + 1)))
    bench = Bench(state)
    for units in range(20, 26):  # Each its own explanation.
        bench.refuse(f"asks-{units}", units)
    reported = bench.noted.events
    async with running(bench.reporter.run(), "reporter"):
        while len(reported) < 2:
            await bench.heard()
        for _ in range(nodes):  # As many turns as a third explanation would take.
            await asyncio.sleep(0)
        assert len(reported) == 2
        await bench.time.pass_(nodes / NODES_PER_TOKEN / TOKENS_PER_S)
        while len(reported) < 3:
            await bench.heard()
