"""The scheduler double calls extenders, binds, waits and complains as kube-scheduler does."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gcushare.kube.patches import Patch, PatchKind
from gcushare_playground.apiserver import ApiServer
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from gcushare_playground.processes import Child, Command
from gcushare_playground.scheduler import ManagedResource, SchedulerSettings
from tests.protocol.scheduler_rig import RESOURCE, SHORT, SchedulerRig
from tests.protocol.scripted_extender import always, refuse

REASON = "insufficient GCU Memory in one gcu device"


@pytest.fixture
async def rig() -> AsyncIterator[SchedulerRig]:
    async with SchedulerRig() as started:
        yield started


async def uncordon(rig: SchedulerRig, node: str) -> None:
    await rig.client.patch(NODE_OBJECTS, node, Patch(PatchKind.MERGE, {"spec": {"unschedulable": None}}))


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


async def test_bind_is_left_to_the_extender_with_name_namespace_uid_and_node(rig: SchedulerRig) -> None:
    await rig.add_node("node-1")
    key = await rig.add_pod("p")
    assert await rig.wait_bound(key) == "node-1"
    uid = rig.pods.objects[key]["metadata"]["uid"]
    expected = {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "node-1"}
    body = rig.extender.of("bind")[0].body
    assert json.loads(body) == expected
    assert list(json.loads(body)) == list(expected)


async def test_connections_to_the_extender_are_kept(rig: SchedulerRig) -> None:
    await rig.add_node("node-1")
    for number in range(3):
        await rig.wait_bound(await rig.add_pod(f"p{number}"))
    assert len({asked.connection for asked in rig.extender.of("filter")}) == 1


async def test_a_pod_without_a_managed_resource_is_bound_without_the_extender(rig: SchedulerRig) -> None:
    await rig.add_node("node-1")
    assert await rig.wait_bound(await rig.add_pod("plain", units=None)) == "node-1"
    assert rig.extender.asked == []


async def test_a_managed_resource_in_an_init_container_is_enough_to_ask(rig: SchedulerRig) -> None:
    await rig.add_node("node-1")
    init = {"name": "setup", "image": "i:1", "resources": {"limits": {RESOURCE: 2}}}
    await rig.wait_bound(await rig.add_pod("p", units=None, initContainers=[init]))
    assert [asked.verb for asked in rig.extender.asked] == ["filter", "bind"]


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
    await rig.events.until(lambda: bool(rig.events.objects), "there is an event", deadline_s=5.0)
    (event,) = rig.events.objects.values()
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "FailedScheduling", message)
    assert event["source"]["component"] == "default-scheduler"


@pytest.mark.parametrize(
    ("node", "pod", "message"),
    [
        pytest.param(
            {"taints": [{"key": "a", "effect": "NoSchedule"}]}, {}, "1 node(s) had untolerated taint(s)", id="taint"
        ),
        pytest.param(
            {}, {"nodeSelector": {"disk": "ssd"}}, "1 node(s) didn't match Pod's node affinity/selector", id="selector"
        ),
        pytest.param({"units": 3}, {}, f"1 Insufficient {RESOURCE}", id="resource"),
    ],
)
async def test_the_schedulers_own_filters_come_first(
    rig: SchedulerRig, node: dict[str, Any], pod: dict[str, Any], message: str
) -> None:
    await rig.add_node("node-1", **node)
    await rig.wait_message(await rig.add_pod("p", **pod), f"0/1 nodes are available: {message}.")
    assert rig.extender.asked == []


async def test_tolerations_and_matching_labels_let_a_pod_pass(rig: SchedulerRig) -> None:
    await rig.add_node("node-1", labels={"disk": "ssd"}, taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])
    toleration = {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}
    key = await rig.add_pod("p", nodeSelector={"disk": "ssd"}, tolerations=[toleration])
    assert await rig.wait_bound(key) == "node-1"


async def test_null_lists_in_an_answer_leave_no_node(rig: SchedulerRig) -> None:
    await rig.add_node("node-1")
    rig.extender.answers["filter"] = always({"NodeNames": None, "Nodes": None})
    await rig.wait_message(await rig.add_pod("p"), "0/1 nodes are available:")


async def test_a_node_that_was_not_asked_about_fails_the_cycle(rig: SchedulerRig) -> None:
    await rig.add_node("node-1")
    rig.extender.answers["filter"] = always({"NodeNames": ["node-9"]})
    message = f'extender "{rig.extender.url}" claims a filtered node "node-9" which is not found in the input node list'
    condition = await rig.wait_message(await rig.add_pod("p"), message)
    assert condition["reason"] == "SchedulerError"


async def test_keys_of_an_answer_are_read_in_any_case_as_go_does(rig: SchedulerRig) -> None:
    await rig.add_node("node-1")
    rig.extender.answers["filter"] = always({"nodenames": ["node-1"]})
    assert await rig.wait_bound(await rig.add_pod("p")) == "node-1"


async def test_a_failing_extender_is_asked_again_until_it_answers(rig: SchedulerRig) -> None:
    await rig.add_node("node-1")
    rig.extender.failing_with = 503
    key = await rig.add_pod("p")
    await rig.wait_message(key, f"failed filter with extender at URL {rig.extender.url}/filter, code 503")
    await rig.extender.wait_for("filter", "p", 2)
    rig.extender.failing_with = 0
    assert await rig.wait_bound(key) == "node-1"


async def test_an_answer_that_takes_too_long_fails_the_cycle() -> None:
    async with SchedulerRig(http_timeout_s=0.1) as rig:
        released = asyncio.Event()

        async def hang(arguments: dict[str, Any]) -> Any:
            await released.wait()
            return {"NodeNames": arguments["NodeNames"]}

        rig.extender.answers["filter"] = hang
        await rig.add_node("node-1")
        key = await rig.add_pod("p")
        await rig.wait_message(key, f'Post "{rig.extender.url}/filter": context deadline exceeded')
        released.set()
        assert await rig.wait_bound(key) == "node-1"


async def test_an_ignorable_extender_that_fails_is_passed_over() -> None:
    async with SchedulerRig(ignorable=True, bind_verb="") as rig:
        rig.extender.failing_with = 500
        await rig.add_node("node-1")
        assert await rig.wait_bound(await rig.add_pod("p")) == "node-1"
        assert rig.extender.of("filter")


async def test_one_feasible_node_is_not_scored_and_several_are() -> None:
    async with SchedulerRig() as rig:
        await rig.add_node("node-1")
        await rig.wait_bound(await rig.add_pod("alone"))
        assert rig.extender.of("prioritize") == []
        await rig.add_node("node-2")
        await rig.extender.wait_for("filter", "alone")
        rig.extender.answers["prioritize"] = always([{"Host": "node-1", "Score": 10}, {"Host": "node-2", "Score": 0}])
        for number in range(3):
            assert await rig.wait_bound(await rig.add_pod(f"p{number}", nodeSelector={})) == "node-1"


async def test_the_weight_multiplies_the_extenders_scores() -> None:
    # NodeContext plain scores of about 200 that prefer the empty node by some 10, a tenth of 100 decides.
    async with SchedulerRig(weight=5) as rig:
        await rig.add_node("full")
        await rig.wait_bound(await rig.add_pod("filler"))
        await rig.add_node("empty")
        rig.extender.answers["prioritize"] = always([{"Host": "full", "Score": 1}])
        assert await rig.wait_bound(await rig.add_pod("p")) == "full"


async def test_a_failed_prioritize_does_not_fail_the_pod(rig: SchedulerRig) -> None:
    await rig.add_node("node-1")
    await rig.add_node("node-2")
    rig.extender.answers["prioritize"] = always({"not": "a list"})
    assert await rig.wait_bound(await rig.add_pod("p")) in ("node-1", "node-2")


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
        deadline_s=5.0,
    )


async def test_a_pod_that_fits_nowhere_waits_for_room_and_takes_it(rig: SchedulerRig) -> None:
    await rig.add_node("node-1", units=4)
    await rig.wait_bound(await rig.add_pod("old", 4))
    key = await rig.add_pod("new", 4)
    await rig.wait_message(key, f"0/1 nodes are available: 1 Insufficient {RESOURCE}.")
    await rig.client.delete(POD_OBJECTS, "old", namespace="default")
    assert await rig.wait_bound(key) == "node-1"


async def test_a_new_node_is_an_event_for_pods_that_the_extender_refused(rig: SchedulerRig) -> None:
    await rig.add_node("node-1")
    rig.extender.answers["filter"] = refuse(REASON)
    await rig.wait_message(await rig.add_pod("p"), f"0/1 nodes are available: 1 {REASON}.")
    await rig.add_node("node-2")
    await rig.wait_message("default/p", f"0/2 nodes are available: 2 {REASON}.")


async def test_an_uncordoned_node_is_an_event(rig: SchedulerRig) -> None:
    await rig.add_node("node-1", unschedulable=True)
    key = await rig.add_pod("p")
    await rig.wait_message(key, "0/1 nodes are available: 1 node(s) were unschedulable.")
    await uncordon(rig, "node-1")
    assert await rig.wait_bound(key) == "node-1"


async def test_a_pod_of_another_scheduler_is_left_alone() -> None:
    async with SchedulerRig(settings=SchedulerSettings(names=("gcushare-scheduler",), pacing=SHORT)) as rig:
        await rig.add_node("node-1")
        await rig.add_pod("foreign")
        assert await rig.wait_bound(await rig.add_pod("ours", schedulerName="gcushare-scheduler")) == "node-1"
        assert [asked.pod for asked in rig.extender.asked] == ["ours", "ours"]


async def test_without_nodes_the_message_is_its_own(rig: SchedulerRig) -> None:
    await rig.wait_message(await rig.add_pod("p"), "no nodes available to schedule pods")


async def test_a_resource_that_the_scheduler_shall_ignore_is_only_the_extenders_matter() -> None:
    managed = (ManagedResource(name=RESOURCE, ignored_by_scheduler=True),)
    async with SchedulerRig(managed_resources=managed) as rig:
        await rig.add_node("node-1", units=0)
        assert await rig.wait_bound(await rig.add_pod("p", 100)) == "node-1"


async def test_preemption_asks_the_extender_in_the_meta_form_and_ends_its_victims(rig: SchedulerRig) -> None:
    proposed: list[dict[str, Any]] = []

    async def agree(arguments: dict[str, Any]) -> Any:
        proposed.append(arguments)
        return {"NodeNameToMetaVictims": arguments["NodeNameToMetaVictims"]}

    rig.extender.answers["preempt"] = agree
    await rig.add_node("node-1", units=8)
    small, large = await rig.add_pod("small", 2), await rig.add_pod("large", 6)
    await rig.wait_bound(small)
    await rig.wait_bound(large)
    uid = rig.pods.objects[large]["metadata"]["uid"]
    key = await rig.add_pod("urgent", 6, priority=100)
    assert await rig.wait_bound(key) == "node-1"
    assert proposed[0]["NodeNameToVictims"] is None
    assert proposed[0]["NodeNameToMetaVictims"] == {"node-1": {"Pods": [{"UID": uid}], "NumPDBViolations": 0}}
    assert large not in rig.pods.objects
    assert small in rig.pods.objects


async def test_victims_that_do_not_exist_fail_the_cycle_and_nobody_ends(rig: SchedulerRig) -> None:
    victims = {"node-1": {"Pods": [{"UID": "nobody"}], "NumPDBViolations": 0}}
    rig.extender.answers["preempt"] = always({"NodeNameToMetaVictims": victims})
    await rig.add_node("node-1", units=8)
    victim = await rig.add_pod("victim", 8)
    await rig.wait_bound(victim)
    message = (
        f"extender: {rig.extender.url} claims to preempt pod (UID: nobody) on node: node-1, but the pod is not found "
        "on that node"
    )
    await rig.wait_message(await rig.add_pod("urgent", 8, priority=100), message)
    assert victim in rig.pods.objects


async def test_the_outcome_of_preemption_is_told_where_asked_for() -> None:
    settings = SchedulerSettings(pacing=SHORT, tells_preemption=True)
    async with SchedulerRig(settings=settings) as rig:
        await rig.add_node("node-1")
        rig.extender.answers["filter"] = refuse(REASON)
        await rig.wait_message(
            await rig.add_pod("p"),
            f"0/1 nodes are available: 1 {REASON}. preemption: 0/1 nodes are available: 1 No preemption victims found "
            "for incoming pod.",
        )


async def test_a_pod_bound_by_somebody_else_leaves_the_queue(rig: SchedulerRig) -> None:
    await rig.add_node("node-1", unschedulable=True)
    key = await rig.add_pod("p")
    await rig.wait_message(key, "0/1 nodes are available: 1 node(s) were unschedulable.")
    uid = rig.pods.objects[key]["metadata"]["uid"]
    await rig.bind({"PodNamespace": "default", "PodName": "p", "PodUID": uid, "Node": "node-1"})
    await rig.wait_bound(key)
    await uncordon(rig, "node-1")
    await rig.wait_bound(await rig.add_pod("after"))
    assert rig.scheduler.waiting == 0
    assert {asked.pod for asked in rig.extender.asked} == {"after"}


async def test_it_goes_on_where_it_was_after_the_api_server_restarted(rig: SchedulerRig) -> None:
    await rig.add_node("node-1", units=8)
    await rig.wait_bound(await rig.add_pod("before", 6))
    await rig.api.restart()
    await rig.wait_message(await rig.add_pod("large", 6), f"0/1 nodes are available: 1 Insufficient {RESOURCE}.")
    assert await rig.wait_bound(await rig.add_pod("small", 2)) == "node-1"


def run_scheduler(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "gcushare_playground.scheduler", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=20)


def test_as_a_process_it_refuses_a_configuration_that_kube_scheduler_would_refuse(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextender: []\n")
    ended = run_scheduler("--server", "http://127.0.0.1:1", "--config", str(config))
    assert ended.returncode == 1
    assert "extender: '[]' is not accepted" in ended.stderr


async def test_as_a_process_it_serves_health_schedules_and_ends_on_sigterm(tmp_path: Path) -> None:
    async with ApiServer() as api:
        command = Command(
            name="scheduler",
            arguments=(sys.executable, "-m", "gcushare_playground.scheduler", "--server", api.url),
            log_dir=tmp_path,
        )
        child = Child(command)
        url = await child.start()
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz") as answer:
                assert answer.status == 200
        finally:
            assert await child.stop() == 0
