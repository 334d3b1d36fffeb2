"""docs/one-card.md as it is typed: helm and a label, a pod, the whole card and no more of it, then the extender."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from gcushare.core.units import GIB
from gcushare.kube.resources import PODS
from gcushare.vendors import ALIYUN
from gcushare_playground.picture import phase_of
from gcushare_playground.plans import NodePlan
from gcushare_playground.processes import Command
from tests.documents import commands, page_yaml
from tests.e2e.control_plane import NODE
from tests.e2e.images import NAME
from tests.e2e.installing import account_kubeconfig, type_in
from tests.e2e.machine import Machine
from tests.e2e.node_side import NodeSide, real_pod, with_kubeconfig
from tests.e2e.objects import JsonObject
from tests.e2e.scheduling import Scheduling

TESLA_T4 = (14 * GIB,)
MEMORY = ALIYUN.memory_resource
PAGE = "one-card.md"
# Helm before 3.14 has no --reset-then-reuse-values; for one version of the chart --reuse-values does the same.
INSTALL, LOOK, GROW = (commands(PAGE, block).replace("reset-then-reuse", "reuse") for block in range(3))


def page_pod() -> JsonObject:
    """The page's pod, with an image that this machine has and on its network."""
    body = page_yaml(PAGE, "apiVersion: v1\nkind: Pod")
    spec = real_pod("any", 0)["spec"]
    (container,) = body["spec"]["containers"]
    assert container.pop("command") == ["sleep", "infinity"]
    return {**body, "spec": {**spec, "containers": [{**container, "image": NAME, "imagePullPolicy": "Never"}]}}


def student(name: str, units: int) -> JsonObject:
    return real_pod(name, units, vendor=ALIYUN)


class ByAccount(Scheduling):
    """Runs the extender as the service account of its chart, once that is installed."""

    account: Path

    async def forget_closed_cards(self) -> None:
        """Only the plugin's account may, and no test comes after these."""

    def extender_command(self, flags: Sequence[str], port: int = 0) -> Command:
        return with_kubeconfig(super().extender_command(("--lease-namespace", "kube-system"), port), self.account)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(machine: Machine) -> Path:
    """Type the page's two commands; returns the kubeconfig of the plugin's account on the node."""
    said = await type_in(machine.control_plane, INSTALL)
    assert f"node/{NODE} labeled" in said
    return await account_kubeconfig(machine.control_plane, "gcushare-device-plugin", on_node=True)


@pytest_asyncio.fixture(loop_scope="module", params=[TESLA_T4])
async def side(machine: Machine, installed: Path, request: pytest.FixtureRequest) -> AsyncIterator[NodeSide]:
    """The plugin, and kube-scheduler as it comes: there is no extender."""
    async with ByAccount(machine.control_plane, vendor=ALIYUN) as scheduling:
        made = NodeSide(machine, scheduling, NodePlan(name=NODE, card_bytes=request.param), kubeconfig=installed)
        made.set_health()
        await made.start_plugin()
        await machine.control_plane.start_scheduler(None)
        await made.until_allocatable(made.units)
        yield made


async def test_the_pages_pod_runs_and_a_third_one_waits_until_one_ends(side: NodeSide) -> None:
    await side.run_pods(page_pod(), student("student-2", 5))
    assert (side.granted("student-1"), side.granted("student-2")) == ({0: 5}, {0: 5})
    assert (await side.seen("student-1"))["ALIYUN_COM_GPU_MEM_CONTAINER"] == "5"
    said = await type_in(side.machine.control_plane, LOOK)
    assert "student-1" in said
    assert "10/14" in said
    await side.scheduling.create_pods([student("student-3", 5)])
    await side.scheduling.until_said("student-3", "FailedScheduling", text=f"Insufficient {MEMORY}")
    explained = await type_in(side.machine.control_plane, "kubectl inspect gpushare explain student-3 || [ $? = 1 ]")
    assert "4" in explained, "what is free, with no extender to ask"
    await side.scheduling.client.delete(PODS, "student-1", namespace="default", grace_s=1)
    await side.until_running("student-3")


async def test_as_many_pods_as_the_card_has_units_run_and_none_fails(side: NodeSide) -> None:
    names = [f"student-{number}" for number in range(16)]
    await side.scheduling.create_pods([student(name, 1) for name in names])
    await side.scheduling.until_all_bound(14)
    await side.until_running(*(each["metadata"]["name"] for each in side.scheduling.bound()))
    assert sorted(phase_of(side.scheduling.pod(name)) for name in names) == ["Pending"] * 2 + ["Running"] * 14


@pytest.mark.parametrize("side", [(14 * GIB, 14 * GIB)], indirect=True)
async def test_what_fits_two_cards_in_sum_and_neither_of_them_is_refused_by_the_plugin(side: NodeSide) -> None:
    await side.run_pods(student("left", 8))
    await side.run_pods(student("right", 8))
    assert {*side.granted("left"), *side.granted("right")} == {0, 1}
    await side.scheduling.create_pods([student("sum", 8)])
    await side.scheduling.pods.until(lambda: phase_of(side.scheduling.pod("sum")) == "Failed", "it fails")
    status = side.scheduling.pod("sum")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "6" in status["message"], "it says how much is free"


async def test_with_the_extender_pods_run_on_and_waiting_ones_are_placed_by_card(side: NodeSide) -> None:
    """The last test of this module: the extender's chart and its policies stay."""
    control_plane, scheduling = side.machine.control_plane, side.scheduling
    await side.run_pods(student("before-1", 5), student("before-2", 5))
    started = scheduling.pod("before-1")["metadata"]["uid"]
    await scheduling.create_pods([student("waits", 6)])
    await scheduling.until_said("waits", "FailedScheduling", text=f"Insufficient {MEMORY}")
    assert "STATUS: deployed" in await type_in(control_plane, GROW)
    assert isinstance(scheduling, ByAccount)
    scheduling.account = await account_kubeconfig(control_plane, "gcushare-scheduler-extender")
    await control_plane.end("kube-scheduler")
    await scheduling.start_all()
    await scheduling.create_pods([student("after", 4)])
    await side.until_running("after")
    assert (side.granted("after"), side.recorded("after")) == ({0: 4}, (0,))
    assert scheduling.pod("before-1")["metadata"]["uid"] == started
    await scheduling.client.delete(PODS, "before-1", namespace="default", grace_s=1)
    await scheduling.client.delete(PODS, "after", namespace="default", grace_s=1)
    await side.until_running("waits")
