"""Two extenders, one Service: exactly one serves, and the other takes over when it dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest_asyncio

from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.kube.resources import LEASES
from gcushare_playground.processes import Child
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import find_overcommitted, node, pod
from tests.e2e.scheduling import Scheduling
from tests.e2e.service import Service
from tests.e2e.waiting import until

TAKEOVER_S = 15.0
"""What is promised for a leader that is killed."""


@pytest_asyncio.fixture(loop_scope="module")
async def scheduling(control_plane: ControlPlane) -> AsyncIterator[Scheduling]:
    need_binaries("kube-scheduler")
    async with Scheduling(control_plane) as running:
        await running.create_nodes(node(f"node-{number}", *[16] * 4) for number in range(50))
        yield running


async def start_replica(scheduling: Scheduling, name: str) -> Child:
    command = scheduling.extender_command(flags=("--lease-namespace", "kube-system"))
    await scheduling.control_plane.start(replace(command, name=name))
    return scheduling.control_plane.children[name]


async def is_ready(replica: Child) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{replica.addresses[1]}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def until_ready(replica: Child, *, deadline_s: float = 180.0) -> float:
    """Wait until a replica serves; returns how long that took."""
    started = time.monotonic()

    async def missing() -> str:
        return "" if await is_ready(replica) else "it is not ready"

    await until(missing, f"{replica.name} serves", deadline_s=deadline_s)
    return time.monotonic() - started


async def test_a_killed_leader_is_followed_and_no_card_is_overcommitted(scheduling: Scheduling) -> None:
    first = await start_replica(scheduling, "extender-a")
    await until_ready(first)
    second = await start_replica(scheduling, "extender-b")
    assert not await is_ready(second), "the second serves together with the first"
    async with Service([first, second]) as service:
        settings = ExtenderEntry(url=service.url, options=ExtenderOptions(vendor="enflame"))
        await scheduling.control_plane.start_scheduler(settings)
        creating = asyncio.create_task(
            scheduling.create_pods(pod(f"pod-{number}", 3 + number % 4) for number in range(400)), name="create"
        )
        await scheduling.until_all_bound(50)
        await first.kill()
        assert await until_ready(second) <= TAKEOVER_S
        await creating
        await scheduling.until_all_bound(400)
    assert not find_overcommitted(scheduling.pods.objects.values(), scheduling.nodes.objects.values())
    assert second.is_running


async def test_a_leader_that_is_asked_to_end_hands_over_at_once(scheduling: Scheduling) -> None:
    first = await start_replica(scheduling, "extender-a")
    await until_ready(first)
    second = await start_replica(scheduling, "extender-b")
    before = await scheduling.client.get(LEASES, "gcushare-scheduler-extender", namespace="kube-system")
    await first.stop()
    taken_s = await until_ready(second)
    after = await scheduling.client.get(LEASES, "gcushare-scheduler-extender", namespace="kube-system")
    assert before.spec.holder_identity != after.spec.holder_identity
    lease_s = before.spec.lease_duration_seconds or 0
    assert taken_s < lease_s / 2, "it waited for the lease to end"


async def test_a_replica_that_does_not_lead_says_who_does(scheduling: Scheduling) -> None:
    first = await start_replica(scheduling, "extender-a")
    await until_ready(first)
    second = await start_replica(scheduling, "extender-b")
    lease = await scheduling.client.get(LEASES, "gcushare-scheduler-extender", namespace="kube-system")
    body = {"Pod": pod("asked", 4), "NodeNames": ["node-1"]}

    async def missing() -> str:
        url = f"{second.addresses[0]}/gcushare-scheduler/filter"
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            assert answer.status == 503
            reported = await answer.text()
        # Until it has read the cluster it says that instead.
        return "" if (lease.spec.holder_identity or "stranger") in reported else reported

    await until(missing, "the second names the leader")
