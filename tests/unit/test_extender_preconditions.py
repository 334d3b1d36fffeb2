"""A Binding is for the pod as it stood when it was decided on: one that comes late changes no other."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from gcushare.core.errors import RetryableError
from gcushare.scheduler_extender.leadership import NotLeader
from gcushare.scheduler_extender.state.scheduling_request import read_scheduling_request
from gcushare.wire.annotations import encode_record
from gcushare.wire.objects import Condition, Pod, PodStatus
from tests.extender_objects import a_pod, on_card
from tests.unit.extender_binds import Rig
from tests.unit.extender_cluster import Mishap


def refused_by_the_scheduler(pod: Pod) -> Pod:
    """As kube-scheduler leaves a pod whose bind came to nothing: it writes a condition."""
    why = Condition(type="PodScheduled", status="False", reason="SchedulerError", message="deadline exceeded")
    return replace(pod, status=PodStatus(phase="Pending", conditions=(why,)))


async def test_a_replica_that_was_paused_past_its_lease_binds_nothing() -> None:
    """It stood still with the Binding ready to leave; the scheduler gave up, and the next leader gave the card away."""
    rig = Rig(a_pod("a", 12), a_pod("b", 12), cards=(16,))
    resumed = rig.cluster.bindings_travel = asyncio.Event()
    binding = asyncio.create_task(rig.bind("a"))
    while not rig.cluster.bindings:  # noqa: ASYNC110 - a few turns of the loop
        await asyncio.sleep(0)

    cluster, rig.office.is_leader = rig.cluster, False
    cluster.put(refused_by_the_scheduler(cluster.pods["default", "a"]))
    record = encode_record(rig.state.vendor, on_card(0, 12))
    cluster.put(cluster.bound(cluster.pods["default", "b"], "node-1", record))
    resumed.set()
    with pytest.raises(NotLeader):
        await binding

    assert rig.recorded() == {("node-1", "0"): 12}
    assert rig.used() == [0]


async def test_a_pod_that_changed_since_the_watch_reported_is_bound_at_the_version_that_is_read() -> None:
    rig = Rig(a_pod("a", 4))
    rig.cluster.put(rig.cluster.pods["default", "a"])
    await rig.bind("a")

    assert (len(rig.cluster.bindings), rig.cluster.reads, rig.service.sender.conflicts) == (2, 1, 1)
    rig.check_truth()


async def test_the_version_that_filter_saw_counts_if_the_watch_is_late() -> None:
    rig = Rig(a_pod("a", 4))
    rig.cluster.put(rig.cluster.pods["default", "a"])
    asking = read_scheduling_request(rig.cluster.pods["default", "a"], rig.state.vendor, rig.state.policies)
    assert asking is not None
    rig.state.remember(asking)
    await rig.bind("a")

    assert (len(rig.cluster.bindings), rig.cluster.reads) == (1, 0)
    rig.check_truth()


async def test_an_older_version_in_a_filter_request_takes_nothing_back() -> None:
    rig = Rig(a_pod("a", 4))
    older = read_scheduling_request(rig.cluster.pods["default", "a"], rig.state.vendor, rig.state.policies)
    rig.cluster.put(rig.cluster.pods["default", "a"])
    rig.cluster.tell(rig.state)
    assert older is not None
    rig.state.remember(older)
    await rig.bind("a")

    assert (len(rig.cluster.bindings), rig.cluster.reads) == (1, 0)


async def test_a_binding_that_arrives_late_changes_no_pod_that_was_written_since() -> None:
    rig = Rig(a_pod("a", 12))
    rig.cluster.mishaps.extend([Mishap.LOST_BEFORE, *[Mishap.NOT_SENT] * 100])
    with pytest.raises(RetryableError, match="nothing was sent"):
        await rig.bind("a")
    rig.cluster.put(refused_by_the_scheduler(rig.cluster.pods["default", "a"]))
    rig.cluster.arrive()

    assert rig.recorded() == {}
