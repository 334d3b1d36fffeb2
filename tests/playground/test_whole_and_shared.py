"""Pods that share cards and pods that want them whole, thrown at the same cards, with every part failing meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from gcushare.core.units import GIB
from gcushare.vendors import ENFLAME
from gcushare_playground.picture import allocatable_of, node_of, phase_of, poll_until
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.playground.census import Census
from tests.playground.clusters import started

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("whole and shared"),
    pytest.mark.slow,
]

NODES = 3
CARDS = 4
PODS = 60
WHOLE = ENFLAME.whole_card_resource

Disturbance = Callable[[Census], Awaitable[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running_cluster() -> AsyncIterator[Census]:
    nodes = tuple(NodePlan(name=f"n{number}", card_bytes=(16 * GIB,) * CARDS) for number in range(NODES))
    plan = ClusterPlan(nodes=nodes, whole_cards=True, wait_factor=0.1, unschedulable_s=1.0, status_interval_s=0.1)
    async with started(plan) as census:
        yield census


@pytest_asyncio.fixture(loop_scope="module")
async def census(running_cluster: Census) -> AsyncIterator[Census]:
    yield running_cluster
    await running_cluster.delete_all()
    await wait_until_everything_is_open(running_cluster)


async def wait_until_everything_is_open(census: Census) -> None:
    offers = {node.name: census.cluster.plan.offers(node) for node in census.cluster.plan.nodes}

    async def look() -> str | None:
        found = {
            name: {resource: allocatable_of(node, resource) for resource in offers[name]}
            for name, node in census.cluster.nodes.objects.items()
        }
        return None if found == offers else str(found)

    await poll_until(look, "every card is open to both kinds of pod")


async def throw_pods(census: Census, seed: int) -> None:
    """Pods of both kinds in random order; some end while others still come."""
    rng = random.Random(seed)
    for number in range(PODS):
        if rng.random() < 0.4:
            await census.create(f"w{number}", rng.choice([1, 1, 2]), resource=WHOLE)
        else:
            await census.create(f"m{number}", rng.choice([2, 4, 8, 12]))
        running = census.running()
        if running and rng.random() < 0.3:
            await census.end(rng.choice(running))
        await asyncio.sleep(0.01)


async def nothing(census: Census) -> None:
    """Leave everything alone."""


async def restart_kubelets(census: Census) -> None:
    for node in census.cluster.plan.nodes[:2]:
        await census.doubles.kubelets[node.name].restart()


@pytest.mark.parametrize(
    ("seed", "disturb"),
    [
        pytest.param(1, nothing, id="undisturbed"),
        pytest.param(3, restart_kubelets, id="kubelets restarted"),
    ],
)
async def test_no_card_is_ever_in_both_uses_and_no_pod_waits_without_need(
    census: Census, seed: int, disturb: Disturbance
) -> None:
    throwing = asyncio.create_task(throw_pods(census, seed))
    await census.cluster.pods.until(lambda: len(census.running()) >= 8, "8 pods run")
    await disturb(census)
    await throwing
    await census.cluster.pods.until(
        lambda: all("deletionTimestamp" not in pod["metadata"] for pod in census.pods.values()),
        "those that end are gone",
    )
    await census.wait_quiet(len(census.pods))
    failed = [pod for pod in census.pods.values() if phase_of(pod) == "Failed"]
    assert {pod["status"]["reason"] for pod in failed} <= {"UnexpectedAdmissionError"}, f"{seed=}"
    assert any(census.whole_of(pod) for pod in census.running()), f"{seed=}"
    assert any(census.units_of(pod) for pod in census.running()), f"{seed=}"


async def test_pods_that_share_leave_whole_cards_free_and_those_that_want_them_get_them(census: Census) -> None:
    quarters, free = CARDS * NODES, CARDS * NODES - 3
    for number in range(quarters):
        await census.create(f"m{number}", 4)
        await census.wait_quiet(number + 1)
    assert len(census.used_by_records()) == 3, "twelve quarters fill three cards, and nine stay whole"
    for number in range(free + 1):
        await census.create(f"w{number}", 1, resource=WHOLE)
    await census.wait_quiet(quarters + free + 1)
    assert [census.whole_of(pod) for pod in census.waiting()] == [1], "one is left over, and says why it waits"
    ending = next(pod for pod in census.running() if census.units_of(pod))
    (card,) = census.held(ending)
    for pod in census.running():
        if census.units_of(pod) and (node_of(pod), set(census.held(pod))) == (node_of(ending), {card}):
            await census.end(pod)
    await census.cluster.pods.until(lambda: not census.waiting(), "the card that became free is taken whole")
    await census.wait_quiet(quarters - 4 + free + 1)
