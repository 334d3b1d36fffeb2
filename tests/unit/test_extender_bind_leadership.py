"""Only a leader binds, for as long as its lease lasts; if it dies meanwhile, its successor counts right."""

from __future__ import annotations

import asyncio

import pytest

from gcushare.core.requests import CardRequest
from gcushare.scheduler_extender.leadership import NotLeader
from gcushare.scheduler_extender.verbs.bind import BindService
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
