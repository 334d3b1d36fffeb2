"""Only a leader binds, for as long as its lease lasts; if it ends or dies meanwhile, its successor counts right."""

from __future__ import annotations

import asyncio

import pytest

from gcushare.core.requests import CardRequest
from gcushare.runtime.settings.election import ElectionSettings
from gcushare.runtime.shutdown import STOP_DEADLINE_S
from gcushare.scheduler_extender.app import BINDS_DRAIN_S, DRAIN_S, EVENTS_DRAIN_S, REQUESTS_DRAIN_S
from gcushare.scheduler_extender.leadership import NotLeader
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.vendors import ENFLAME
from tests.extender_objects import a_pod
from tests.unit.extender_binds import QUICK, Office, Rig
from tests.unit.extender_cluster import Mishap


class TestLeadership:
    async def test_a_follower_binds_nothing_and_names_the_leader(self) -> None:
        rig = Rig(a_pod("a"), office=Office(is_leader=False))
        with pytest.raises(NotLeader, match="the leader is another"):
            await rig.bind()

        assert rig.cluster.bindings == []
        assert rig.used() == [0, 0]

    async def test_the_lease_must_outlast_the_request(self) -> None:
        rig = Rig(a_pod("a"))
        await rig.bind()

        assert set(rig.office.margins) == {QUICK.attempt_s}

    async def test_leadership_lost_between_reserving_and_sending_sends_nothing(self) -> None:
        rig = Rig(a_pod("a"), office=Office(questions_left=1))
        with pytest.raises(NotLeader):
            await rig.bind()

        assert rig.cluster.bindings == []
        assert rig.used() == [0, 0]

    async def test_leadership_lost_between_two_attempts_keeps_what_may_still_come_true(self) -> None:
        rig = Rig(a_pod("a"), office=Office(questions_left=2))
        rig.cluster.mishaps.append(Mishap.LOST_BEFORE)
        with pytest.raises(NotLeader):
            await rig.bind()
        assert rig.used() == [4, 0]

        rig.cluster.arrive()
        rig.check_truth()
        assert rig.used() == [4, 0]


@pytest.mark.parametrize("awaits", range(8))
@pytest.mark.parametrize("mishap", list(Mishap))
async def test_a_process_that_dies_after_any_step_leaves_a_cluster_that_its_successor_counts_rightly(
    mishap: Mishap, awaits: int
) -> None:
    """Killed after so many turns of the loop; what was on the way arrives; the successor knows only the cluster."""
    rig = Rig(a_pod("a", 12), a_pod("b", 12))
    await rig.bind("b", "node-2")
    rig.cluster.mishaps.append(mishap)
    dying = asyncio.create_task(rig.bind("a"))
    for _ in range(awaits):
        await asyncio.sleep(0)
    await kill(rig.service, dying)
    rig.cluster.arrive()

    pod = rig.cluster.pods["default", "a"]
    assert pod.is_bound == (ENFLAME.record.card_index in pod.metadata.annotations)
    successor = Rig(cards=(16,))
    successor.cluster = rig.cluster
    rig.cluster.tell(successor.state)
    assert successor.used("node-1") == ([12] if pod.is_bound else [0])
    assert successor.state.ledger.nodes["node-1"].fits(CardRequest(12)) != pod.is_bound


async def kill(service: BindService, *callers: asyncio.Task[None]) -> None:
    """End callers and bindings wherever they are."""
    own = [task for task in asyncio.all_tasks() if task.get_name().startswith("bind ")]
    for task in (*callers, *own):
        task.cancel()
    await asyncio.gather(*callers, *own, return_exceptions=True)


class TestTheEnd:
    """What ends in time is waited for, the rest is cancelled."""

    @staticmethod
    async def left_alone() -> tuple[Rig, asyncio.Event]:
        """A bind whose caller went away while its Binding is on its way."""
        rig = Rig(a_pod("a", 4))
        caller, arrives = await rig.begin()
        caller.cancel()
        await asyncio.wait([caller])
        assert rig.service.under_way == 1
        return rig, arrives

    async def test_a_binding_without_a_caller_is_waited_for(self) -> None:
        rig, arrives = await self.left_alone()
        draining = asyncio.create_task(rig.service.drain(60))
        await asyncio.sleep(0)
        arrives.set()
        await draining

        assert (rig.cluster.pods["default", "a"].is_bound, rig.service.under_way) == (True, 0)
        rig.check_truth()

    async def test_one_that_takes_too_long_is_cancelled_and_gone_when_the_drain_returns(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        before = asyncio.all_tasks()
        rig, _ = await self.left_alone()
        await rig.service.drain(0.01)

        assert (rig.service.under_way, asyncio.all_tasks()) == (0, before)
        assert "bindings cancelled" in caplog.text


def test_the_parts_of_the_end_fit_into_the_whole_and_that_into_the_programs() -> None:
    bind_s = BindTimes().total_s
    assert bind_s < REQUESTS_DRAIN_S
    assert bind_s < BINDS_DRAIN_S
    assert REQUESTS_DRAIN_S + BINDS_DRAIN_S + EVENTS_DRAIN_S < DRAIN_S
    # Giving the Lease up takes a read and a write after that.
    assert DRAIN_S + 2 * ElectionSettings().lease_retry < STOP_DEADLINE_S
