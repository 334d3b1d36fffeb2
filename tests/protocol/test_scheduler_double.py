"""The scheduler double calls extenders, binds, waits and complains as kube-scheduler does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.protocol.scheduler_rig import RESOURCE, SchedulerRig
from tests.protocol.scripted_extender import refuse

REASON = "insufficient GCU Memory in one gcu device"


@pytest.fixture
async def rig() -> AsyncIterator[SchedulerRig]:
    async with SchedulerRig() as started:
        yield started


async def test_a_filter_request_has_the_bytes_that_go_writes(rig: SchedulerRig) -> None:
    await rig.add_node("node-2")
    await rig.add_node("node-1")
    await rig.wait_bound(await rig.add_pod("p"))
    asked = rig.extender.of("filter")[0]
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.body.startswith(b'{"Pod":{"metadata":{')
    assert asked.body.endswith(b',"Nodes":null,"NodeNames":["node-1","node-2"]}')
    pod = asked.document["Pod"]
    assert list(pod) == ["metadata", "spec", "status"]
    assert "managedFields" not in pod["metadata"]
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {RESOURCE: "4"}


async def test_refusals_are_counted_and_sorted_in_the_schedulers_words(rig: SchedulerRig) -> None:
    await rig.add_node("node-1", unschedulable=True)
    await rig.add_node("node-2")
    await rig.add_node("node-3")
    await rig.add_node("node-4", units=2)
    rig.extender.answers["filter"] = refuse(REASON)
    message = (
        f"0/4 nodes are available: 1 Insufficient enflame.com/gcu-memory, 1 node(s) were unschedulable, 2 {REASON}."
    )
    key = await rig.add_pod("p")
    condition = await rig.wait_message(key, message)
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert rig.extender.of("filter")[0].document["NodeNames"] == ["node-2", "node-3"]
    await rig.events.until(lambda: bool(rig.events.objects), "there is an event", deadline_s=60.0)
    (event,) = rig.events.objects.values()
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "FailedScheduling", message)
    assert event["source"]["component"] == "default-scheduler"


async def test_the_next_pod_is_filtered_while_a_bind_hangs_with_that_pod_counted(rig: SchedulerRig) -> None:
    released = asyncio.Event()

    async def hang(arguments: dict[str, Any]) -> Any:
        if arguments["PodName"] == "first":
            await released.wait()
        return await rig.bind(arguments)

    rig.extender.answers["bind"] = hang
    await rig.add_node("node-1", units=8)
    first = await rig.add_pod("first", 6)
    await rig.extender.wait_for("bind", "first")
    assert await rig.wait_bound(await rig.add_pod("second", 2)) == "node-1"
    await rig.wait_message(await rig.add_pod("third", 1), f"0/1 nodes are available: 1 Insufficient {RESOURCE}.")
    released.set()
    assert await rig.wait_bound(first) == "node-1"


async def test_a_refused_bind_gives_the_room_back_says_why_and_is_tried_again(rig: SchedulerRig) -> None:
    refusals = 2

    async def refuse_twice(arguments: dict[str, Any]) -> Any:
        nonlocal refusals
        refusals -= 1
        return {"Error": "card 0 was taken"} if refusals >= 0 else await rig.bind(arguments)

    rig.extender.answers["bind"] = refuse_twice
    await rig.add_node("node-1", units=4)
    key = await rig.add_pod("p", 4)
    assert await rig.wait_bound(key) == "node-1"
    assert len(rig.extender.of("bind")) == 3
    await rig.events.until(
        lambda: (
            {"card 0 was taken", "Successfully assigned default/p to node-1"}
            <= {event["message"] for event in rig.events.objects.values()}
        ),
        "both outcomes have an event",
        deadline_s=60.0,
    )
