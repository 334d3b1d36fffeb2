"""The queue of the scheduler's double: what brings back a pod that fitted nowhere."""

from __future__ import annotations

import pytest

from gcushare_playground.scheduler.objects import PodInfo, read_pod
from gcushare_playground.scheduler.queueing import SchedulingQueue
from gcushare_playground.scheduler.settings import Pacing
from tests.manual_clock import ManualClock

PACING = Pacing(initial_backoff_s=1.0, max_backoff_s=4.0, unschedulable_s=300.0)


def pod(metadata: dict[str, object], status: dict[str, object]) -> PodInfo:
    named = {"name": "a", "namespace": "default", "uid": "a", **metadata}
    return read_pod({"metadata": named, "spec": {"containers": []}, "status": status})


@pytest.mark.parametrize(
    ("metadata", "status", "is_tried", "is_tried_by_old_ones"),
    [
        pytest.param({"annotations": {"gcushare.io/room-found": "2026"}}, {}, True, True, id="an annotation"),
        pytest.param({}, {"conditions": [{"type": "gcushare.io/Room"}]}, True, False, id="a condition"),
        pytest.param({"resourceVersion": "7", "managedFields": [{}]}, {}, False, False, id="bookkeeping"),
    ],
)
def test_what_is_written_on_a_waiting_pod_wakes_it(
    metadata: dict[str, object], status: dict[str, object], is_tried: bool, is_tried_by_old_ones: bool
) -> None:
    """Schedulers without queueing hints leave the status out of the comparison, all leave bookkeeping out."""
    for heeds_status, expected in ((True, is_tried), (False, is_tried_by_old_ones)):
        clock = ManualClock(0.0)
        queue = SchedulingQueue(PACING, clock, heeds_status=heeds_status)
        queue.put(pod({}, {}))
        tried = queue.take_ready()
        assert tried is not None
        queue.give_back(tried, is_error=False)
        clock.advance(10.0)
        queue.put(pod(metadata, status))
        assert (queue.take_ready() is not None) == expected
