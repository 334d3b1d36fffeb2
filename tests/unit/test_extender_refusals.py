"""Refused pods are reported: with the numbers, once a minute each, and never on the filter's time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gcushare.scheduler_extender.explain.failed_scheduling_events import (
    BURST_TOKENS,
    NODES_PER_TOKEN,
    REFUSED_REASON,
    TOKENS_PER_S,
    FailedSchedulingReporter,
)
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.vendor_state import VendorState
from tests.extender_objects import a_node, a_pod, on_card, request_of, state_of
from tests.running import running
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

    def refuse(self, name: str, units: int) -> None:
        """Let filter refuse a pod that the watch has brought."""
        pod = a_pod(name, units)
        self.state.pod_applied(pod)
        self.reporter.on_refused(request_of(pod))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with running(self.reporter.run(), "reporter"):
            yield

    async def heard(self) -> None:
        async with asyncio.timeout(60):
            await self.noted.rung.wait()
        self.noted.rung.clear()


def small_state() -> VendorState:
    state = state_of(a_node("node-1", 16))
    state.pod_applied(a_pod("x", 10, node="node-1", record=on_card(0, 10)))
    return state


async def test_a_refused_pod_is_reported_with_the_numbers() -> None:
    bench = Bench(small_state())
    async with bench.running():
        bench.refuse("a", 12)
        await bench.heard()

    ((name, reason, message),) = bench.noted.events
    assert (name, reason) == ("a", REFUSED_REASON)
    assert message.startswith("needs 12 GB in one card; best card free: 6 GB (card 0 of node-1); total free 6 of 16 GB")


async def test_each_pod_is_reported_once_a_minute() -> None:
    bench = Bench(small_state())
    async with bench.running():
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
    async with bench.running():
        await bench.heard()
        await bench.time.settle()

    assert [name for name, _, _ in bench.noted.events] == ["b"]


@pytest.mark.slow
async def test_a_crowd_of_refused_pods_is_bounded() -> None:
    bench = Bench(small_state())
    for number in range(1000):
        bench.refuse(f"p{number}", 12)

    assert bench.noted.events == []
    assert bench.reporter.counters["dropped"] == 1000 - 256
    async with bench.running():
        async with asyncio.timeout(60):
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
    async with bench.running():
        async with asyncio.timeout(60):
            while len(reported) < 2:
                await bench.heard()
        for _ in range(nodes):  # As many turns as a third explanation would take.
            await asyncio.sleep(0)
        assert len(reported) == 2
        await bench.time.pass_(nodes / NODES_PER_TOKEN / TOKENS_PER_S)
        async with asyncio.timeout(60):
            while len(reported) < 3:
                await bench.heard()
