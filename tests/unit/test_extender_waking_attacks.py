"""Authors of pods who try to have others starved, or the API server flooded, by way of the waker."""

from __future__ import annotations

import pytest

from gcushare.scheduler_extender.waking.refused_pods import MAX_GROUPS, MAX_PODS, RefusedPods
from gcushare.scheduler_extender.waking.waker import ANSWER_S, CHECK_S, MOST_PER_CHECK
from gcushare.wire.annotations import ROOM_FOUND
from tests.extender_objects import a_pod, request_of
from tests.unit.extender_waker import SOON_S, Bench

OLD = "2025-01-01T00:00:00Z"
"""Before the pods of others: the attacker's pods come first in the scheduler's order."""


async def test_a_pod_whose_author_writes_the_annotation_in_a_loop_causes_no_write_of_ours() -> None:
    bench = Bench.filled()
    async with bench.running():
        bench.ask("loop", 8)
        for turn in range(500):
            moment = {} if turn % 2 else {ROOM_FOUND: f"2026-01-01T00:00:00.{turn:06}Z"}
            bench.create("loop", 8, annotations=moment)
            bench.ask("loop", 8, annotations=moment)
        assert await bench.pass_(60) == []
        bench.ask("victim", 8)
        bench.end("x")
        assert await bench.pass_(SOON_S) == ["loop", "victim"], "both fit"


@pytest.mark.slow
@pytest.mark.parametrize("answers", [True, False], ids=["offered and never bound", "never asked about again"])
async def test_older_pods_that_never_get_bound_do_not_keep_the_room_from_another_namespace(*, answers: bool) -> None:
    """Their volumes never come, say: kube-scheduler asks about them, is offered the node, and binds nothing."""
    bench = Bench.filled()
    async with bench.running():
        for number in range(600):
            bench.ask(f"stuck-{number:03}", 16, namespace="attacker", creationTimestamp=OLD)
        bench.ask("victim", 16, namespace="tenant")
        bench.end("x")
        waited_s, woken = 0.0, list[str]()
        while "victim" not in woken and waited_s < 120:
            woken = await bench.pass_(0.5)
            waited_s += 0.5
            for name in woken:
                if answers and name != "victim":
                    assert bench.ask(name, 16, namespace="attacker", creationTimestamp=OLD) == "fits"
        assert "victim" in woken
        assert waited_s <= 5 * (2 * ANSWER_S + SOON_S)


async def test_pods_that_are_deleted_as_soon_as_they_are_woken_do_not_keep_the_room_either() -> None:
    bench = Bench.filled()
    async with bench.running():
        bench.ask("victim", 16, namespace="tenant")
        bench.ask("bait-0", 16, namespace="attacker", creationTimestamp=OLD)
        bench.end("x")
        woken = list[str]()
        for number in range(1, 40):
            woken = await bench.pass_(0.5)
            if "victim" in woken:
                break
            bench.state.pod_deleted(f"uid-bait-{number - 1}")
            bench.hold("blink", 16)
            bench.ask(f"bait-{number}", 16, namespace="attacker", creationTimestamp=OLD)
            bench.end("blink")
        assert "victim" in woken


async def test_a_namespace_comes_in_its_turn_again_once_one_of_its_woken_pods_is_bound() -> None:
    bench = Bench.filled()
    async with bench.running():
        for number in range(4):
            bench.ask(f"stuck-{number}", 16, namespace="first", creationTimestamp=OLD)
        bench.end("x")
        assert len(await bench.pass_(4 * (ANSWER_S + 1))) == 4
        bench.hold("y", 16)
        bench.ask("good", 16, namespace="first", creationTimestamp=OLD)
        bench.end("y")
        while "good" not in bench.api.pods:
            await bench.pass_(0.5)
        bench.hold("good", 16, namespace="first")
        await bench.pass_(1)
        bench.ask("younger", 16, namespace="second")
        bench.end("good")
        assert await bench.pass_(ANSWER_S / 2) == ["stuck-0"], "the oldest one first again"


@pytest.mark.slow
async def test_room_that_appears_and_goes_in_a_loop_causes_a_bounded_number_of_writes() -> None:
    """A filler pod is created and deleted all the time, while hundreds of pods wait that would fit without it."""
    bench = Bench(64)
    bench.hold("filler", 64)
    async with bench.running():
        seconds = 10
        for turn in range(seconds * 2):
            for number in range(100):
                bench.ask(f"pod-{number:03}", 1, namespace="attacker", creationTimestamp=OLD)
            bench.end("filler")
            await bench.pass_(0.45)
            bench.hold("filler", 64)
            await bench.pass_(0.05)
            assert len(bench.api.pods) <= MOST_PER_CHECK * (turn + 1) * 0.5 / CHECK_S
        assert bench.api.pods, "the attack does cause writes"


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["many pods", "many sets of nodes", "many shapes"])
def test_a_flood_of_refused_pods_pushes_no_pod_of_another_namespace_out(attack: str) -> None:
    refused = RefusedPods()
    asked = frozenset(f"node-{number}" for number in range(500))
    for number in range(3):
        refused.add(request_of(a_pod(f"victim-{number}", 8, namespace="tenant")), asked, 0)
    count = {"many pods": MAX_PODS + 20, "many sets of nodes": 500, "many shapes": MAX_GROUPS + 20}[attack]
    for number in range(count):
        units = 1 + number if attack == "many shapes" else 8
        names = frozenset(f"n-{number}-{n}" for n in range(500)) if attack == "many sets of nodes" else asked
        refused.add(request_of(a_pod(f"pod-{number}", units, namespace="attacker")), names, 0)
    for number in range(3):
        assert refused.pods[f"uid-victim-{number}"].group in refused.groups.values()
    assert len(refused.pods) <= MAX_PODS
    assert len(refused.groups) <= MAX_GROUPS
    assert {uid for group in refused.groups.values() for uid in group.pods} == refused.pods.keys()
    for uid in list(refused.pods):
        refused.forget(uid)
    assert not refused.groups


@pytest.mark.slow
async def test_a_woken_pod_that_a_flood_pushes_out_of_memory_is_left_to_the_scheduler() -> None:
    bench = Bench.filled()
    async with bench.running():
        bench.ask("first", 16, namespace="attacker", creationTimestamp=OLD)
        bench.end("x")
        assert await bench.pass_(SOON_S / 2) == ["first"]
        bench.hold("y", 16)
        for number in range(MAX_PODS):
            bench.ask(f"pod-{number}", 16, namespace="attacker")
        assert await bench.pass_(2 * ANSWER_S) == []
        bench.end("y")
        (woken,) = await bench.pass_(SOON_S / 2)
        assert woken != "first"
