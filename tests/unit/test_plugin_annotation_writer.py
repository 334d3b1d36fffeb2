"""When the kubelet is asked, and when records are written: each pod at its own pace, whatever is said of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gcushare.core.cards import UnrecordedHolder
from gcushare.core.errors import ConflictError, ForbiddenError, GcushareError, NotFoundError, RetryableError
from gcushare.device_plugin.pods import reconciler as reconciling
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.annotation_writer import LEAST_INTERVAL_S, POLL_S, RESEND_S
from gcushare.device_plugin.pods.reconciler import AllocationReconciler
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.pods.unrecorded import PATIENCE_S
from gcushare.kube.errors import InvalidError
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from tests.running import running
from tests.unit.node_agent_rig import World, checkpoint, reconciler_of, write_due
from tests.unit.plugin_pods import pod, store_of, with_more


@pytest.mark.parametrize(
    ("record", "patched", "waiting", "problem"),
    [
        pytest.param(None, [("a", "0")], [], "neither podresources nor a checkpoint", id="no record: counts"),
        pytest.param(KubeletAllocations("podresources"), [], ["a"], "", id="a record without it: dropped"),
    ],
)
async def test_an_allocation_that_no_record_shows_ends_after_some_patience(
    record: KubeletAllocations | None, patched: list[tuple[str, str]], waiting: list[str], problem: str
) -> None:
    world, store = World(record=record), store_of(pod("a", 4))
    reconciler = reconciler_of(world, store)
    store.on_allocate("uid-a", "c0", {0: 4}, world.now_s)
    for expected in ([], patched):
        await reconciler.check()
        await write_due(reconciler)
        assert world.patched == expected
        world.now_s += reconciling.PATIENCE_S + 0.1
    assert [candidate.pod.name for candidate in store.candidates()] == waiting
    assert problem in reconciler.problem


async def test_a_kubelet_that_has_just_started_shows_less_than_it_gave_out_and_its_checkpoint_is_asked() -> None:
    world, store = World(), store_of(pod("a", 4, card=0), pod("b", 4, card=1, assigned=True), pod("c", 4, card=1))
    reconciler = reconciler_of(world, store)
    world.hold("a", 0)
    await reconciler.check()
    assert store.held_units() == {0: 4}
    world.record = KubeletAllocations("podresources")
    world.checkpoint = checkpoint({"uid-a": 0, "uid-b": 1, "uid-c": 1})
    await reconciler.check()
    assert store.held_units() == {0: 4, 1: 4}, "what was known, and what its record says; the third was never confirmed"
    assert world.read.held_ids(0) == frozenset(device_ids_of_card(0, 4))
    assert store.cards_in_use(whole=False) == {0, 1}


async def test_a_pod_that_only_claims_to_hold_a_card_gets_none_from_the_checkpoint() -> None:
    world, store = World(), store_of(pod("forged", 4, card=0, assigned=True))
    world.checkpoint = checkpoint({})
    await reconciler_of(world, store).check()
    assert store.held_units() == {}


async def keeper_with(world: World, *names: str) -> tuple[AllocationReconciler, PodStore]:
    """A reconciler that knows these pods: each holds units of card 1, but its record says card 0."""
    store = store_of(*(pod(name, 4) for name in names))
    for name in names:
        world.hold(name, 1)
    reconciler = reconciler_of(world, store)
    await reconciler.check()
    return reconciler, store


def watch(reconciler: AllocationReconciler, store: PodStore, name: str, card: int, *, assigned: bool = True) -> None:
    """Have the watch show a pod with this record."""
    bound = pod(name, 4, card=card, assigned=assigned)
    corrected = {"gcushare.io/corrected": "0->1"} if card == 1 else {}
    store.pod_applied(with_more(bound, corrected))
    reconciler.writer.pod_applied(f"uid-{name}")


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the world has no event for every state
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"failures": {"a": RetryableError("busy")}}, id="busy"),
        pytest.param({"failures": {"a": ForbiddenError("denied by a webhook")}}, id="refused"),
        pytest.param({"stuck": {"a": asyncio.Event()}}, id="not answered"),
    ],
)
async def test_a_pod_whose_record_is_not_written_delays_no_other_and_its_write_is_not_sent_twice(
    options: dict[str, Any],
) -> None:
    world = World(**options)
    reconciler, store = await keeper_with(world, "a")
    async with running(reconciler.writer.run(), "writer under test"):
        await until(lambda: world.asked == ["a"])
        world.hold("b", 1)
        store.pod_applied(pod("b", 4))
        await reconciler.check()
        await until(lambda: world.patched == [("b", "1")])
        for answer in world.stuck.values():
            answer.set()
            await until(lambda: len(world.patched) == 2)
    assert world.asked == ["a", "b"]


@pytest.mark.parametrize(
    ("failure", "longest_s"),
    [
        pytest.param(RetryableError("away"), [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0], id="away"),
        pytest.param(RetryableError("slow down", delay_s=7.0), [7.0, 7.0, 7.0, 7.0, 7.0, 7.0], id="asked to wait"),
        pytest.param(ForbiddenError("no rights"), [20.0, 40.0, 80.0, 160.0, 180.0, 180.0], id="no rights"),
        pytest.param(InvalidError("too long"), [20.0, 40.0, 80.0, 160.0, 180.0, 180.0], id="malformed"),
        pytest.param(NotFoundError("gone"), [0.2, 0.4, 0.8], id="gone"),
        pytest.param(ConflictError("another uid"), [0.2, 0.4, 0.8], id="another pod of that name"),
    ],
)
async def test_a_pod_waits_longer_after_each_failure(failure: GcushareError, longest_s: list[float]) -> None:
    world = World(failures={"a": failure})
    reconciler, _ = await keeper_with(world, "a")
    least_share = 1.0 if isinstance(failure, RetryableError) and failure.delay_s else 0.5
    delay_s = await write_due(reconciler)
    for number, limit_s in enumerate(longest_s, start=1):
        failed_at_s = world.now_s
        while len(world.asked) == number:
            world.now_s += delay_s + 0.01
            delay_s = await write_due(reconciler)
        assert least_share * limit_s <= round(world.now_s - failed_at_s, 6) <= limit_s + 0.05
    world.failures.clear()
    world.now_s += max(delay_s, 180.0)
    await write_due(reconciler)
    assert world.patched == [("a", "1")]
    is_gone = isinstance(failure, NotFoundError | ConflictError)
    assert reconciler.writer.failed_writes == (0 if is_gone else len(longest_s) + 1)


async def test_a_refusal_is_reported_once_and_is_a_problem_until_the_record_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(failures={"a": ForbiddenError("denied by a webhook")})
    reconciler, _ = await keeper_with(world, "a", "b")
    for _ in range(3):
        await write_due(reconciler)
        world.now_s += 400.0
    assert [record.levelname for record in caplog.records if "denied by a webhook" in record.message] == ["WARNING"]
    assert reconciler.writer.problem == "the records of 1 pod (d/a) cannot be written: denied by a webhook"
    world.failures.clear()
    await write_due(reconciler)
    assert reconciler.writer.problem == ""


async def test_a_record_forged_after_its_echo_is_written_again_within_a_second() -> None:
    world = World()
    reconciler, store = await keeper_with(world, "a")
    await write_due(reconciler)
    watch(reconciler, store, "a", card=1)
    watch(reconciler, store, "a", card=0)
    assert await write_due(reconciler) == LEAST_INTERVAL_S
    assert world.patched == [("a", "1")]
    world.now_s += LEAST_INTERVAL_S
    await write_due(reconciler)
    assert world.patched == [("a", "1")] * 2


async def test_against_a_program_that_removes_records_the_node_speaks_and_writes_become_rare() -> None:
    """A syncer of virtual clusters knows no annotation that was not synced from above, and removes it at once."""
    world = World()
    reconciler, store = await keeper_with(world, "a")
    waits, said = [], []
    for _ in range(9):
        await write_due(reconciler)
        watch(reconciler, store, "a", card=1)
        assert store.pod_applied(pod("a", 4, card=None)), "the kubelet is read at once"
        waits.append(await write_due(reconciler))
        for _ in range(2):
            await reconciler.check()
            said.append(store.unrecorded.lasting(world.now_s))
            world.now_s += waits[-1] / 2
    assert waits == [1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert said[4:] == [(UnrecordedHolder(pod="d/a", units={1: 4}),)] * 14, "from the third time on, without a gap"
    assert store.held_units() == {1: 4}, "it is counted once here"
    assert "removes or changes the records of 1 pod (d/a)" in reconciler.writer.problem
    await write_due(reconciler)
    watch(reconciler, store, "a", card=1)
    await reconciler.check()
    assert store.unrecorded.lasting(world.now_s) == (), "once a record stays, it speaks"
    world.now_s += 32.0
    await write_due(reconciler)
    assert reconciler.writer.problem == ""


async def test_what_a_pod_holds_is_said_by_the_node_while_its_record_cannot_be_written() -> None:
    world = World(failures={"a": ForbiddenError("denied by a webhook")})
    reconciler, store = await keeper_with(world, "a")
    await write_due(reconciler)
    assert store.unrecorded.lasting(world.now_s) == (), "a correction takes a moment"
    world.now_s += PATIENCE_S
    await reconciler.check()
    assert store.unrecorded.lasting(world.now_s) == (UnrecordedHolder(pod="d/a", units={1: 4}),)


async def test_an_echo_that_overtakes_the_answer_is_one() -> None:
    world = World(stuck={"a": asyncio.Event()})
    reconciler, store = await keeper_with(world, "a")
    async with asyncio.TaskGroup() as writers:
        reconciler.writer.start_due(writers)
        await until(lambda: world.asked == ["a"])
        watch(reconciler, store, "a", card=1)
        world.stuck["a"].set()
    watch(reconciler, store, "a", card=0)
    assert await write_due(reconciler) == LEAST_INTERVAL_S


async def test_a_write_without_an_echo_is_due_again_after_a_while_by_itself() -> None:
    world = World()
    reconciler, _ = await keeper_with(world, "a")
    assert await write_due(reconciler) == RESEND_S
    world.now_s += RESEND_S
    await write_due(reconciler)
    assert world.patched == [("a", "1")] * 2


async def test_another_truth_is_written_at_once_whatever_became_of_the_last_write() -> None:
    world = World(failures={"a": ForbiddenError("card 1 is denied by a webhook")})
    reconciler, store = await keeper_with(world, "a")
    await write_due(reconciler)
    world.failures.clear()
    world.hold("a", 0)
    await reconciler.check()
    await write_due(reconciler)
    assert world.patched == [("a", "0")]
    watch(reconciler, store, "a", card=0)
    assert await write_due(reconciler) == POLL_S
