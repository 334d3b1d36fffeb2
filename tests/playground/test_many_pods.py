"""60 pods thrown at 3 nodes at once, with every part failing in the middle of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from functools import partial

import pytest

from gcushare.core.errors import NotFoundError, RetryableError
from gcushare.core.units import GIB
from gcushare.kube.errors import AlreadyExistsError
from gcushare_playground.cluster import Cluster
from gcushare_playground.picture import POD_OBJECTS, condition_of, phase_of, poll_until
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.playground.clusters import Census, started

PODS = 60
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 20)
"""A card has 16: the last never fits, and of the others there are more than fit together."""


async def throw_pods(census: Census) -> None:
    rng = random.Random(1)

    async def attempt(name: str, units: int) -> str | None:
        try:
            await census.create(name, units)
        except AlreadyExistsError:
            return None  # the answer to an earlier attempt was lost
        except RetryableError as error:
            return str(error)
        return None

    creations = (partial(attempt, f"p-{number:02}", rng.choice(SIZES)) for number in range(PODS))
    await asyncio.gather(*(poll_until(each, "a pod is created") for each in creations))


async def kill_the_extender(cluster: Cluster) -> None:
    assert cluster.extender is not None
    await cluster.extender.kill()
    await cluster.start_extender()


async def kill_plugins(cluster: Cluster) -> None:
    victims = cluster.plan.nodes[:2]
    await asyncio.gather(*(cluster.plugins[node.name].kill() for node in victims))
    await cluster.start_plugins(victims)


async def restart_the_api_server(cluster: Cluster) -> None:
    await cluster.doubles.api.restart()


async def until_running(census: Census, count: int) -> None:
    await census.cluster.pods.until(lambda: len(census.running()) >= count, f"{count} pods run")


def failed(census: Census) -> set[str]:
    return {pod["status"]["reason"] for pod in census.pods.values() if phase_of(pod) == "Failed"}


async def delete_all(census: Census) -> str | None:
    """Delete the pods; tells what the extender or a kubelet still counts."""
    for pod in list(census.pods.values()):
        with contextlib.suppress(NotFoundError):
            await census.cluster.client.delete(POD_OBJECTS, pod["metadata"]["name"], namespace="default")
    used = await used_by_inspect(census)
    left = {name: kubelet.active_uids() for name, kubelet in census.cluster.doubles.kubelets.items()}
    return f"{used} units used, pods {left}" if census.pods or used or any(left.values()) else None


async def used_by_inspect(census: Census) -> int:
    return sum(node["usedGCU"] for node in (await census.cluster.inspect())["nodes"])


@pytest.mark.slow
async def test_every_card_holds_what_its_record_says_and_no_more() -> None:
    nodes = tuple(NodePlan(name=f"n{number}", card_bytes=(16 * GIB,) * 4) for number in range(3))
    async with started(ClusterPlan(nodes=nodes, wait_factor=0.1, unschedulable_s=3.0)) as census:
        throwing = asyncio.create_task(throw_pods(census))
        for count, disturb in ((5, restart_the_api_server), (10, kill_the_extender), (15, kill_plugins)):
            await until_running(census, count)
            assert count > 5 or not failed(census)
            await disturb(census.cluster)
        await throwing
        await census.wait_quiet(PODS)
        assert all(
            "nodes are available:" in str(condition_of(pod, "PodScheduled")["message"]) for pod in census.waiting()
        )
        assert {census.units_of(pod) for pod in census.waiting()} >= {20}
        assert await used_by_inspect(census) == sum(census.used_by_records().values())
        # A pod that reaches a kubelet while its plugin is away, or behind, is failed as a stock kubelet does: with a
        # reason, and holding nothing.
        assert failed(census) <= {"UnexpectedAdmissionError"}
        await poll_until(partial(delete_all, census), "every unit is returned")
