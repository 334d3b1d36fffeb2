"""Limits by NVIDIA's driver on a real node: each container is created after its pod's group has its limit.

The kubelet, containerd and the pods' control groups are real. NVML is the fake one of ``tests/native``; it keeps its
state in the groups' folders, where the kernel takes no files, so it is given a copy of the kernel's tree.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from simulation.control_groups import ControlGroups, SetCall, read_set_calls

from gcushare.core.units import GIB
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import DEVICE_CLASSES, NODES
from gcushare.vendors import ALIYUN
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.pods import MACHINE_UID, MIRROR
from gcushare_playground.commands import plugin_command
from gcushare_playground.picture import phase_of
from gcushare_playground.plans import ClusterPlan, NodePlan
from gcushare_playground.processes import Command
from tests.e2e.assets import need_binaries
from tests.e2e.author import KEPT, PODS, make_author
from tests.e2e.claims import CLAIMS, claim
from tests.e2e.claims_side import pod_of, start_controllers
from tests.e2e.control_plane import NODE, ControlPlane
from tests.e2e.machine import Machine
from tests.e2e.node_side import NodeSide, real_pod
from tests.e2e.scheduling import Scheduling
from tests.e2e.waiting import until
from tests.native.libraries import FakeLibrary, install_fake

VERSION_2 = Path("/sys/fs/cgroup")
KERNELS = VERSION_2 if (VERSION_2 / "cgroup.controllers").exists() else VERSION_2 / "memory"
CARD = 16 * GIB


class LimitedSide(NodeSide):
    """A node whose plugin keeps limits by the fake library, in a copy of the kernel's control groups."""

    def __init__(self, machine: Machine, scheduling: Scheduling, folder: Path) -> None:
        super().__init__(machine, scheduling, NodePlan(name=NODE, card_bytes=(CARD,)))
        self.groups = ControlGroups(folder / "cgroup")
        self.groups.make("kubepods")
        self.library: FakeLibrary = install_fake("nvml", folder)
        self.library.control(
            "cards 1", f"set memory * {CARD}", "absent nvmlDeviceGetPciInfo_v3 * 3", "set keeping * dmem"
        )

    def command(self, plan: ClusterPlan) -> Command:
        command = plugin_command(plan, self.scheduling.place, self.node)
        arguments = list(command.arguments)
        arguments[arguments.index("--cards") + 1] = "nvml"
        arguments += ["--card-library", f"nvml={self.library.path}", "--memory-limit", "driver"]
        return replace(command, arguments=(*arguments, "--cgroup-dir", str(self.groups.root)))

    async def copy_groups(self) -> None:
        """Copy the kernel's groups of pods until cancelled."""
        while True:
            here = {each.relative_to(KERNELS) for each in _groups_of_pods(KERNELS)}
            for group in sorted(here):
                self.groups.make(str(group))
            for group in _groups_of_pods(self.groups.root):
                if group.exists() and group.relative_to(self.groups.root) not in here:
                    self.groups.remove(group)
            await asyncio.sleep(0.02)

    def calls_of(self, name: str) -> list[SetCall]:
        """The calls that set the limit of a pod's own group."""
        uid = self.scheduling.pod(name)["metadata"]["uid"]
        return [call for call in read_set_calls(self.library.path) if call.group.name == f"pod{uid}"]


def _groups_of_pods(root: Path) -> Iterator[Path]:
    for folder, names, _ in os.walk(root / "kubepods"):
        yield from (Path(folder) / name for name in names)


@pytest_asyncio.fixture(loop_scope="module")
async def side(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[LimitedSide]:
    need_binaries("kube-scheduler")
    async with (
        Machine(control_plane, pod_groups=True) as machine,
        Scheduling(control_plane, vendor=ALIYUN) as scheduling,
    ):
        found = LimitedSide(machine, scheduling, tmp_path)
        copying = asyncio.create_task(found.copy_groups())
        try:
            yield found
        finally:
            await scheduling.delete_pods(grace_s=1)
            copying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await copying


async def test_each_container_is_created_after_its_pods_limit(side: LimitedSide) -> None:
    await side.start_plugin()
    await side.scheduling.start_all()
    await side.until_allocatable(CARD // GIB)
    await side.run_pods(real_pod("one", 4, vendor=ALIYUN), real_pod("other", 6, vendor=ALIYUN))
    for name, units in (("one", 4), ("other", 6)):
        first = await _expect_in_order(side, name, units)
        assert (await side.seen(name))["NVIDIA_GPU_MEMORY_LIMIT"] == str(units * 1024)
        assert not side.groups.allocate(first.group, 0, (units + 1) * GIB)
    await _until_limited(side, "one", 4)
    await side.plugin.kill()
    side.groups.reload_driver()
    await side.start_plugin()
    await _until_limited(side, "one", 4)


@pytest.mark.parametrize("finalizers", [[], KEPT], ids=["plain", "held by a finalizer"])
async def test_a_false_mirror_moves_no_limit_of_a_pod(side: LimitedSide, finalizers: list[str]) -> None:
    """It names the pod as the kubelet shows it, and its control group afterwards, to raise or to lower the limit."""
    author = await make_author(side.machine.control_plane)
    await side.start_plugin()
    await side.scheduling.start_all()
    await side.until_allocatable(CARD // GIB)
    await side.run_pods(real_pod("own", 1, vendor=ALIYUN), real_pod("victim", 6, vendor=ALIYUN))
    try:
        for name, units in (("own", 4), ("victim", 1)):
            uid = side.scheduling.pod(name)["metadata"]["uid"]
            false = real_pod(f"false-{name}", units, vendor=ALIYUN, nodeName=NODE, automountServiceAccountToken=False)
            said = {MIRROR: "x", MACHINE_UID: f"default/{name}"}
            false["metadata"] |= {"annotations": said, "finalizers": finalizers}
            await author.make(PODS, false)
            await author.send("PATCH", f"{PODS}/false-{name}", {"metadata": {"annotations": {MACHINE_UID: uid}}})
        await side.run_pods(real_pod("next", 2, vendor=ALIYUN))  # the plugin has read the kubelet since
        side.groups.reload_driver()
        for name, units in (("own", 1), ("victim", 6), ("next", 2)):
            await _until_limited(side, name, units)
            assert {call.hard for call in side.calls_of(name)} == {units * GIB}
    finally:
        await author.let_go()


async def test_a_claims_container_is_created_after_its_pods_limit(side: LimitedSide) -> None:
    client, names = side.scheduling.client, ALIYUN.claims
    labels = {"metadata": {"labels": {SERVE_LABEL: SERVE_CLAIMS}}}
    await client.patch(NODES, NODE, Patch(PatchKind.MERGE, labels))
    rule = {"cel": {"expression": f'device.driver == "{names.driver}"'}}
    await client.create(DEVICE_CLASSES, {"metadata": {"name": names.memory_class}, "spec": {"selectors": [rule]}})
    try:
        await start_controllers(side.machine.control_plane)
        await side.start_plugin()
        await side.machine.control_plane.start_scheduler(None)
        await client.create(CLAIMS, claim("one", "4Gi", names.memory_class), namespace="default")
        await side.scheduling.create_pods([pod_of("one", "one")])
        pods = side.scheduling.pods
        await pods.until(lambda: phase_of(pods.objects.get("default/one", {})) == "Running", "one runs")
        await _expect_in_order(side, "one", 4)
        await _until_limited(side, "one", 4)
    finally:
        await side.scheduling.delete_pods(grace_s=1)
        await client.delete(CLAIMS, "one", namespace="default")
        await client.delete(DEVICE_CLASSES, names.memory_class)


async def _expect_in_order(side: LimitedSide, name: str, units: int) -> SetCall:
    """Check that a pod's group had its limit before its container was created; returns the first call for it."""
    (first, *_) = side.calls_of(name)
    assert (first.soft, first.hard, first.code) == (0, units * GIB, 0)
    (status,) = side.scheduling.pod(name)["status"]["containerStatuses"]
    assert first.at_ns < await side.machine.created_ns(status["containerID"].removeprefix("containerd://"))
    return first


async def _until_limited(side: LimitedSide, name: str, units: int) -> None:
    """Wait until a pod's group and its containers' have its limit."""

    async def missing() -> str:
        pod = side.calls_of(name)[0].group
        found = {
            str(each): side.groups.limit_of(each, 0)
            for each in (pod, *(each for each in pod.iterdir() if each.is_dir()))
        }
        return "" if set(found.values()) == {units * GIB} else str(found)

    await until(missing, f"{name} and its containers are limited")
