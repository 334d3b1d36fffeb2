"""Room that kube-scheduler hears of before the extender does, and a cluster in which nothing else happens."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest_asyncio

from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import PODS
from gcushare.wire.annotations import ROOM_FOUND
from gcushare_playground.apiserver.kubeconfig import write_kubeconfig
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import ADMIN, ControlPlane
from tests.e2e.objects import find_overcommitted, node, pod
from tests.e2e.scheduling import Scheduling
from tests.wires import wire_to

LATE_S = 0.25
"""What the extender's watch is behind: the scheduler has asked, and been refused, long before."""

ROUNDS = int(os.environ.get("GCUSHARE_E2E_ROUNDS", "5"))
"""More of them for a long run on a loaded machine."""

PATIENCE_S = 30.0
"""A tenth of the time after which kube-scheduler tries by itself."""


@pytest_asyncio.fixture(loop_scope="module")
async def scheduling(control_plane: ControlPlane) -> AsyncIterator[Scheduling]:
    need_binaries("kube-scheduler")
    async with wire_to(f"https://127.0.0.1:{control_plane.port}", late_s=LATE_S) as wire:
        url, path = f"https://127.0.0.1:{wire.port}", control_plane.root / "late.kubeconfig"
        token, authority = control_plane.tokens[ADMIN][0], control_plane.authority
        write_kubeconfig(path, url, token=token, authority=authority, namespace="default")
        async with Scheduling(control_plane, ("--no-leader-elect", "--kubeconfig", str(path))) as running:
            await running.start_all()
            yield running


async def test_room_that_the_extender_hears_of_late_is_found_although_nothing_else_happens(
    scheduling: Scheduling,
) -> None:
    """The scheduler asks for the first time when the other pod ends: before that its own count leaves no room."""
    await scheduling.create_nodes([node("node-1", 16)])
    await scheduling.create_pods([pod("pod-0", 16)])
    await scheduling.until_bound("pod-0")
    for number in range(1, ROUNDS + 1):
        waits = f"pod-{number}"
        await scheduling.create_pods([pod(waits, 16)])
        await scheduling.until_said(waits, "FailedScheduling")
        await finish(scheduling, f"pod-{number - 1}")
        await scheduling.until_bound(waits, deadline_s=PATIENCE_S)


async def test_of_many_that_wait_no_more_are_written_to_than_fit(scheduling: Scheduling) -> None:
    await scheduling.create_nodes([node("node-1", 16, 16)])
    await scheduling.create_pods([pod("first", 12), pod("second", 12)])
    await scheduling.until_bound("first", "second")
    names = [f"pod-{number:03}" for number in range(100)]
    await scheduling.create_pods([pod(name, 5) for name in names])
    for name in names:
        await scheduling.until_said(name, "FailedScheduling")
    await finish(scheduling, "first")
    await scheduling.until_all_bound(2 + 3, deadline_s=PATIENCE_S)

    noted = {name for name in names if ROOM_FOUND in (scheduling.pod(name)["metadata"].get("annotations") or {})}
    # None where the scheduler was still asking about the others when the news came.
    assert len(noted) <= 3, f"three fit now: {noted}"
    holding = [each for each in scheduling.pods.objects.values() if each["status"].get("phase") != "Succeeded"]
    assert not find_overcommitted(holding, scheduling.nodes.objects.values())


async def finish(scheduling: Scheduling, name: str) -> None:
    """End a pod as a kubelet does: the last that the scheduler hears of it."""
    done = Patch(PatchKind.MERGE, {"status": {"phase": "Succeeded"}})
    await scheduling.client.patch(PODS, name, done, namespace="default", subresource="status")
