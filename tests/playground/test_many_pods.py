"""60 pods thrown at 3 nodes at once, with every part failing in the middle of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest
import pytest_asyncio

from gcushare.core.errors import RetryableError
from gcushare.core.units import GIB
from gcushare.kube.errors import AlreadyExistsError
from gcushare_playground.picture import POD_OBJECTS, condition_of, phase_of, poll_until
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.playground.census import Census, Pod, manifest
from tests.playground.clusters import started

# One group: the cluster is started once, in one worker.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("many pods"), pytest.mark.slow]

NODES = 3
PODS = 60
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 20)
"""A card has 16: the last never fits, and of the others there are more than fit together."""

Disturbance = Callable[[Census], Awaitable[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running_cluster() -> AsyncIterator[Census]:
    nodes = tuple(NodePlan(name=f"n{number}", card_bytes=(16 * GIB,) * 4) for number in range(NODES))
    async with started(ClusterPlan(nodes=nodes, wait_factor=0.1, unschedulable_s=3.0)) as census:
        yield census


@pytest_asyncio.fixture(loop_scope="module")
async def census(running_cluster: Census) -> AsyncIterator[Census]:
    """The cluster without pods; whatever a test leaves behind is deleted, and every unit has to come back."""
    yield running_cluster
    await running_cluster.delete_all()
    await wait_until_everything_is_returned(running_cluster)


async def throw_pods(census: Census, seed: int) -> None:
    rng = random.Random(seed)
    bodies = [manifest(f"p{seed}-{number:03}", rng.choice(SIZES)) for number in range(PODS)]
    slots = asyncio.Semaphore(32)

    async def create(body: Pod) -> None:
        async with slots:
            await poll_until(partial(attempt, body), f"pod {body['metadata']['name']} is created")

    async def attempt(body: Pod) -> str | None:
        try:
            await census.cluster.client.create(POD_OBJECTS, body, namespace="default")
        except AlreadyExistsError:
            return None  # the answer to an earlier attempt was lost
        except RetryableError as error:
            return str(error)
        return None

    await asyncio.gather(*map(create, bodies))


async def wait_running(census: Census, count: int) -> None:
    await census.cluster.pods.until(lambda: len(census.running()) >= count, f"{count} pods run")


async def used_by_inspect(census: Census) -> int:
    return sum(node["usedGCU"] for node in (await census.cluster.inspect())["nodes"])


async def nothing(census: Census) -> None:
    """Leave everything alone."""


async def kill_the_extender(census: Census) -> None:
    extender = census.cluster.extender
    assert extender is not None
    await extender.kill()
    await census.cluster.start_extender()


async def kill_plugins(census: Census) -> None:
    victims = census.cluster.plan.nodes[:2]
    await asyncio.gather(*(census.cluster.plugins[node.name].kill() for node in victims))
    await census.cluster.start_plugins(victims)


async def restart_the_api_server(census: Census) -> None:
    await census.cluster.doubles.api.restart()


@pytest.mark.parametrize(
    ("seed", "disturb"),
    [
        pytest.param(1, nothing, id="undisturbed"),
        pytest.param(2, kill_the_extender, id="extender killed"),
        pytest.param(3, kill_plugins, id="plugins killed"),
        pytest.param(5, restart_the_api_server, id="API server restarted"),
    ],
)
async def test_every_card_holds_what_its_record_says_and_no_more(
    census: Census, seed: int, disturb: Disturbance
) -> None:
    throwing = asyncio.create_task(throw_pods(census, seed))
    await wait_running(census, 15)
    await disturb(census)
    await throwing
    await census.wait_quiet(PODS)
    assert all("nodes are available:" in str(condition_of(pod, "PodScheduled")["message"]) for pod in census.waiting())
    assert {census.units_of(pod) for pod in census.waiting()} >= {20}
    assert await used_by_inspect(census) == sum(census.used_by_records().values())
    # A pod that reaches a kubelet while its plugin is away, or behind, is failed as a stock kubelet does: with a
    # reason, and holding nothing.
    failed = [pod for pod in census.pods.values() if phase_of(pod) == "Failed"]
    assert {pod["status"]["reason"] for pod in failed} <= {"UnexpectedAdmissionError"}
    assert disturb is not nothing or not failed


async def wait_until_everything_is_returned(census: Census) -> None:
    async def look() -> str | None:
        used = await used_by_inspect(census)
        left = {name: kubelet.active_uids() for name, kubelet in census.cluster.doubles.kubelets.items()}
        return f"{used} units used, pods {left}" if used or any(left.values()) else None

    await poll_until(look, "every unit is returned")
