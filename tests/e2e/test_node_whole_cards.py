"""Whole and shared cards on a real kubelet: which pod gets which card, and that no race puts both uses on one."""

from __future__ import annotations

import pytest

from gcushare.core.units import GIB
from gcushare.kube.resources import PODS
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import PodRecord, encode_record
from gcushare_playground.picture import node_of, phase_of
from gcushare_playground.plans import NodePlan
from tests.e2e.control_plane import NODE
from tests.e2e.machine import Machine
from tests.e2e.node_side import WHOLE, NodeSide, StartNode, real_pod
from tests.e2e.objects import JsonObject
from tests.e2e.scheduling import Scheduling

ONE = NodePlan(name=NODE, card_bytes=(16 * GIB,))
FOUR = NodePlan(name=NODE, card_bytes=(16 * GIB,) * 4)
RACES = 6
NODE_OPTIONS = {"whole_cards": True}


async def expect_whole(side: NodeSide, name: str, *cards: int) -> None:
    """Check that record, kubelet and container name these cards."""
    assert (side.recorded(name), side.granted_whole(name)) == (cards, cards)
    seen = await side.seen(name)
    assert seen[ENFLAME.environment.visible] == ",".join(map(str, cards))
    assert ENFLAME.environment.container_units not in seen


async def test_both_kinds_of_pod_run_side_by_side_and_close_each_others_cards(start_node: StartNode) -> None:
    side = await start_node(FOUR)
    await side.run_pods(real_pod("shares", 4))
    await side.until_allocatable(3, resource=WHOLE)
    await side.run_pods(real_pod("pair", 0, whole=2))
    await expect_whole(side, "pair", 1, 2)
    await side.until_allocatable(32)
    await side.run_pods(real_pod("shares-too", 4))
    await side.expect_true("shares", "shares-too")
    assert side.recorded("shares") == side.recorded("shares-too") == (0,)
    await side.scheduling.create_pods([real_pod("waits", 0, whole=2)])
    message = await side.scheduling.until_said("waits", "FailedScheduling")
    assert "Insufficient enflame.com/gcu" in message
    assert not node_of(side.scheduling.pod("waits"))
    await side.scheduling.client.delete(PODS, "pair", namespace="default", grace_s=1)
    await side.until_running("waits")
    await expect_whole(side, "waits", 1, 2)


def recorded_on_card_0(body: JsonObject, *, whole: bool) -> JsonObject:
    """Bind a pod to the node by hand, with a record as an extender writes it that knows nothing of the other pod."""
    record = PodRecord(card_indexes=(0,), card_units=16, pod_units=16 if whole else 4, assign_time_ns=1, whole=whole)
    body["metadata"]["annotations"] = encode_record(ENFLAME, record)
    body["spec"]["nodeName"] = NODE
    return body


async def until_decided(side: NodeSide, *names: str) -> None:
    """Wait until one of two pods runs and the other was refused."""

    pods = side.scheduling.pods

    def phases() -> list[str]:
        found = (pods.objects.get(f"default/{name}") for name in names)
        return sorted(phase_of(each) for each in found if each is not None)

    await pods.until(lambda: phases() == ["Failed", "Running"], "one runs, one fails", shown=lambda: str(phases()))


async def test_of_two_pods_that_race_for_one_card_in_the_two_ways_never_both_start(start_node: StartNode) -> None:
    side = await start_node(ONE)
    winners = set()
    for turn in range(RACES):
        shares, takes = f"shares-{turn}", f"takes-{turn}"
        pods = [
            recorded_on_card_0(real_pod(shares, 4), whole=False),
            recorded_on_card_0(real_pod(takes, 0, whole=1), whole=True),
        ]
        await side.scheduling.create_pods(pods if turn % 2 else pods[::-1])
        await until_decided(side, shares, takes)
        loser = next(name for name in (shares, takes) if phase_of(side.scheduling.pod(name)) == "Failed")
        winners.add({shares: "whole", takes: "memory"}[loser])
        status = side.scheduling.pod(loser)["status"]
        assert status["reason"] == "UnexpectedAdmissionError"
        print(f"{loser}: {status['message']}")  # noqa: T201 - what the loser is shown, for the documents
        reported = await side.scheduling.until_said(loser, "CardInOtherUse")
        assert ("is in use as a whole" if loser == shares else "is shared") in reported
        await side.scheduling.delete_pods(grace_s=1)
        await side.until_allocatable(16)
        await side.until_allocatable(1, resource=WHOLE)
    assert winners, "every race was decided"


@pytest.mark.parametrize("restarted", ["kubelet", "plugin", "both"])
async def test_a_restart_under_both_kinds_of_pod_changes_nothing_for_them(
    start_node: StartNode, restarted: str
) -> None:
    side = await start_node(FOUR)
    await side.run_pods(real_pod("shares", 4))
    await side.run_pods(real_pod("whole", 0, whole=1))
    if restarted in ("plugin", "both"):
        await side.plugin.kill()
        await side.until_allocatable(0)  # What the Node offered before must not be taken for what it offers again.
    if restarted in ("kubelet", "both"):
        await side.restart_kubelet()
    if restarted in ("plugin", "both"):
        await side.start_plugin()
    await side.until_allocatable(48)
    await side.until_allocatable(3, resource=WHOLE)
    await side.run_pods(real_pod("shares-after", 12), real_pod("whole-after", 0, whole=2))
    await side.expect_true("shares", "shares-after")
    await expect_whole(side, "whole", 1)
    await expect_whole(side, "whole-after", 2, 3)
    for name in ("shares", "whole"):
        assert side.scheduling.pod(name)["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_with_mode_whole_the_plugin_alone_is_enough(machine: Machine) -> None:
    async with Scheduling(machine.control_plane) as scheduling:
        side = NodeSide(machine, scheduling, FOUR, mode="whole")
        side.set_health()
        await side.start_plugin()
        await scheduling.control_plane.start_scheduler(None)
        await side.until_allocatable(4, resource=WHOLE)
        await side.run_pods(real_pod("one", 0, whole=1), real_pod("three", 0, whole=3))
        cards = [*side.granted_whole("one"), *side.granted_whole("three")]
        assert sorted(cards) == [0, 1, 2, 3]
        await expect_whole(side, "one", *side.granted_whole("one"))
        await expect_whole(side, "three", *side.granted_whole("three"))
        await scheduling.create_pods([real_pod("late", 0, whole=1)])
        assert "Insufficient enflame.com/gcu" in await scheduling.until_said("late", "FailedScheduling")
