"""The scheduler double's queue: order, backoff, and what brings back a pod that fitted nowhere."""

from __future__ import annotations

import pytest

from gcushare_playground.scheduler.objects import PodInfo, read_pod
from gcushare_playground.scheduler.queueing import QueuedPod, SchedulingQueue
from gcushare_playground.scheduler.settings import Pacing
from tests.manual_clock import ManualClock

PACING = Pacing(initial_backoff_s=1.0, max_backoff_s=4.0, unschedulable_s=300.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0.0)


@pytest.fixture
async def queue(clock: ManualClock) -> SchedulingQueue:
    return SchedulingQueue(PACING, clock)


def pod(name: str, *, priority: int = 0, label: str = "") -> PodInfo:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"label": label}}
    return read_pod({"metadata": metadata, "spec": {"priority": priority, "containers": []}})


def changed(name: str, metadata: dict[str, object], status: dict[str, object]) -> PodInfo:
    known = pod(name)
    return read_pod({**known.raw, "metadata": {**known.raw["metadata"], **metadata}, "status": status})


def take(queue: SchedulingQueue) -> QueuedPod:
    queued = queue.take_ready()
    assert queued is not None
    return queued


def fail(queue: SchedulingQueue, *, is_error: bool = False) -> None:
    queue.give_back(take(queue), is_error=is_error)


async def test_a_pod_that_fitted_nowhere_waits_for_an_event_and_for_its_backoff(
    queue: SchedulingQueue, clock: ManualClock
) -> None:
    queue.put(pod("a"))
    fail(queue)
    clock.now_s = 200.0
    assert queue.take_ready() is None
    queue.cluster_changed()
    fail(queue)
    queue.cluster_changed()
    assert queue.take_ready() is None
    clock.now_s = 202.0
    assert take(queue).attempts == 3


@pytest.mark.parametrize(
    ("metadata", "status", "is_tried", "is_tried_by_old_ones"),
    [
        pytest.param({"annotations": {"gcushare.io/room-found": "2026"}}, {}, True, True, id="an annotation"),
        pytest.param({}, {"conditions": [{"type": "gcushare.io/Room"}]}, True, False, id="a condition"),
        pytest.param({"resourceVersion": "7", "managedFields": [{}]}, {}, False, False, id="bookkeeping"),
    ],
)
async def test_what_is_written_on_a_waiting_pod_wakes_it(
    clock: ManualClock,
    metadata: dict[str, object],
    status: dict[str, object],
    is_tried: bool,
    is_tried_by_old_ones: bool,
) -> None:
    """Schedulers without queueing hints leave the status out of the comparison, all leave bookkeeping out."""
    for heeds_status, expected in ((True, is_tried), (False, is_tried_by_old_ones)):
        queue = SchedulingQueue(PACING, clock, heeds_status=heeds_status)
        queue.put(pod("a"))
        fail(queue)
        clock.advance(10.0)
        queue.put(changed("a", metadata, status))
        assert (queue.take_ready() is not None) == expected
