"""Files on real schedulers, of today and of 1.20.2: those of Aliyun's gpushare, and the config manager's Policy.

What stands in gpushare's files is changed where a reader has to: the scheduler's kubeconfig and the extender's address.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from gcushare.config_manager.scheduler_config.document import ConfigDocument
from gcushare.config_manager.scheduler_config.versions import ConfigFormat
from gcushare.kube.resources import PODS
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare_playground.picture import node_of
from tests.charts import load_yaml
from tests.e2e.control_plane import SCHEDULER, ControlPlane
from tests.e2e.installing import DEPLOY, kubectl
from tests.e2e.objects import JsonObject, card_of, node, pod
from tests.e2e.older_api import OlderApi
from tests.e2e.scheduling import Scheduling

FILES = DEPLOY / "manifests" / "gpushare"
FORMATS = {"scheduler-config-v1.yaml": ConfigFormat.V1, "scheduler-policy-config.json": ConfigFormat.POLICY}
FULL = {"enflame": "insufficient GCU Memory in one gcu device", "aliyun": "insufficient GPU Memory in one device"}


@pytest.mark.parametrize(
    "name", ["device-plugin-rbac.yaml", "device-plugin-ds.yaml", "config/gpushare-schd-extender.yaml", "samples/1.yaml"]
)
async def test_a_file_is_taken_as_it_is(control_plane: ControlPlane, name: str) -> None:
    words = ("apply", "--dry-run=server", "--validate=strict", "-f", str(FILES / name))
    lines = (await asyncio.to_thread(kubectl, control_plane, *words)).splitlines()
    assert lines
    assert all(line.endswith("created (server dry run)") for line in lines), lines


@pytest_asyncio.fixture(loop_scope="module", params=FORMATS)
async def from_files(control_plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[Scheduling]:
    written = FORMATS[request.param]
    text = (FILES / "config" / request.param).read_text()
    async with AsyncExitStack() as stack:
        older = None
        if written is ConfigFormat.POLICY:
            older = (await stack.enter_async_context(OlderApi(control_plane))).scheduler
        running = await stack.enter_async_context(Scheduling(control_plane, vendor=ALIYUN))
        await running.start_extender()
        text = text.replace("http://192.168.233.101:32766", running.extender_url)
        text = text.replace("/etc/kubernetes/kube-scheduler.kubeconfig", str(control_plane.kubeconfig_of(SCHEDULER)))
        await control_plane.start_scheduler(ConfigDocument(text, written), older=older)
        yield running


async def test_pods_of_the_sample_share_the_card_of_14(from_files: Scheduling) -> None:
    """The Node counts as our plugin writes it; whether its kubelet admits such pods is asked of a kubelet elsewhere."""
    made = node("192.168.233.101", 14, vendor=ALIYUN)
    counts = {ALIYUN.count_resource: str(ALIYUN.pods_per_count)}
    made["status"] |= {part: made["status"][part] | counts for part in ("capacity", "allocatable")}
    await from_files.create_nodes([made])
    template: JsonObject = load_yaml((FILES / "samples" / "1.yaml").read_text())["spec"]["template"]
    for name in ("binpack-1", "binpack-2"):
        body = copy.deepcopy(template)
        body["metadata"] = {"name": name}
        await from_files.create_pods([body])
        await from_files.until_bound(name)
        assert (card_of(from_files.pod(name), ALIYUN), node_of(from_files.pod(name))) == ((0,), "192.168.233.101")


@pytest_asyncio.fixture(loop_scope="module", params=[ENFLAME, ALIYUN], ids=lambda vendor: vendor.name)
async def older(control_plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[Scheduling]:
    vendor: Vendor = request.param
    async with OlderApi(control_plane) as api, Scheduling(control_plane, vendor=vendor) as running:
        await running.start_extender()
        await control_plane.start_scheduler(running.settings, older=api.scheduler)
        yield running


async def test_1_20_reads_a_policy_and_the_manuals_pods_get_the_manuals_cards(older: Scheduling) -> None:
    vendor = older.vendor
    policy = json.loads((older.control_plane.root / "kube-scheduler.yaml").read_text())
    assert (policy["kind"], policy["extenders"][0]["httpTimeout"]) == ("Policy", 5_000_000_000)
    await older.create_nodes([node("node-1", *[16] * 8, vendor=vendor)])
    for name, units, card in (("pod-1", 4, 0), ("pod-2", 8, 0), ("pod-3", 12, 1)):
        await older.create_pods([pod(name, units, vendor=vendor)])
        await older.until_bound(name)
        assert card_of(older.pod(name), vendor) == (card,)
    await older.create_pods([pod("pod-4", 20, vendor=vendor)])
    message = await older.until_said("pod-4", "FailedScheduling")
    assert message.startswith(f"0/1 nodes are available: 1 {FULL[vendor.name]}.")


async def test_on_1_20_a_pod_that_waits_is_scheduled_when_another_ends(older: Scheduling) -> None:
    vendor = older.vendor
    await older.create_nodes([node("node-1", 16, vendor=vendor)])
    await older.create_pods([pod("first", 10, vendor=vendor)])
    await older.until_bound("first")
    await older.create_pods([pod("second", 10, vendor=vendor)])
    await older.until_said("second", "FailedScheduling")
    assert not node_of(older.pod("second"))
    await older.client.delete(PODS, "first", namespace="default", grace_s=0)
    await older.until_bound("second", deadline_s=180)
