"""Room that became free wakes those who wait for it, as many as fit, and no author starves others by it."""

from __future__ import annotations

import pytest

from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError
from gcushare.scheduler_extender.state.nominations import KEPT_S
from gcushare.scheduler_extender.waking.refused_pods import MAX_GROUPS, MAX_PODS, RefusedPods
from gcushare.scheduler_extender.waking.waker import (
    ANSWER_S,
    CHECK_S,
    IDLE_CHECK_S,
    LEFT_ALONE_S,
    MOST_PER_CHECK,
    SETTLE_S,
)
from gcushare.wire.annotations import CARDS, ROOM_FOUND, USE_CARDS
from gcushare.wire.objects import Pod
from tests.extender_objects import a_node, a_pod, as_pod, pod_document, request_of
from tests.unit.extender_waker import SOON_S, Bench


def nominated(node: str) -> Pod:
    """A preemptor of 16 that outranks the others, for which room of a node is kept."""
    return a_pod("nominee", 16, priority=7, nominated=node)


@pytest.fixture
def full() -> Bench:
    """One node of one card that is full."""
    return Bench.filled()


async def test_room_that_was_there_before_the_watch_reported_wakes_as_well(full: Bench) -> None:
    """The scheduler heard first, asked, and was refused; our watch is late by less than the time to settle."""
    async with full.running():
        assert full.ask("a", 8) == "refused"
        assert full.ask("a", 8) == "refused"
        full.end("x")
        assert await full.pass_(SOON_S) == ["a"]


async def test_while_nothing_changes_there_is_next_to_nothing_to_do(full: Bench) -> None:
    async with full.running():
        assert full.ask("a", 8) == "refused"
        await full.pass_(4)
        sleeps = full.time.sleeps
        await full.pass_(20 * IDLE_CHECK_S)
        # A look now and then, each with what it waits for before the next.
        assert full.time.sleeps - sleeps <= 2 * 20 + 2
        full.end("x")
        assert await full.pass_(SETTLE_S + 3 * CHECK_S) == ["a"], "it does not wait for the next of these looks"


@pytest.mark.slow
async def test_as_many_are_woken_as_would_fit_by_priority_and_then_by_age() -> None:
    bench = Bench(16)
    bench.hold("x", 16)
    async with bench.running():
        for number in range(200):
            bench.ask(f"pod-{number:03}", 5, creationTimestamp=f"2026-01-01T{number // 60:02}:{number % 60:02}:00Z")
        bench.state.pod_applied(a_pod("urgent", 5, priority=7))
        bench.ask("urgent", 5)
        bench.end("x")
        assert await bench.pass_(ANSWER_S) == ["pod-000", "pod-001", "urgent"]


async def test_pods_of_several_shapes_share_the_room_that_is_there() -> None:
    bench = Bench(16, 16)
    bench.hold("x", 16, card=0)
    bench.hold("y", 16, card=1)
    async with bench.running():
        bench.ask("large", 12)
        bench.ask("wide", 8, annotations={CARDS: "2"})
        bench.ask("choosy", 4, annotations={USE_CARDS: "1"})
        bench.ask("small", 4)
        bench.ask("left-over", 6)
        bench.end("x")
        bench.end("y")
        # 12 and 4 fill one card; 4, 4 and 4 leave 4 of the other.
        assert await bench.pass_(ANSWER_S) == ["choosy", "large", "small", "wide"]


async def test_a_scheduler_that_asks_by_itself_is_left_alone(full: Bench) -> None:
    async with full.running():
        full.ask("a", 8)
        full.end("x")
        await full.pass_(SETTLE_S / 2)
        assert full.ask("a", 8) == "fits"
        full.hold("a", 8)
        assert await full.pass_(4) == []


@pytest.mark.parametrize("event", ["taken before it settled", "the pod is gone", "another replica serves"])
async def test_room_that_is_not_for_the_pod_wakes_no_one(full: Bench, event: str) -> None:
    async with full.running():
        full.ask("a", 8)
        match event:
            case "taken before it settled":
                full.end("x")
                await full.pass_(SETTLE_S / 2)
                full.hold("y", 16)
            case "the pod is gone":
                full.end("a")
                full.end("x")
            case _:
                full.serves = False
                full.end("x")
        assert await full.pass_(4) == []


async def test_a_pod_that_the_scheduler_leaves_alone_makes_way_and_is_not_written_to_again() -> None:
    """Its node has no cpu left: the scheduler does not even ask us."""
    bench = Bench(16, nodes=2)
    bench.hold("x", 16, "node-1")
    bench.hold("y", 16, "node-2")
    async with bench.running():
        bench.ask("stuck", 16)
        bench.ask("next", 16)
        bench.end("x")
        assert await bench.pass_(ANSWER_S / 2) == ["stuck"]
        assert await bench.pass_(2 * ANSWER_S) == ["next"], "the room is not kept for who does not come"
        assert await bench.pass_(8) == []
        assert bench.waker.counters["unanswered"] == 2
        bench.end("y")
        assert await bench.pass_(SOON_S) == ["stuck"], "another node has room"


@pytest.mark.parametrize("is_asked", [True, False])
async def test_room_that_went_and_came_back_is_new(full: Bench, *, is_asked: bool) -> None:
    """Whether or not the scheduler asked about the pod that it was woken for."""
    async with full.running():
        full.ask("a", 8)
        assert await full.pass_(4) == [], "there is no room"
        full.end("x")
        assert await full.pass_(SOON_S) == ["a"]
        assert await full.pass_(8) == [], "one write for one room"
        full.hold("thief", 16)
        if is_asked:
            assert full.ask("a", 8) == "refused"
        assert await full.pass_(4) == []
        full.end("thief")
        assert await full.pass_(SOON_S) == ["a"]
        assert len(set(full.api.moments)) == 2, "a value that is there already would be no change"


async def test_only_nodes_that_the_scheduler_asked_about_count() -> None:
    bench = Bench(16, nodes=2)
    bench.hold("x", 16, "node-1")
    async with bench.running():
        assert bench.ask("a", 8, ["node-1"]) == "refused"
        assert await bench.pass_(4) == [], "node-2 has room all the time"
        bench.end("x")
        assert await bench.pass_(SOON_S) == ["a"]


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "nominated elsewhere"])
async def test_room_that_is_kept_no_more_wakes_pods_that_were_kept_out(*, is_gone: bool) -> None:
    bench = Bench(16, nodes=2)
    bench.hold("y", 16, "node-2")
    async with bench.running():
        bench.state.pod_applied(nominated("node-1"))
        assert bench.ask("a", 8) == "refused"
        assert "a" not in await bench.pass_(10)
        if is_gone:
            bench.end("nominee")
        else:
            bench.state.pod_applied(nominated("node-2"))
        assert "a" in await bench.pass_(IDLE_CHECK_S + SETTLE_S + 3 * CHECK_S)


@pytest.mark.slow
async def test_room_that_was_kept_long_enough_wakes_pods_that_were_kept_out_once() -> None:
    bench = Bench(16)
    async with bench.running():
        bench.state.pod_applied(nominated("node-1"))
        assert bench.ask("a", 8) == "refused"
        assert "a" not in await bench.pass_(KEPT_S - IDLE_CHECK_S)
        assert "a" in await bench.pass_(2 * IDLE_CHECK_S + SETTLE_S + 3 * CHECK_S)
        changes = bench.state.changes.position
        await bench.pass_(20 * IDLE_CHECK_S)
        assert bench.state.changes.position == changes, "the node is not checked again and again"


@pytest.mark.parametrize(
    ("error", "woken"), [(ForbiddenError("pods/status is forbidden"), ["a"]), (NotFoundError("pods a not found"), [])]
)
async def test_a_write_that_fails_is_made_up_for_unless_the_pod_is_gone(
    full: Bench, error: GcushareError, woken: list[str]
) -> None:
    async with full.running():
        full.ask("a", 8)
        full.api.error = error
        full.end("x")
        assert await full.pass_(SOON_S) == []
        full.api.error = None
        assert await full.pass_(10) == woken
        assert (full.waker.counters["failed"] > 0) is bool(woken)


@pytest.mark.slow
async def test_pods_that_an_earlier_leader_refused_are_woken_unless_the_scheduler_asks_about_them(full: Bench) -> None:
    for name in ("asked", "offered", "stuck"):
        full.create(name, 4)
    gated = pod_document("gated", 4)
    gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    full.state.pod_applied(as_pod(gated))
    full.serves = False
    async with full.running():
        full.end("x")
        assert await full.pass_(2 * LEFT_ALONE_S) == [], "this replica does not serve"
        full.serves = True
        await full.pass_(IDLE_CHECK_S)
        full.create("new", 4)
        assert full.ask("offered", 4) == "fits"
        full.state.node_applied(a_node("node-1"))
        assert full.ask("asked", 4) == "refused"
        assert await full.pass_(LEFT_ALONE_S / 2) == []
        full.state.node_applied(a_node("node-1", 16))
        assert await full.pass_(SOON_S) == ["asked"], "as always"
        assert await full.pass_(LEFT_ALONE_S / 2 + SOON_S) == ["stuck"]
        assert await full.pass_(2 * LEFT_ALONE_S) == []


async def test_a_replica_that_lost_the_lease_begins_again_with_it(full: Bench) -> None:
    async with full.running():
        assert full.ask("a", 8) == "refused"
        await full.pass_(2 * LEFT_ALONE_S)
        full.serves = False
        await full.pass_(IDLE_CHECK_S + CHECK_S)
        full.end("x")
        full.serves = True
        assert await full.pass_(LEFT_ALONE_S / 2) == []
        assert await full.pass_(LEFT_ALONE_S) == ["a"]


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
