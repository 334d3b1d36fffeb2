"""A kube-scheduler of 1.20.2 with the Policy file that the config manager writes for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gcushare.kube.resources import PODS
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare_playground.picture import node_of
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import card_of, node, pod
from tests.e2e.older_api import OlderApi
from tests.e2e.scheduling import Scheduling

FULL = {"enflame": "insufficient GCU Memory in one gcu device", "aliyun": "insufficient GPU Memory in one device"}


@pytest_asyncio.fixture(loop_scope="module", params=[ENFLAME, ALIYUN], ids=lambda vendor: vendor.name)
async def scheduling(control_plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[Scheduling]:
    vendor: Vendor = request.param
    async with OlderApi(control_plane) as api, Scheduling(control_plane, vendor=vendor) as running:
        await running.start_extender()
        await control_plane.start_scheduler(running.settings, older=api.scheduler)
        yield running


async def test_it_reads_a_policy_and_the_manuals_pods_get_the_manuals_cards(scheduling: Scheduling) -> None:
    vendor = scheduling.vendor
    policy = json.loads((scheduling.control_plane.root / "kube-scheduler.yaml").read_text())
    assert (policy["kind"], policy["extenders"][0]["httpTimeout"]) == ("Policy", 5_000_000_000)
    await scheduling.create_nodes([node("node-1", *[16] * 8, vendor=vendor)])
    for name, units, card in (("pod-1", 4, 0), ("pod-2", 8, 0), ("pod-3", 12, 1)):
        await scheduling.create_pods([pod(name, units, vendor=vendor)])
        await scheduling.until_bound(name)
        assert card_of(scheduling.pod(name), vendor) == (card,)
    await scheduling.create_pods([pod("pod-4", 20, vendor=vendor)])
    message = await scheduling.until_said("pod-4", "FailedScheduling")
    assert message.startswith(f"0/1 nodes are available: 1 {FULL[vendor.name]}.")


async def test_a_pod_that_waits_is_scheduled_when_another_ends(scheduling: Scheduling) -> None:
    vendor = scheduling.vendor
    await scheduling.create_nodes([node("node-1", 16, vendor=vendor)])
    await scheduling.create_pods([pod("first", 10, vendor=vendor)])
    await scheduling.until_bound("first")
    await scheduling.create_pods([pod("second", 10, vendor=vendor)])
    await scheduling.until_said("second", "FailedScheduling")
    assert not node_of(scheduling.pod("second"))
    await scheduling.client.delete(PODS, "first", namespace="default", grace_s=0)
    await scheduling.until_bound("second", deadline_s=180)
