"""What the charts install: taken by kube-apiserver as it is, and enough for the programs, but for nothing else."""

from __future__ import annotations

import asyncio
import re
import secrets
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ForbiddenError, GcushareError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import find_api_server
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import SLICES_OF_ALL_DRIVERS
from gcushare.node.api_server import SliceDrivers
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import ROOM_FOUND
from gcushare_playground.picture import POD_OBJECTS
from gcushare_playground.plans import NodePlan
from gcushare_playground.processes import Command
from tests.e2e.assets import need_client
from tests.e2e.control_plane import NODE, PATIENT, ControlPlane
from tests.e2e.installing import DEPLOY, RECORD, account_kubeconfig, kubectl, until_policies_hold
from tests.e2e.machine import Machine
from tests.e2e.node_side import NodeSide, real_pod, with_kubeconfig
from tests.e2e.objects import pod
from tests.e2e.scheduling import Scheduling
from tests.neighbours import read_objects


@pytest.mark.parametrize("vendor", ["enflame", "aliyun"])
@pytest.mark.parametrize("file", ["gcushare", "admission", "claims", "before-delete", "after-delete"])
async def test_the_plain_manifests_are_taken_as_they_are(control_plane: ControlPlane, vendor: str, file: str) -> None:
    path = DEPLOY / "manifests" / vendor / f"{file}.yaml"
    said = await asyncio.to_thread(
        kubectl, control_plane, "apply", "--dry-run=server", "--validate=strict", "-f", str(path)
    )
    lines = said.splitlines()
    assert lines
    assert all(line.endswith("created (server dry run)") for line in lines), lines


@pytest.mark.parametrize(
    "values",
    [
        pytest.param((), id="as they come"),
        pytest.param(
            ("global.vendor=both", "gcushare-device-plugin-chart.memoryLimit=mps"),
            id="both vendors, one limited by MPS",
        ),
        pytest.param(("gcushare-scheduler-extender-chart.scheduler.mode=second-scheduler",), id="a second scheduler"),
        pytest.param(("gcushare-device-plugin-chart.memoryUnit=auto",), id="the finest unit"),
    ],
)
async def test_the_umbrella_chart_is_taken_as_it_is(control_plane: ControlPlane, values: tuple[str, ...]) -> None:
    version = await control_plane.client.version()
    words = [
        *(str(need_client("helm")), "template", "gcushare", str(DEPLOY / "gcushare"), "--namespace", "kube-system"),
        *("--kube-version", version.partition("-")[0]),
        *(word for value in values for word in ("--set", value)),
    ]
    rendered = await asyncio.to_thread(lambda: subprocess.run(words, capture_output=True, text=True))
    assert rendered.returncode == 0, rendered.stderr
    arguments = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    assert await asyncio.to_thread(kubectl, control_plane, *arguments, stdin=rendered.stdout)


@dataclass(frozen=True, slots=True)
class Installed:
    """A cluster with everything installed, and clients of who wants something of it."""

    scheduling: Scheduling
    side: NodeSide
    plugin: KubeClient
    extender: KubeClient


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(machine: Machine) -> AsyncIterator[Installed]:
    """Apply the plain manifests, and run the programs as their service accounts on a real kubelet."""
    need_client("kubectl")
    control_plane = machine.control_plane
    for file in ("gcushare", "admission"):
        path = DEPLOY / "manifests" / "enflame" / f"{file}.yaml"
        await asyncio.to_thread(kubectl, control_plane, "apply", "-f", str(path))
    extender = await account_kubeconfig(control_plane, "gcushare-scheduler-extender")
    plugin = await account_kubeconfig(control_plane, "gcushare-device-plugin", on_node=True)
    scheduling = AsScheduling(control_plane, extender)
    async with scheduling, client_of(plugin) as client, client_of(extender) as extender_client:
        side = NodeSide(machine, scheduling, NodePlan(name=NODE), kubeconfig=plugin)
        side.set_health()
        await until_policies_hold(control_plane)
        await side.start_plugin()
        await scheduling.start_all()
        await side.until_allocatable(side.units)
        yield Installed(scheduling, side, client, extender_client)


def client_of(kubeconfig: Path) -> KubeClient:
    """Speak as who that file is for."""
    return KubeClient(find_api_server(str(kubeconfig)), limits=PATIENT)


class AsScheduling(Scheduling):
    """Runs the extender as its service account, elected as in a cluster."""

    def __init__(self, control_plane: ControlPlane, kubeconfig: Path) -> None:
        super().__init__(control_plane, ("--lease-namespace", "kube-system"))
        self._kubeconfig = kubeconfig

    async def forget_closed_cards(self) -> None:
        """Only the plugin's account may, and no test comes after these."""

    def extender_command(self, flags: Sequence[str], port: int = 0) -> Command:
        return with_kubeconfig(super().extender_command(flags, port), self._kubeconfig)


async def test_the_programs_can_do_their_work_with_the_rights_of_the_charts(installed: Installed) -> None:
    side = installed.side
    await side.run_pods(real_pod("pod-1", 4), real_pod("pod-2", 8), real_pod("by-hand", 3, nodeName=NODE))
    await side.expect_true("pod-1", "pod-2", "by-hand")
    await installed.scheduling.create_pods([real_pod("pod-4", 20)])
    await installed.scheduling.until_said("pod-4", "FailedScheduling")
    for child in (side.plugin, installed.scheduling.extender):
        written = child.log_file.read_text()
        assert "orbidden" not in written, written
        assert not re.search(r"\b403\b", written), written  # A uid may have these digits inside.


async def test_the_plugins_account_reads_which_other_drivers_offer_cards_of_a_node(installed: Installed) -> None:
    (theirs,) = (each for each in read_objects("nvidia-dra") if each["kind"] == "ResourceSlice")
    for name in (NODE, "other"):
        spec = theirs["spec"] | {"nodeName": name, "pool": theirs["spec"]["pool"] | {"name": name}}
        body = theirs | {"metadata": {"name": f"gpu.nvidia.com-{name}"}, "spec": spec}
        await installed.scheduling.client.create(SLICES_OF_ALL_DRIVERS, body)
    assert await SliceDrivers(installed.plugin, NODE).read() == {"gpu.nvidia.com"}
    assert await SliceDrivers(installed.plugin, "a-third").read() == frozenset()


async def test_no_one_else_writes_a_record(installed: Installed) -> None:
    client = installed.scheduling.client
    forged = pod("forged", 4)
    forged["metadata"]["annotations"] = RECORD
    with pytest.raises(GcushareError, match="a pod is created without"):
        await client.create(POD_OBJECTS, forged, namespace="default")
    made = await client.create(POD_OBJECTS, pod("honest", 4, schedulerName="stranger"), namespace="default")
    identity = PodRef(made["metadata"]["uid"], "default", "honest")
    with pytest.raises(GcushareError, match="only gcushare writes"):
        await client.patch_pod_annotations(identity, RECORD)
    with pytest.raises(GcushareError, match="binds with"):
        await client.bind_pod(identity, NODE, RECORD)


async def test_no_one_else_writes_an_inventory(installed: Installed) -> None:
    with pytest.raises(GcushareError, match="only gcushare writes"):
        await installed.scheduling.client.patch_node_annotations(NODE, {ENFLAME.inventory_annotation: "{}"})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"annotations": {ROOM_FOUND: "<script>"}}}, id="no moment"),
        pytest.param({"metadata": {"annotations": {"other": "1"}}}, id="another annotation"),
        pytest.param({"metadata": {"annotations": RECORD}}, id="a record"),
        pytest.param({"metadata": {"labels": {"app": "other"}}}, id="a label"),
        pytest.param({"metadata": {"finalizers": ["example.com/stay"]}}, id="a finalizer"),
        pytest.param({"status": {"phase": "Running"}}, id="the phase"),
        pytest.param({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, id="a condition"),
        pytest.param({"status": {"podIP": "10.0.0.1"}}, id="an address"),
    ],
)
async def test_of_a_waiting_pod_the_extender_may_change_its_note_alone(
    installed: Installed, change: dict[str, Any]
) -> None:
    name = f"waiting-{secrets.token_hex(4)}"
    body = pod(name, 4, schedulerName="another")
    made = await installed.scheduling.client.create(POD_OBJECTS, body, namespace="default")
    identity = PodRef(made["metadata"]["uid"], "default", name)
    with pytest.raises(GcushareError, match=r"extender writes only|is a moment|only gcushare writes"):
        await installed.extender.patch(
            POD_OBJECTS, name, Patch(PatchKind.MERGE, change), namespace="default", subresource="status"
        )
    await installed.extender.patch_pod_annotations(identity, {ROOM_FOUND: "2026-01-31T12:00:00.000000Z"})
    written = await installed.scheduling.client.get(POD_OBJECTS, name, namespace="default")
    assert written["metadata"]["annotations"] == {ROOM_FOUND: "2026-01-31T12:00:00.000000Z"}
    again = Patch(PatchKind.MERGE, {"metadata": {"annotations": {ROOM_FOUND: "2026-01-31T12:00:01.000000Z"}}})
    with pytest.raises(ForbiddenError, match='cannot patch resource "pods"'):
        await installed.extender.patch(POD_OBJECTS, name, again, namespace="default")


async def test_on_a_pod_that_has_a_node_the_extender_may_write_nothing(installed: Installed) -> None:
    made = await installed.scheduling.client.create(
        POD_OBJECTS, pod("has-a-node", 4, nodeName="nowhere"), namespace="default"
    )
    identity = PodRef(made["metadata"]["uid"], "default", "has-a-node")
    with pytest.raises(GcushareError, match="wait for a node"):
        await installed.extender.patch_pod_annotations(identity, {ROOM_FOUND: "2026-01-31T12:00:00.000000Z"})
