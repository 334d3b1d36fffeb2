"""Several replicas: one serves, the others are ready and say who; the end of one is the beginning of the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gcushare.scheduler_extender.extender_settings import FollowSettings
from gcushare.wire.contracts import LEADS_LABEL
from gcushare_playground.apiserver import Delay, FailBefore, Fault
from tests.api_objects import merge_into
from tests.extender_objects import filter_body, node_document, pod_document
from tests.protocol.extender_rig import ExtenderRig, Replica, eight_cards, extender_settings, quick_election, until
from tests.wires import wire_to

PREFIX = "/gcushare-scheduler"
Pair = tuple[ExtenderRig, Replica, Replica]


def leaders(*replicas: Replica) -> list[Replica]:
    return [replica for replica in replicas if replica.extender.leadership.is_leader]


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    """A rig whose replica leads, and one that follows."""
    async with ExtenderRig(extender_settings(election=quick_election())) as rig:
        follower = await rig.add_replica()
        await until(lambda: follower.extender.serving.is_synced)
        await rig.add_nodes(eight_cards())
        yield rig, rig.replica, follower


async def test_exactly_one_serves_and_the_other_names_it(pair: Pair) -> None:
    rig, leader, follower = pair
    assert leaders(leader, follower) == [leader]
    await until(lambda: follower.extender.leadership.holder != "")

    for verb in ("filter", "prioritize", "bind", "preempt"):
        status, answer = await rig.post(verb, filter_body(pod_document("a"), ["node-1"]), url=follower.url)
        assert status == 503
        assert follower.extender.leadership.holder in answer["error"]
    for replica in (leader, follower):
        assert (await rig.get("/readyz", url=replica.page_url))[0] == 200, "each could take over"


async def test_followers_answer_questions_from_a_warm_ledger(pair: Pair) -> None:
    rig, leader, follower = pair
    await rig.schedule("a", 4, ["node-1"])
    await until(lambda: "a" in follower.held())

    document = await rig.get_json(f"{PREFIX}/inspect")
    assert await rig.get_json(f"{PREFIX}/inspect", url=follower.url) == document
    assert follower.held()["a"].grants == leader.held()["a"].grants


async def test_at_the_orderly_end_of_the_leader_the_next_serves_at_once(pair: Pair) -> None:
    rig, leader, follower = pair
    await rig.schedule("a", 12, ["node-1"])
    await leader.stop()
    began = asyncio.get_running_loop().time()
    await rig.until_serving(follower)
    taken_s = asyncio.get_running_loop().time() - began
    rig.replica = follower
    pod = await rig.schedule("b", 12, ["node-1"])

    # Shorter than the lease's duration of 3 s: it was given up, not waited out.
    assert taken_s < 2.5
    assert pod["metadata"]["annotations"]["enflame.com/gcu-device-id"] == "1"


async def test_a_binding_under_way_at_the_end_is_answered_before_the_lease_is_given_up(pair: Pair) -> None:
    rig, leader, follower = pair
    pods = await rig.add_pods(*(pod_document(f"p{number}", 1) for number in range(20)))
    binds = [asyncio.create_task(rig.bind(pod, "node-1")) for pod in pods]
    await until(lambda: leader.extender.services[0].binds.under_way > 0 or all(bind.done() for bind in binds))
    stopping = asyncio.create_task(leader.stop())
    answers = await asyncio.gather(*binds, return_exceptions=True)
    await stopping
    await rig.until_serving(follower)

    bound = {f"p{number}" for number in range(20) if rig.pod(f"p{number}")["spec"].get("nodeName")}
    answered = {f"p{number}" for number, answer in enumerate(answers) if answer == (200, {"Error": ""})}
    assert answered <= bound
    await until(lambda: set(follower.held()) == bound)


async def test_a_follower_with_a_half_open_watch_gives_nothing_away_twice() -> None:
    async with (
        ExtenderRig(extender_settings(election=quick_election())) as rig,
        wire_to(rig.api.url, resource="pods") as wire,
    ):
        leader, follower = rig.replica, await rig.add_replica(api_url=wire.url)
        await until(lambda: follower.extender.serving.is_synced)
        await rig.add_nodes(node_document("node-1", 16))
        await until(lambda: wire.silence() == 1)
        first, second = await rig.add_pods(pod_document("a", 12), pod_document("b", 12))
        assert (await rig.bind(first, "node-1"))[1] == {"Error": ""}
        await leader.stop()
        rig.replica = follower
        await rig.until_serving()

        # Not learned from its watch, which is as silent as before.
        assert set(follower.held()) == {"a"}
        assert list((await rig.filter(second, ["node-1"]))["FailedNodes"]) == ["node-1"]
        assert "has not passed filter" in (await rig.bind(second, "node-1"))[1]["Error"]
        assert rig.pod("b")["spec"].get("nodeName") is None


async def test_the_elected_says_that_it_catches_up_and_serves_no_one_until_then() -> None:
    async with ExtenderRig(extender_settings(election=quick_election())) as rig:
        leader, follower = rig.replica, await rig.add_replica()
        await until(lambda: follower.extender.serving.is_synced)
        await rig.add_nodes(eight_cards())
        slow = rig.api.faults.on(Fault(Delay(3600), r"/pods\?limit", "GET"))
        await leader.stop()
        rig.replica = follower
        await until(lambda: follower.extender.serving.find_obstacle() is not None and slow.hits > 0)

        status, answer = await rig.post("filter", filter_body(pod_document("a"), ["node-1"]))
        assert (status, "reads what the leader before it did" in answer["error"]) == (503, True)
        assert (await rig.bind(pod_document("a"), "node-1"))[0] == 503
        assert "gcushare_leader 0.0" in (await rig.get("/metrics"))[1]


@pytest.mark.slow
async def test_a_leader_whose_watch_broke_for_good_makes_room_for_a_replica_that_is_current() -> None:
    quick = quick_election(3.0)
    settings = extender_settings(election=quick, follow=replace(FollowSettings(), watch_stall=0.5))
    async with ExtenderRig(extender_settings(), starts=False) as rig, wire_to(rig.api.url, resource="pods") as wire:
        stale = await rig.add_replica(settings, api_url=wire.url)
        await rig.until_serving(stale)
        follower = await rig.add_replica(replace(settings, follow=FollowSettings()))
        await until(lambda: follower.extender.serving.is_synced)
        wire.cut()
        await rig.until_serving(follower)

        assert not stale.extender.leadership.is_leader


POD_NAMES = ("extender-a", "extender-b")


@pytest.fixture
async def labelled() -> AsyncIterator[Pair]:
    """A rig with two replicas that know their pods; the first leads."""
    async with ExtenderRig(starts=False) as rig:
        await rig.add_pods(*(pod_document(name, None) for name in (*POD_NAMES, "unrelated")))
        elections = (replace(quick_election(), pod_name=name) for name in POD_NAMES)
        first, second = [extender_settings(election=each) for each in elections]
        leader = await rig.add_replica(first)
        await until(lambda: labels(rig) == {"extender-a"})
        follower = await rig.add_replica(second)
        await until(lambda: follower.extender.serving.is_synced)
        yield rig, leader, follower


def labels(rig: ExtenderRig) -> set[str]:
    """The pods that the Service selects."""
    return {
        pod["metadata"]["name"]
        for pod in rig.api.store.list("pods")
        if (pod["metadata"].get("labels") or {}).get(LEADS_LABEL) == "gcushare-scheduler-extender"
    }


def set_label(rig: ExtenderRig, name: str, value: str | None) -> None:
    merge_into(rig.api, "Pod", name, {"metadata": {"labels": {LEADS_LABEL: value}}})


async def test_a_label_that_others_write_or_that_comes_late_is_put_right(labelled: Pair) -> None:
    rig, _, _ = labelled
    set_label(rig, "extender-b", "gcushare-scheduler-extender")
    await until(lambda: labels(rig) == {"extender-a"})
    set_label(rig, "extender-a", None)
    await until(lambda: labels(rig) == {"extender-a"})
    set_label(rig, "unrelated", "another-release")
    set_label(rig, "extender-b", "gcushare-scheduler-extender")
    await until(lambda: labels(rig) == {"extender-a"})
    assert rig.pod("unrelated")["metadata"]["labels"] == {LEADS_LABEL: "another-release"}


@pytest.mark.slow
async def test_a_label_that_cannot_be_written_is_tried_again_until_it_can(labelled: Pair) -> None:
    rig, leader, follower = labelled
    refused = FailBefore(403, "Forbidden", "pods/status is forbidden")
    fault = rig.api.faults.on(Fault(refused, path="/pods/extender-b/status", method="PATCH", count=3))
    await leader.stop()
    await rig.until_serving(follower)
    await until(lambda: labels(rig) == {"extender-b"})
    assert fault.hits == 3
    assert (await rig.get("/readyz", url=follower.page_url))[0] == 200
