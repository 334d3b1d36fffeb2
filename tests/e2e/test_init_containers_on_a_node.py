"""Pods whose init containers ask for more than what runs later, on one card and on several, on a real kubelet.

The kubelet gives later containers ids of those that an init container had, in an order of its own and without asking
the plugin, and podresources no longer shows the rest. The record must still say what the pod's cards are, and every
container must see all of them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from gcushare.core.requests import ContainerKind
from gcushare.core.units import GIB
from gcushare.kube.resources import PODS
from gcushare_playground.picture import node_of
from gcushare_playground.plans import NodePlan
from tests.e2e.at_rest import look_at
from tests.e2e.bursts import BurstPod, Part, Rule
from tests.e2e.control_plane import NODE
from tests.e2e.machine import Machine
from tests.e2e.node_side import NodeSide, node_starter, real_pod

ROUNDS = int(os.environ.get("GCUSHARE_E2E_BURSTS", "2"))
"""The kubelet's order is that of a map: about one pod in five goes wrong."""
_AT_REST_S = 60.0
CARDS, LEFT = 8, 6
EIGHT = NodePlan(name=NODE, card_bytes=(16 * GIB,) * CARDS)
INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP
SHAPES: dict[str, tuple[int, tuple[Part, ...]]] = {
    "two-cards": (2, (Part("first", INIT, 20), Part("main", APP, 2))),
    "two-cards-several": (2, (Part("first", INIT, 20), Part("main", APP, 2), Part("second", APP, 4))),
    "two-cards-two-inits": (2, (Part("first", INIT, 12), Part("next", INIT, 20), Part("main", APP, 2))),
    "two-cards-sidecar": (2, (Part("aside", SIDECAR, 4), Part("first", INIT, 16), Part("main", APP, 2))),
    "two-cards-sidecar-last": (2, (Part("first", INIT, 20), Part("aside", SIDECAR, 2), Part("main", APP, 4))),
    "two-cards-main-larger": (2, (Part("first", INIT, 4), Part("main", APP, 20))),
    "four-cards": (4, (Part("first", INIT, 40), Part("main", APP, 4))),
    "one-card": (1, (Part("first", INIT, 10), Part("main", APP, 2))),
    "one-card-several": (1, (Part("aside", SIDECAR, 2), Part("first", INIT, 8), Part("main", APP, 2))),
}
"""Over how many cards a pod is spread, and its containers: at its peak each holds 10 of 16 units of each card."""


@pytest_asyncio.fixture(loop_scope="module")
async def side(machine: Machine) -> AsyncIterator[NodeSide]:
    """Start plugin, extender and scheduler with eight cards."""
    async with node_starter(machine) as start:
        yield await start(EIGHT)


def fill(turn: int, shape: str) -> list[BurstPod]:
    """Write as many pods of a shape as the node has cards for."""
    cards, parts = SHAPES[shape]
    anywhere = Rule(allowed=frozenset(range(CARDS)))
    return [BurstPod(f"pod-{turn}-{number}", parts, anywhere, cards) for number in range(CARDS // cards)]


async def expect_kept(side: NodeSide, pods: Sequence[BurstPod], turn: int) -> None:
    """Check running pods, and that what they leave on each card is given to others, and no unit more."""
    expect_none(await find_faults(side, pods))
    large = f"large-{turn}"
    await side.scheduling.create_pods([real_pod(large, LEFT + 1)])
    await side.scheduling.until_said(large, "FailedScheduling", deadline_s=_AT_REST_S)
    assert not node_of(side.scheduling.pod(large)), f"{LEFT} units are free on each card"
    await side.scheduling.client.delete(PODS, large, namespace="default", grace_s=0)
    names = [f"fits-{turn}-{number}" for number in range(CARDS)]
    await side.run_pods(*(real_pod(name, LEFT) for name in names), deadline_s=_AT_REST_S)
    assert sorted(side.recorded(name) for name in names) == [(card,) for card in range(CARDS)]
    expect_none(await find_faults(side, pods))


def expect_none(faults: Sequence[str]) -> None:
    assert not faults, "\n".join(faults)


async def find_faults(side: NodeSide, pods: Sequence[BurstPod]) -> list[str]:
    """Say what is wrong with running pods; together they hold every card once."""
    found = await look_at(side, pods)
    cards = sorted(card for each in found for card in each.cards)
    return [fault for each in found for fault in each.find_faults()] + (
        [] if cards == list(range(CARDS)) else [f"the pods' cards are {cards}"]
    )


@pytest.mark.timeout(600 + 60 * ROUNDS)
@pytest.mark.parametrize("shape", SHAPES)
async def test_pods_keep_what_their_init_containers_asked_for(side: NodeSide, shape: str) -> None:
    for turn in range(ROUNDS):
        pods = fill(turn, shape)
        await side.run_pods(*(pod.body() for pod in pods), deadline_s=_AT_REST_S)
        await expect_kept(side, pods, turn)
        await side.scheduling.delete_pods(grace_s=1)


@pytest.mark.timeout(600 + 60 * ROUNDS)
@pytest.mark.parametrize("shape", ["two-cards", "two-cards-sidecar", "one-card"])
async def test_a_restart_of_the_plugin_between_init_and_main_containers_changes_nothing(
    side: NodeSide, shape: str
) -> None:
    for turn in range(max(1, ROUNDS // 2)):
        pods = fill(turn, shape)
        for pod in pods:
            body = pod.body()
            for container in body["spec"]["initContainers"]:
                container.pop("args", None)  # It waits to be ended.
            await side.scheduling.create_pods([body])
            await side.scheduling.until_bound(pod.name, deadline_s=_AT_REST_S)
            await side.seen(pod.name, "first", deadline_s=_AT_REST_S)
        await side.plugin.kill()
        await side.until_allocatable(0)  # What the Node offered before must not be taken for what it offers again.
        await side.start_plugin()
        await side.until_allocatable(side.units)
        for pod in pods:
            await side.end_init_container(pod.name, "first")
        await side.until_running(*(pod.name for pod in pods), deadline_s=_AT_REST_S)
        await expect_kept(side, pods, turn)
        await side.scheduling.delete_pods(grace_s=1)
