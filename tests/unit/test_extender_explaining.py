"""Refused pods are told of: with the numbers, once a minute each, and never on the filter's time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gcushare.core.errors import NotFoundError
from gcushare.scheduler_extender.asking import Asking, Policies, read_asking
from gcushare.scheduler_extender.explaining import REFUSED_REASON, ExplainService, RefusalReporter
from gcushare.scheduler_extender.state import VendorState
from gcushare.vendors import ENFLAME
from gcushare.wire.objects import ObjectReference
from tests.extender_objects import a_node, a_pod, on_card, state_of


@dataclass
class Noted:
    """Events as they were handed over, and a bell that rings for each."""

    events: list[tuple[str, str, str]] = field(default_factory=list)
    rung: asyncio.Event = field(default_factory=asyncio.Event)

    def record(self, about: ObjectReference, reason: str, message: str, *, warning: bool = False) -> None:
        assert warning
        self.events.append((about.name, reason, message))
        self.rung.set()


class Bench:
    """A reporter on a clock that is set by hand."""

    def __init__(self, state: VendorState) -> None:
        self.now_s = 100.0
        self.noted = Noted()
        self.reporter = RefusalReporter(ExplainService(state), self.noted, monotonic=lambda: self.now_s)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.reporter.run(), name="reporter")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def heard(self) -> None:
        async with asyncio.timeout(5):
            await self.noted.rung.wait()
        self.noted.rung.clear()


def asking(name: str, units: int) -> Asking:
    found = read_asking(a_pod(name, units), ENFLAME, Policies())
    assert found is not None
    return found


def small_state() -> VendorState:
    state = state_of(a_node("node-1", 16))
    state.see_pod(a_pod("x", 10, node="node-1", record=on_card(0, 10)))
    return state


async def test_a_refused_pod_is_told_with_the_numbers() -> None:
    bench = Bench(small_state())
    async with bench.running():
        bench.reporter.note(asking("a", 12))
        await bench.heard()

    ((name, reason, message),) = bench.noted.events
    assert (name, reason) == ("a", REFUSED_REASON)
    assert message.startswith("needs 12 in one card; best card free: 6 (card 0 of node-1); total free 6 of 16")


async def test_each_pod_is_told_once_a_minute() -> None:
    bench = Bench(small_state())
    async with bench.running():
        for now_s in (100.0, 130.0, 159.9):
            bench.now_s = now_s
            bench.reporter.note(asking("a", 12))
        await bench.heard()
        bench.reporter.note(asking("b", 12))
        await bench.heard()
        bench.now_s = 160.0
        bench.reporter.note(asking("a", 12))
        await bench.heard()

    assert [name for name, _, _ in bench.noted.events] == ["a", "b", "a"]


async def test_a_pod_that_fits_when_it_is_its_turn_is_not_told() -> None:
    state = small_state()
    bench = Bench(state)
    bench.reporter.note(asking("a", 12))
    bench.reporter.note(asking("b", 20))
    state.lose_pod("uid-x")
    async with bench.running():
        await bench.heard()

    assert [name for name, _, _ in bench.noted.events] == ["b"]


async def test_a_crowd_of_refused_pods_is_bounded() -> None:
    bench = Bench(small_state())
    for number in range(1000):
        bench.reporter.note(asking(f"p{number}", 12))

    assert bench.noted.events == []
    bench.now_s = 300.0
    async with bench.running():
        async with asyncio.timeout(10):
            while len(bench.noted.events) < 256:
                await bench.heard()


async def test_a_pod_whose_binding_is_under_way_is_explained_by_its_card() -> None:
    state = state_of(a_node("node-1", 16))
    state.see_pod(a_pod("a", 4))
    found = state.find_asking("uid-a")
    assert found is not None
    state.ledger.reserve(found.pod, "node-1", found.request.cards, found.card_policy)

    assert (await ExplainService(state).explain("default", "a")).state == "bound"


async def test_a_pod_that_fits_is_told_so() -> None:
    state = state_of(a_node("node-1", 16))
    state.see_pod(a_pod("a", 4))
    document = await ExplainService(state).explain("default", "a")

    assert (document.state, document.can_ever_fit) == ("fits", True)
    assert document.summary == "needs 4 in one card; it fits now"


async def test_a_pod_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(NotFoundError, match="default/a"):
        await ExplainService(state_of()).explain("default", "a")


async def test_explaining_a_large_cluster_gives_others_a_turn() -> None:
    state = state_of(*(a_node(f"node-{number}", 16) for number in range(300)))
    state.see_pod(a_pod("a", 20))
    explaining = asyncio.create_task(ExplainService(state).explain("default", "a"))
    turns = 0
    while not explaining.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns >= 4
    assert explaining.result().classes[0].nodes == 300
