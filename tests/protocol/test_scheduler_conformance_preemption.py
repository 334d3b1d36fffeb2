"""What kube-scheduler does with an extender that preempts: here the double, in tests/e2e a real one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.protocol.scheduler_under_test import RESOURCE, JsonObject, SchedulerUnderTest
from tests.protocol.scripted_extender import Answer
from tests.protocol.test_scheduler_conformance import _doubled_cluster  # noqa: F401 - the fixture


async def _full_node(cluster: SchedulerUnderTest, preempt: Answer) -> tuple[str, str]:
    """Have an important pod find a node without room; returns the uids of the pod that has to end and of that pod."""
    cluster.extender.answers["preempt"] = preempt
    await cluster.make_important()
    await cluster.add_node("node-1", units=6)
    await cluster.start(preemptVerb="preempt")
    ends = await cluster.add_pod("ends", 4)
    await cluster.until_bound("ends")
    await cluster.add_pod("stays", 2, priorityClassName="important")
    await cluster.until_bound("stays")
    return ends, await cluster.add_pod("p", 3, priorityClassName="important")


async def test_a_less_important_pod_ends_where_the_extender_agrees(cluster: SchedulerUnderTest) -> None:
    async def agree(arguments: JsonObject) -> Any:
        return {"NodeNameToMetaVictims": arguments["NodeNameToMetaVictims"]}

    victim, uid = await _full_node(cluster, agree)
    await cluster.until_bound("p")
    (asked,) = cluster.extender.of("preempt")
    assert list(asked.document) == ["Pod", "NodeNameToVictims", "NodeNameToMetaVictims"]
    assert asked.document["NodeNameToVictims"] is None
    victims = {"node-1": {"Pods": [{"UID": victim}], "NumPDBViolations": 0}}
    assert asked.document["NodeNameToMetaVictims"] == victims
    assert "default/ends" not in cluster.pods.objects
    await cluster.until_event("ends", "Preempted", f"Preempted by pod {uid} on node node-1", "Normal")


async def test_no_pod_ends_where_the_extender_names_no_node(cluster: SchedulerUnderTest) -> None:
    async def disagree(_: JsonObject) -> Any:
        return {"NodeNameToMetaVictims": {}}

    await _full_node(cluster, disagree)
    await cluster.until_said(
        "p",
        f"0/1 nodes are available: 1 Insufficient {RESOURCE}. no new claims to deallocate, preemption: no candidate "
        "node for preemption",
    )
    assert "default/ends" in cluster.pods.objects


async def _name_another(cluster: SchedulerUnderTest, stranger: str = "") -> dict[str, str]:
    """Have the extender name another of two less important pods than the one proposed; returns the pods' uids."""
    uids: dict[str, str] = {}
    proposed: list[str] = []

    async def name_another(arguments: JsonObject) -> Any:
        (victim,) = arguments["NodeNameToMetaVictims"]["node-1"]["Pods"]
        proposed.append(victim["UID"])
        (other,) = {uids["one"], uids["two"]} - {victim["UID"]}
        victims = [{"UID": stranger or other}]
        return {"NodeNameToMetaVictims": {"node-1": {"Pods": victims, "NumPDBViolations": 0}}}

    cluster.extender.answers["preempt"] = name_another
    await cluster.make_important()
    await cluster.add_node("node-1", units=8)
    await cluster.start(preemptVerb="preempt")
    for name in ("one", "two"):
        uids[name] = await cluster.add_pod(name, 4)
        await cluster.until_bound(name)
    await cluster.add_pod("p", 3, priorityClassName="important")
    await cluster.asked("preempt", "p")
    return {"proposed": proposed[0]} | uids


@pytest.mark.slow
async def test_the_extender_may_name_a_pod_of_the_node_that_was_not_proposed(cluster: SchedulerUnderTest) -> None:
    uids = await _name_another(cluster)
    await cluster.until_bound("p")
    (left,) = (name for name in ("one", "two") if f"default/{name}" in cluster.pods.objects)
    assert uids[left] == uids["proposed"]


async def test_no_pod_ends_where_the_extender_names_one_that_is_not_on_the_node(cluster: SchedulerUnderTest) -> None:
    await _name_another(cluster, stranger="stranger")
    await cluster.until_said("p", f"0/1 nodes are available: 1 Insufficient {RESOURCE}.")
    assert cluster.message("p").endswith(
        "/ext claims to preempt pod (UID: &{stranger}) on node: node-1, but the pod is not found on that node"
    )
    assert {"default/one", "default/two"} <= cluster.pods.objects.keys()
