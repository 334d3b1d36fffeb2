"""Memory that no request of ours explains: it runs, so it counts, in every figure and for every pod that comes next."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gcushare.core.units import GIB
from gcushare.vendors import ENFLAME
from gcushare_playground.picture import POD_OBJECTS, condition_of, node_of, phase_of, poll_until
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.playground.census import Census, manifest
from tests.playground.clusters import started

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("held without record"),
    pytest.mark.slow,
]

NODE = NodePlan(name="node-1", card_bytes=(16 * GIB,) * 3)
MEMORY, COUNT, WHOLE = ENFLAME.memory_resource, ENFLAME.count_resource, ENFLAME.whole_card_resource


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running_cluster() -> AsyncIterator[Census]:
    plan = ClusterPlan(nodes=(NODE,), whole_cards=True, wait_factor=0.1, unschedulable_s=1.0, status_interval_s=0.1)
    async with started(plan) as census:
        yield census


@pytest_asyncio.fixture(loop_scope="module")
async def census(running_cluster: Census) -> AsyncIterator[Census]:
    yield running_cluster
    await running_cluster.delete_all()
    await until_used(running_cluster, 0)


async def bind_directly(census: Census, name: str, limits: dict[str, str], grace_s: int = 1) -> str:
    """Create a pod as an author does who names the node himself: no scheduler and no extender sees it."""
    document = manifest(name, 0)
    document["spec"]["nodeName"] = NODE.name
    document["spec"]["terminationGracePeriodSeconds"] = grace_s
    document["spec"]["containers"][0]["resources"]["limits"] = limits
    await census.cluster.client.create(POD_OBJECTS, document, namespace="default")
    key = f"default/{name}"
    await census.cluster.pods.until(lambda: phase_of(census.pods.get(key, {})) == "Running", f"{name} runs")
    return key


async def until_runs(census: Census, *keys: str) -> None:
    await census.cluster.pods.until(
        lambda: all(phase_of(census.pods.get(key, {})) == "Running" for key in keys), f"{keys} run"
    )


async def until_refused(census: Census, key: str) -> str:
    """Wait until the scheduler says that a pod fits nowhere, and see that no one sent it to the node to fail there."""
    await census.cluster.pods.until(
        lambda: bool(condition_of(census.pods.get(key, {}), "PodScheduled").get("message")), f"{key} has to wait"
    )
    assert node_of(census.pods[key]) == ""
    message: str = condition_of(census.pods[key], "PodScheduled")["message"]
    return message


async def used_by_extender(census: Census) -> int:
    used: int = (await census.cluster.inspect())["nodes"][0]["usedGCU"]
    return used


async def until_used(census: Census, units: int) -> None:
    async def look() -> str | None:
        used = await used_by_extender(census)
        return None if used == units else str(used)

    await poll_until(look, f"{units} units are in use")


async def inspect_by_api(census: Census) -> dict[str, Any]:
    """What the command counts from the API server alone."""
    command = (sys.executable, "-m", "gcushare.cli.inspect", "-o", "json", "--source", "api")
    where = ("--kubeconfig", str(census.cluster.place.kubeconfig))
    process = await asyncio.create_subprocess_exec(*command, *where, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    document: dict[str, Any] = json.loads(out)
    return document


async def test_a_pod_of_a_refused_request_that_names_its_node_counts_like_every_other(census: Census) -> None:
    key = await bind_directly(census, "odd", {MEMORY: "12", COUNT: "2"})
    await until_used(census, 12)
    record = census.record_of(census.pods[key])
    assert record is not None
    assert census.held(census.pods[key]) == {record.card_indexes[0]: 12}
    by_api = await inspect_by_api(census)
    assert by_api["nodes"][0]["allocated"] == 12
    assert [pod["name"] for card in by_api["nodes"][0]["cards"] for pod in card["pods"]] == ["odd"]
    await until_runs(census, await census.create("next-0", 12), await census.create("next-1", 12))
    assert "insufficient" in (await until_refused(census, await census.create("late", 12))).lower()


async def test_a_pod_of_which_no_record_can_tell_counts_by_what_its_node_says(census: Census) -> None:
    key = await bind_directly(census, "both", {MEMORY: "12", WHOLE: "1"})
    await until_used(census, 28)
    assert census.record_of(census.pods[key]) is None
    pods = [pod for device in (await census.cluster.inspect())["nodes"][0]["devices"] for pod in device["pods"]]
    assert {(pod["name"], pod["usedGCU"], pod["unrecorded"]) for pod in pods} == {
        ("both", 12, True),
        ("both", 16, True),
    }
    by_api = await inspect_by_api(census)
    assert by_api["nodes"][0]["allocated"] == 28
    assert by_api["unplaced"] == []
    await until_runs(census, await census.create("next", 16))
    assert "insufficient" in (await until_refused(census, await census.create("late", 5))).lower()
    assert "insufficient" in (await until_refused(census, await census.create("whole", 1, resource=WHOLE))).lower()


async def test_a_card_that_a_pod_deleted_by_force_may_still_use_is_shown_as_closed(census: Census) -> None:
    keys = [await bind_directly(census, f"old-{number}", {MEMORY: "12"}, grace_s=4_000_000_000) for number in range(3)]
    await census.cluster.pods.until(lambda: all(map(census.is_assigned, keys)), "recorded")
    for key in keys:
        await census.cluster.client.delete(POD_OBJECTS, key.split("/")[1], namespace="default", grace_s=0)

    async def look() -> str | None:
        devices = (await census.cluster.inspect())["nodes"][0]["devices"]
        closed = [each for device in devices for each in device.get("closed", ())]
        return None if [each["use"] for each in closed] == ["whole"] * 3 else str(devices)

    await poll_until(look, "every card is closed to pods that want it whole")
    key = await census.create("whole", 1, resource=WHOLE)
    await until_refused(census, key)
    async with census.cluster.http.get(f"{census.cluster.extender_url}/gcushare-scheduler/explain/{key}") as answer:
        text = await answer.text()
    assert "containers of deleted pods may still use them" in text
    closed = [words for card in (await inspect_by_api(census))["nodes"][0]["cards"] for words in card["closed"]]
    assert len(closed) == 3
    assert all("for containers of default/old-" in words for words in closed)
