"""Students on one card: pods that ask for ``aliyun.com/gpu-count: 1`` and 5 GiB share a card of 14, as published.

With kube-scheduler of today and of 1.20.2, and with the kubelet's own admission, which counts what the Node shows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from gcushare.core.units import GIB
from gcushare.vendors import ALIYUN
from gcushare_playground.picture import node_of, phase_of
from gcushare_playground.plans import NodePlan
from tests.e2e.control_plane import NODE
from tests.e2e.machine import Machine
from tests.e2e.node_side import NodeSide, real_pod
from tests.e2e.objects import JsonObject
from tests.e2e.older_api import OlderApi
from tests.e2e.scheduling import Scheduling

ONE = NodePlan(name=NODE, card_bytes=(14 * GIB,))
COUNT, MEMORY = ALIYUN.count_resource, ALIYUN.memory_resource


def student(name: str, units: int = 5) -> JsonObject:
    """The pod of the text: one card, and so much of its memory."""
    body = real_pod(name, units, vendor=ALIYUN)
    body["spec"]["containers"][0]["resources"]["limits"][COUNT] = 1
    return body


@pytest_asyncio.fixture(loop_scope="module", params=["current", "1.20.2"])
async def side(machine: Machine, request: pytest.FixtureRequest) -> AsyncIterator[NodeSide]:
    """The text's node: one card of 14 GiB, the plugin, the extender, and a scheduler of that release."""
    async with AsyncExitStack() as stack:
        older = None
        if request.param != "current":
            older = (await stack.enter_async_context(OlderApi(machine.control_plane))).scheduler
        scheduling = await stack.enter_async_context(Scheduling(machine.control_plane, vendor=ALIYUN))
        made = NodeSide(machine, scheduling, ONE)
        made.set_health()
        await made.start_plugin()
        await scheduling.start_extender()
        await machine.control_plane.start_scheduler(scheduling.settings, older=older)
        await made.until_allocatable(14)
        await made.until_allocatable(1000, resource=COUNT)
        yield made


async def test_two_students_share_the_card_and_the_third_waits_for_memory_not_for_the_count(side: NodeSide) -> None:
    await side.run_pods(student("binpack-1"), student("binpack-2"))
    assert (side.recorded("binpack-1"), side.recorded("binpack-2")) == ((0,), (0,))
    environment = await side.seen("binpack-1")
    assert (environment["ALIYUN_COM_GPU_MEM_DEV"], environment["ALIYUN_COM_GPU_MEM_CONTAINER"]) == ("14", "5")
    await side.scheduling.create_pods([student("binpack-3")])
    message = await side.scheduling.until_said("binpack-3", "FailedScheduling")
    # Of 4 free units neither the scheduler's own sum nor any card has 5; the count is not what keeps it out.
    assert MEMORY in message or ALIYUN.refused_reason in message
    assert COUNT not in message
    assert not node_of(side.scheduling.pod("binpack-3"))


async def test_as_many_students_as_the_card_has_units_run_at_once(side: NodeSide) -> None:
    names = [f"student-{number}" for number in range(14)]
    await side.run_pods(*(student(name, 1) for name in names))
    assert {phase_of(side.scheduling.pod(name)) for name in names} == {"Running"}


def shown(node: JsonObject) -> Callable[[str], str]:
    """What ``kubectl describe node`` prints of a resource."""
    return lambda part: str(node["status"][part][COUNT])


async def test_the_node_shows_the_number_of_cards_in_thousands(side: NodeSide) -> None:
    of = shown(side.scheduling.nodes.objects[NODE])
    assert (of("capacity"), of("allocatable")) == ("1k", "1k")
