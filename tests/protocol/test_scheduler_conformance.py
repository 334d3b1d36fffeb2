"""What kube-scheduler does with an extender and its pods, here the double; tests/e2e plays the same with a real one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self

import pytest

from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.patches import PatchKind
from gcushare.kube.resources import NODES, PODS
from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.scheduler import Pacing, SchedulerDouble
from gcushare_playground.scheduler.configuration import parse_scheduler_settings
from tests.protocol.scheduler_under_test import RESOURCE, JsonObject, SchedulerUnderTest
from tests.protocol.scripted_extender import Answer, refuse, say

FULL = "card is full"


class DoubledScheduler:
    """The scheduler double with an API server double."""

    pace = 0.1

    def __init__(self) -> None:
        self._stack, self._running = AsyncExitStack(), AsyncExitStack()
        self.client: KubeClient
        self._config: KubeConfig

    async def __aenter__(self) -> Self:
        server = await self._stack.enter_async_context(ApiServer(ApiServerConfig(runs_controllers=False)))
        self._config = KubeConfig(server=server.url, source="the playground")
        self.client = await self._stack.enter_async_context(KubeClient(self._config))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start(self, configuration: str) -> None:
        read = parse_scheduler_settings(configuration, "the test's configuration")
        settings = replace(read, pacing=Pacing(initial_backoff_s=self.pace, max_backoff_s=2 * self.pace))
        await self._running.enter_async_context(SchedulerDouble(settings, self._config))

    async def stop(self) -> None:
        await self._running.aclose()


@pytest.fixture(name="cluster")
async def _doubled_cluster() -> AsyncIterator[SchedulerUnderTest]:
    async with DoubledScheduler() as backend, SchedulerUnderTest(backend) as started:
        yield started


# What an extender is sent


async def test_an_extender_that_keeps_nodes_is_sent_their_names(cluster: SchedulerUnderTest) -> None:
    await cluster.add_node("node-1")
    await cluster.add_node("node-2")
    await cluster.start()
    uid = await cluster.add_pod("p")
    node = await cluster.until_bound("p")
    filter_, prioritize, bind = cluster.extender.asked
    assert [each.verb for each in cluster.extender.asked] == ["filter", "prioritize", "bind"]
    for asked in (filter_, prioritize):
        assert asked.headers["Content-Type"] == "application/json"
        assert list(asked.document) == ["Pod", "Nodes", "NodeNames"]
        assert asked.document["Nodes"] is None
        assert sorted(asked.document["NodeNames"]) == ["node-1", "node-2"]
    pod = filter_.document["Pod"]
    assert list(pod) == ["metadata", "spec", "status"]
    assert pod["metadata"]["uid"] == uid
    assert "managedFields" not in pod["metadata"]
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {RESOURCE: "4"}, "requests": {RESOURCE: "4"}}
    assert bind.document == {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": node}


async def test_an_extender_that_keeps_no_nodes_is_sent_them(cluster: SchedulerUnderTest) -> None:
    async def keep_second(arguments: JsonObject) -> Any:
        kept = [each for each in arguments["Nodes"]["items"] if each["metadata"]["name"] == "node-2"]
        return {"Nodes": {"items": kept}, "FailedNodes": {"node-1": FULL}}

    cluster.extender.answers["filter"] = keep_second
    await cluster.add_node("node-1")
    await cluster.add_node("node-2")
    await cluster.start(nodeCacheCapable=False)
    assert await cluster.place_pod("p") == "node-2"
    (asked,) = cluster.extender.of("filter")
    assert asked.document["NodeNames"] is None
    nodes = {each["metadata"]["name"]: each for each in asked.document["Nodes"]["items"]}
    assert set(nodes) == {"node-1", "node-2"}
    assert nodes["node-1"]["status"]["allocatable"][RESOURCE] == "16"
    assert "managedFields" not in nodes["node-1"]["metadata"]


async def test_only_pods_that_name_a_managed_resource_are_an_extenders(cluster: SchedulerUnderTest) -> None:
    await cluster.add_node("node-1")
    await cluster.start()
    await cluster.place_pod("plain", 0)
    container = {"name": "init", "image": "i", "resources": {"limits": {RESOURCE: "1"}}}
    await cluster.place_pod("init", 0, initContainers=[container])
    assert {each.pod for each in cluster.extender.asked} == {"init"}
    await cluster.backend.stop()
    await cluster.start(managedResources=None)
    await cluster.place_pod("another", 0)
    assert cluster.extender.of("filter", "another")


async def test_nodes_that_the_scheduler_refuses_are_not_asked_about(cluster: SchedulerUnderTest) -> None:
    await cluster.add_node("cordoned", unschedulable=True)
    await cluster.add_node("small", units=2)
    await cluster.add_node("tainted", taints=[{"key": "example.com/a", "effect": "NoSchedule"}])
    await cluster.add_node("good")
    await cluster.start()
    assert await cluster.place_pod("p") == "good"
    assert cluster.extender.of("filter")[0].document["NodeNames"] == ["good"]
    verbs = [each.verb for each in cluster.extender.asked]
    assert verbs == ["filter", "bind"], "a single node that is left is not scored"


async def test_a_resource_that_the_scheduler_ignores_is_counted_by_the_extender_alone(
    cluster: SchedulerUnderTest,
) -> None:
    await cluster.add_node("small", units=2)
    await cluster.start(managedResources=[{"name": RESOURCE, "ignoredByScheduler": True}])
    assert await cluster.place_pod("p") == "small"


# What its answers do


@pytest.mark.parametrize(
    ("scores", "weight", "chosen"),
    [
        pytest.param({"busy": 10, "idle": 0}, 1, "busy", id="ten points outweigh the scheduler's"),
        pytest.param({"busy": 4, "idle": 0}, 1, "idle", id="four do not"),
        pytest.param({"busy": 4, "idle": 0}, 3, "busy", id="four do with a weight of three"),
        pytest.param({"busy": 10, "idle": 10}, 9, "idle", id="equal ones change nothing"),
        pytest.param({"busy": 10, "idle": 0, "stranger": 99}, 1, "busy", id="an unknown node changes nothing"),
        pytest.param(None, 1, "idle", id="nonsense costs its opinion only"),
    ],
)
async def test_scores_are_multiplied_by_the_weight_and_added_to_the_schedulers(
    cluster: SchedulerUnderTest, scores: dict[str, int] | None, weight: int, chosen: str
) -> None:
    listed = [{"Host": name, "Score": points} for name, points in scores.items()] if scores else {"not": "a list"}
    cluster.extender.answers["prioritize"] = say(listed)
    await cluster.add_node("busy")
    await cluster.add_node("idle")
    amounts = {"resources": {"requests": {"cpu": "6", "memory": "24Gi"}}}
    await cluster.add_pod("load", 0, nodeName="busy", containers=[{"name": "main", "image": "i", **amounts}])
    await cluster.start(weight=weight)
    assert await cluster.place_pod("p") == chosen


async def test_refusals_are_counted_by_their_words_and_said_in_condition_and_event(cluster: SchedulerUnderTest) -> None:
    refused, gone = {"node-1": FULL, "node-2": FULL}, {"node-3": "card is gone"}
    answer = {"NodeNames": [], "FailedNodes": refused, "FailedAndUnresolvableNodes": gone}
    cluster.extender.answers["filter"] = say(answer)
    for name in ("node-1", "node-2", "node-3"):
        await cluster.add_node(name)
    await cluster.add_node("node-4", unschedulable=True)
    await cluster.add_node("node-5", units=2)
    await cluster.start()
    await cluster.add_pod("p")
    message = (
        f"0/5 nodes are available: 1 Insufficient {RESOURCE}, 1 card is gone, 1 node(s) were unschedulable, 2 {FULL}. "
        "no new claims to deallocate, preemption: 0/5 nodes are available: 2 No preemption victims found for incoming "
        "pod, 3 Preemption is not helpful for scheduling."
    )
    condition = await cluster.until_said("p", message)
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    await cluster.until_event("p", "FailedScheduling", message, "Warning")


async def test_a_node_that_is_left_out_without_a_reason_is_counted_only(cluster: SchedulerUnderTest) -> None:
    cluster.extender.answers["filter"] = say({"NodeNames": []})
    await cluster.start()
    await cluster.add_pod("p")
    await cluster.until_said("p", "no nodes available to schedule pods")
    await cluster.add_node("node-1", unschedulable=True)
    await cluster.add_node("node-2")
    await cluster.until_said(
        "p",
        "0/2 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, preemption: "
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    )


async def test_a_pod_whose_claim_no_node_can_give_is_not_an_extenders_yet(cluster: SchedulerUnderTest) -> None:
    await cluster.make_claim("claim")
    await cluster.add_node("node-1")
    await cluster.start()
    await cluster.add_pod("p", resourceClaims=[{"name": "cards", "resourceClaimName": "claim"}])
    await cluster.until_said(
        "p",
        "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )
    assert not cluster.extender.asked


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param({"Error": "no view yet"}, "no view yet", id="an error in its answer"),
        pytest.param(
            {"NodeNames": ["stranger"]}, 'extender "{url}" claims a filtered node "stranger"', id="a stranger"
        ),
        pytest.param(None, "failed filter with extender at URL {url}/filter, code 500", id="a status"),
    ],
)
@pytest.mark.parametrize("ignorable", [False, True])
async def test_a_failed_filter_stops_the_pod_unless_it_may_be_ignored(
    cluster: SchedulerUnderTest, answer: JsonObject | None, message: str, ignorable: bool
) -> None:
    cluster.extender.answers["filter"] = say(answer)
    cluster.extender.failing_with = 0 if answer else 500
    await cluster.add_node("node-1")
    await cluster.start(ignorable=ignorable, bindVerb=None)
    await cluster.add_pod("p")
    if ignorable:
        assert await cluster.until_bound("p") == "node-1"
    else:
        condition = await cluster.until_said("p", message.format(url=cluster.extender.url))
        assert (condition["status"], condition["reason"]) == ("False", "SchedulerError")


async def test_an_extender_that_takes_too_long_or_is_away_is_said_to(cluster: SchedulerUnderTest) -> None:
    async def never(_: JsonObject) -> Any:
        await asyncio.sleep(60)

    cluster.extender.answers["filter"] = never
    await cluster.add_node("node-1")
    await cluster.start(httpTimeout="300ms")
    await cluster.add_pod("p")
    await cluster.until_said("p", f'Post "{cluster.extender.url}/filter": context deadline exceeded')
    await cluster.extender.stop()
    port = cluster.extender.url.rpartition(":")[2].partition("/")[0]
    await cluster.until_said(
        "p", f'Post "{cluster.extender.url}/filter": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )


async def test_a_pod_whose_bind_failed_is_tried_again_after_a_growing_wait(cluster: SchedulerUnderTest) -> None:
    times: list[float] = []
    may_bind = asyncio.Event()

    async def fail_at_first(arguments: JsonObject) -> Any:
        times.append(time.monotonic())
        return await cluster.bind(arguments) if may_bind.is_set() else {"Error": "node is gone"}

    cluster.extender.answers["bind"] = fail_at_first
    await cluster.add_node("node-1")
    await cluster.start()
    await cluster.add_pod("p")
    condition = await cluster.until_said("p", "node is gone")
    assert (condition["status"], condition["reason"]) == ("False", "SchedulerError")
    await cluster.asked("bind", "p", 3)
    may_bind.set()
    await cluster.until_bound("p")
    waits = [(later - earlier) / cluster.backend.pace for earlier, later in pairwise(times)]
    assert [wait >= least for wait, least in zip(waits, (0.9, 1.9, 1.9), strict=True)] == [True] * 3, waits
    assert len(cluster.extender.of("filter")) == 4


async def test_the_next_pod_is_tried_while_one_is_being_bound_and_finds_it_counted(cluster: SchedulerUnderTest) -> None:
    may_bind = asyncio.Event()

    async def slow(arguments: JsonObject) -> Any:
        await may_bind.wait()
        return await cluster.bind(arguments)

    cluster.extender.answers["bind"] = slow
    await cluster.add_node("node-1", units=6)
    await cluster.start()
    await cluster.add_pod("first")
    await cluster.asked("bind", "first")
    await cluster.add_pod("fits", 2)
    await cluster.asked("bind", "fits")
    await cluster.add_pod("waits", 1)
    await cluster.until_said("waits", f"0/1 nodes are available: 1 Insufficient {RESOURCE}.")
    may_bind.set()
    await cluster.until_bound("first")
    await cluster.until_bound("fits")


# What brings a pod back


async def _wait_for_room(cluster: SchedulerUnderTest) -> None:
    """Start with a pod that its extender refuses, and would take from now on.

    What the scheduler writes on the pod after the first attempt brings it back once.
    """
    keep = cluster.extender.answers["filter"]
    cluster.extender.answers["filter"] = refuse(FULL)
    await cluster.add_node("node-1")
    await cluster.start()
    await cluster.add_pod("p")
    await cluster.asked("filter", "p", 2)
    await cluster.until_said("p", f"0/1 nodes are available: 1 {FULL}.")
    await asyncio.sleep(3 * cluster.backend.pace)
    assert len(cluster.extender.of("filter", "p")) == 2
    cluster.extender.answers["filter"] = keep


LOOK = {"example.com/look": "again"}
CHANGES: dict[str, JsonObject] = {
    "annotated": {"metadata": {"annotations": LOOK}},
    "labelled": {"metadata": {"labels": LOOK}},
    "conditioned": {"status": {"conditions": [{"type": "example.com/a", "status": "True"}]}},
}
EVENTS = ["pod deleted", "node added", *(f"{kind} {how}" for kind in ("pod", "node") for how in CHANGES)]


@pytest.mark.slow
@pytest.mark.parametrize("event", EVENTS)
async def test_a_pod_that_was_refused_is_tried_again_after(cluster: SchedulerUnderTest, event: str) -> None:
    await cluster.add_pod("other", 1, nodeName="node-1")
    await _wait_for_room(cluster)
    subresource = "status" if "conditioned" in event else ""
    match event.split():
        case _, "deleted":
            await cluster.delete_pod("other")
        case _, "added":
            await cluster.add_node("node-2")
        case "pod", how:
            await cluster.change(PODS, "p", CHANGES[how], subresource=subresource)
        case _, how:
            await cluster.change(NODES, "node-1", CHANGES[how], subresource=subresource)
    await cluster.until_bound("p")


async def test_a_nodes_heartbeat_brings_no_pod_back(cluster: SchedulerUnderTest) -> None:
    await _wait_for_room(cluster)
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-27T00:00:00Z"}
    await cluster.change(NODES, "node-1", {"status": {"conditions": [ready]}}, subresource="status")
    await asyncio.sleep(3 * cluster.backend.pace)
    assert len(cluster.extender.of("filter", "p")) == 2


async def test_a_node_that_is_no_longer_cordoned_takes_the_pod(cluster: SchedulerUnderTest) -> None:
    await cluster.add_node("node-1", unschedulable=True)
    await cluster.start()
    await cluster.add_pod("p")
    await cluster.until_said("p", "0/1 nodes are available: 1 node(s) were unschedulable.")
    assert not cluster.extender.asked
    await cluster.change(NODES, "node-1", {"spec": {"unschedulable": None}})
    assert await cluster.until_bound("p") == "node-1"


async def test_a_gated_pod_is_no_ones_until_its_gates_are_gone(cluster: SchedulerUnderTest) -> None:
    await cluster.add_node("node-1")
    await cluster.start()
    await cluster.add_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    await cluster.add_pod("other-scheduler", schedulerName="another")
    await cluster.place_pod("plain")
    assert {each.pod for each in cluster.extender.asked} == {"plain"}
    await cluster.change(PODS, "gated", {"spec": {"schedulingGates": None}}, kind=PatchKind.MERGE)
    await cluster.until_bound("gated")


async def _full_node(cluster: SchedulerUnderTest, preempt: Answer) -> tuple[str, str]:
    """Have an important pod find a node without room; returns the uids of the pod that has to end and of that pod."""
    cluster.extender.answers["preempt"] = preempt
    await cluster.make_important()
    await cluster.add_node("node-1", units=6)
    await cluster.start(preemptVerb="preempt")
    ends = await cluster.add_pod("ends", 4)
    await cluster.until_bound("ends")
    await cluster.place_pod("stays", 2, priorityClassName="important")
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
    await _full_node(cluster, say({"NodeNameToMetaVictims": {}}))
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
