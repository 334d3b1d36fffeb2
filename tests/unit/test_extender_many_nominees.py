"""Very many pods that preempt: what is kept for them costs one pass, and others get their turns in between."""

from __future__ import annotations

import asyncio

import pytest

from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from tests.extender_objects import a_node, a_pod, known_request, state_of

NOMINEES = 64


class Crowd:
    """A nominee on each node, equally important, and waiting pods; each pass reads the clock once."""

    def __init__(self) -> None:
        self.passes = 0
        self.state: VendorState = state_of(
            *(a_node(f"node-{number}", 16) for number in range(NOMINEES)), monotonic=self._now_s
        )
        self.nominees = [self.see(f"nominee-{number}", 16, nominated=f"node-{number}") for number in range(NOMINEES)]
        self.passes = 0

    def _now_s(self) -> float:
        self.passes += 1
        return 0.0

    def see(self, name: str, units: int, *, nominated: str = "") -> SchedulingRequest:
        self.state.pod_applied(a_pod(name, units, priority=100, nominated=nominated))
        return known_request(self.state, name)


def test_all_nominees_are_gone_through_once_whatever_their_nodes() -> None:
    crowd = Crowd()
    closed = crowd.state.nominations.closed_to(crowd.see("late", 8))
    assert (closed, crowd.passes) == (frozenset(crowd.state.ledger.nodes), 1)
    assert len(crowd.state.nominations.closed_to(crowd.nominees[9])) == 9, "those nominated before it"


@pytest.mark.slow
async def test_pods_that_ask_alike_are_found_by_one_look_but_for_each_nominee_and_others_get_their_turns() -> None:
    crowd = Crowd()
    late = [crowd.see(f"late-{number}", 16) for number in range(NOMINEES)]
    explains = ExplainService(crowd.state)
    question = explains.question_of(late[0])
    crowd.passes = turns = 0
    seeking = asyncio.create_task(explains.find_alike(question, [*crowd.nominees, *late]), name="seek")
    while not seeking.done():
        await asyncio.sleep(0)
        turns += 1

    assert seeking.result() == late, "to each nominee fewer nodes are closed"
    assert crowd.passes == NOMINEES + 1
    assert turns >= NOMINEES
