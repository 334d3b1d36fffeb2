"""At the end no binding is left without an owner: what ends in time is waited for, the rest is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from gcushare.core.assignments import PodRef
from gcushare.runtime.settings.election import ElectionSettings
from gcushare.runtime.shutdown import STOP_DEADLINE_S
from gcushare.scheduler_extender.app import BINDS_DRAIN_S, DRAIN_S, EVENTS_DRAIN_S, REQUESTS_DRAIN_S
from gcushare.scheduler_extender.leadership import AlwaysLeader
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.wire.extender_api import BindArguments
from gcushare.wire.objects import Pod
from tests.extender_objects import a_node, a_pod, state_of
from tests.played_api import Asked
from tests.unit.extender_cluster import Cluster


class SlowCluster(Cluster):
    """Takes Bindings when a test says so."""

    def __init__(self) -> None:
        super().__init__(a_pod("a", 4))
        self.asked = asyncio.Event()
        self.may_bind = asyncio.Event()

    async def answer(self, asked: Asked) -> Pod | None:
        self.asked.set()
        await self.may_bind.wait()
        return await super().answer(asked)


def service_of(cluster: SlowCluster) -> BindService:
    state = state_of(a_node("node-1", 16))
    cluster.tell(state)
    return BindService(state, cluster.client, AlwaysLeader())


async def bind_and_leave(service: BindService, cluster: SlowCluster) -> None:
    """Begin a bind whose caller goes away."""
    caller = asyncio.create_task(service.bind(BindArguments(PodRef("uid-a", "default", "a"), "node-1")))
    await cluster.asked.wait()
    caller.cancel()
    await asyncio.wait([caller])
    assert service.under_way == 1


async def test_a_binding_without_a_caller_is_waited_for() -> None:
    cluster = SlowCluster()
    service = service_of(cluster)
    await bind_and_leave(service, cluster)
    draining = asyncio.create_task(service.drain(60))
    await asyncio.sleep(0)
    cluster.may_bind.set()
    await draining

    assert cluster.pods["default", "a"].is_bound
    assert service.under_way == 0


async def test_one_that_takes_too_long_is_cancelled_and_gone_when_the_drain_returns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = SlowCluster()
    service = service_of(cluster)
    before = asyncio.all_tasks()
    await bind_and_leave(service, cluster)
    await service.drain(0.01)

    assert service.under_way == 0
    assert asyncio.all_tasks() == before
    assert "bindings cancelled" in caplog.text


def test_the_parts_of_the_end_fit_into_the_whole_and_that_into_the_programs() -> None:
    bind_s = BindTimes().total_s
    assert bind_s < REQUESTS_DRAIN_S
    assert bind_s < BINDS_DRAIN_S
    assert REQUESTS_DRAIN_S + BINDS_DRAIN_S + EVENTS_DRAIN_S < DRAIN_S
    # Giving the Lease up takes a read and a write after that.
    assert DRAIN_S + 2 * ElectionSettings().lease_retry < STOP_DEADLINE_S
