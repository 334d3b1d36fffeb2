"""The files of Aliyun's gpushare on real programs: applied by kubectl, and read by the schedulers they are for.

What stands in the files is changed where a reader has to: the scheduler's kubeconfig and the extender's address.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from gcushare.config_manager.scheduler_config.document import ConfigDocument
from gcushare.config_manager.scheduler_config.versions import ConfigFormat
from gcushare.vendors import ALIYUN
from gcushare_playground.picture import node_of
from tests.charts import load_yaml
from tests.e2e.control_plane import SCHEDULER, ControlPlane
from tests.e2e.installing import DEPLOY, kubectl
from tests.e2e.objects import JsonObject, card_of, node
from tests.e2e.older_api import OlderApi
from tests.e2e.scheduling import Scheduling

FILES = DEPLOY / "manifests" / "gpushare"
FORMATS = {"scheduler-config-v1.yaml": ConfigFormat.V1, "scheduler-policy-config.json": ConfigFormat.POLICY}


@pytest.mark.parametrize(
    "name", ["device-plugin-rbac.yaml", "device-plugin-ds.yaml", "config/gpushare-schd-extender.yaml", "samples/1.yaml"]
)
async def test_a_file_is_taken_as_it_is(control_plane: ControlPlane, name: str) -> None:
    words = ("apply", "--dry-run=server", "--validate=strict", "-f", str(FILES / name))
    lines = (await asyncio.to_thread(kubectl, control_plane, *words)).splitlines()
    assert lines
    assert all(line.endswith("created (server dry run)") for line in lines), lines


@pytest_asyncio.fixture(loop_scope="module", params=FORMATS)
async def scheduling(control_plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[Scheduling]:
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


async def test_pods_of_the_sample_share_the_card_of_14(scheduling: Scheduling) -> None:
    """The Node counts as our plugin writes it; whether its kubelet admits such pods is asked of a kubelet elsewhere."""
    made = node("192.168.233.101", 14, vendor=ALIYUN)
    counts = {ALIYUN.count_resource: str(ALIYUN.pods_per_count)}
    made["status"] |= {part: made["status"][part] | counts for part in ("capacity", "allocatable")}
    await scheduling.create_nodes([made])
    template: JsonObject = load_yaml((FILES / "samples" / "1.yaml").read_text())["spec"]["template"]
    for name in ("binpack-1", "binpack-2"):
        body = copy.deepcopy(template)
        body["metadata"] = {"name": name}
        await scheduling.create_pods([body])
        await scheduling.until_bound(name)
        assert (card_of(scheduling.pod(name), ALIYUN), node_of(scheduling.pod(name))) == ((0,), "192.168.233.101")
