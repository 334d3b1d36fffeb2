"""The scheduler double calls extenders, binds, waits and complains as kube-scheduler does."""

from __future__ import annotations

from collections.abc import AsyncIterator

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
