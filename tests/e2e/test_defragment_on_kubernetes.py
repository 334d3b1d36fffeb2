"""Evictions of ``gcushare defragment --execute`` on a real API server, with a real PodDisruptionBudget.

No kubelet and no controllers run here: the test ends evicted pods, puts others in their place, and writes the budget's
status, which the disruption controller would write.
"""

from __future__ import annotations

import asyncio
import io
from typing import Any

from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.core.nodes import PodRef
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, PODS, Resource
from gcushare.runtime.entry import ProcessContext
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import PodRecord, encode_record
from gcushare_playground.picture import POD_OBJECTS, Picture
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import node, pod

BUDGETS: Resource[dict[str, Any]] = Resource("apis/policy/v1", "poddisruptionbudgets", dict)
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web",
    "uid": "0b9d3c7e-0000-4000-8000-000000000001",
    "controller": True,
}


async def run_pod(client: KubeClient, name: str, place: str, units: int, *, owned: bool = True) -> None:
    """Make a pod that runs on a node with units of its only card."""
    body = pod(name, units)
    body["metadata"]["labels"] = {"app": "web"}
    if owned:
        body["metadata"]["ownerReferences"] = [OWNER]
    made = await client.create(PODS, body, namespace="default")
    record = encode_record(ENFLAME, PodRecord(card_indexes=(0,), card_units=16, pod_units=units, assign_time_ns=1))
    await client.bind_pod(PodRef(made.metadata.uid, "default", name), place, record)
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await write_status(client, PODS, name, running)


async def write_status(client: KubeClient, resource: Resource[Any], name: str, status: dict[str, Any]) -> None:
    patch = Patch(PatchKind.MERGE, {"status": status})
    await client.patch(resource, name, patch, namespace="default", subresource="status")


async def allow(client: KubeClient, disruptions: int) -> None:
    status = {"observedGeneration": 1, "disruptionsAllowed": disruptions, "expectedPods": 3}
    await write_status(client, BUDGETS, "keep", {**status, "currentHealthy": 3, "desiredHealthy": 3 - disruptions})


async def defragment(control_plane: ControlPlane, *words: str) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    environ = {"HOME": "/nowhere", "KUBECONFIG": str(control_plane.kubeconfig)}
    process = ProcessContext(("--execute", "--yes", "--for", "16", *words), environ, stdout, stderr)
    code = await asyncio.to_thread(SUBCOMMANDS["defragment"].run, process, stdin=io.StringIO())
    return code, stdout.getvalue(), stderr.getvalue()


async def end_evicted(client: KubeClient, pods: Picture) -> list[str]:
    """End each evicted pod as its kubelet would, and run another of its ReplicaSet elsewhere; until cancelled."""
    ended: list[str] = []
    while True:
        await pods.until(lambda: bool(_ending(pods)), "a pod was evicted", deadline_s=180)
        name = _ending(pods)[0]
        ended.append(name)
        await run_pod(client, f"{name}-again", "gpu-2", 5)
        await client.delete(PODS, name, namespace="default", grace_s=0)
        await pods.until(lambda gone=name: gone not in _names(pods), f"{name} is gone")  # type: ignore[misc]


def _ending(pods: Picture) -> list[str]:
    found = (each["metadata"] for each in pods.objects.values())
    return [metadata["name"] for metadata in found if metadata.get("deletionTimestamp")]


def _names(pods: Picture) -> set[str]:
    return {each["metadata"]["name"] for each in pods.objects.values()}


async def test_a_budget_is_respected_and_pods_are_evicted_once_it_allows_it(control_plane: ControlPlane) -> None:
    client = control_plane.client
    for name in ("gpu-1", "gpu-2"):
        await client.create(NODES, node(name, 16))
        await write_status_of_node(client, name)
    await run_pod(client, "web-1", "gpu-1", 5)
    await run_pod(client, "fixed", "gpu-2", 9, owned=False)
    budget = {"metadata": {"name": "keep"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}}
    await client.create(BUDGETS, budget, namespace="default")
    await allow(client, 0)
    code, text, _ = await defragment(control_plane, "--patience", "1s")
    assert code == 4
    assert "stopped after 0 of 1 pod: pod default/web-1 stays" in text
    assert "keep" in text
    await client.get(PODS, "web-1", namespace="default")
    await allow(client, 1)
    pods = Picture(client, POD_OBJECTS)
    following = asyncio.create_task(pods.run(), name="follow pods")
    ending = asyncio.create_task(end_evicted(client, pods), name="end evicted pods")
    try:
        code, text, errors = await defragment(control_plane, "--patience", "60s")
        assert (code, errors) == (0, "evicted default/web-1 from gpu-1\n")
        assert "There is room now: node gpu-1." in text
        assert "web-1" not in _names(pods)
    finally:
        for task in (following, ending):
            task.cancel()
        await asyncio.wait([following, ending])


async def write_status_of_node(client: KubeClient, name: str) -> None:
    """Nodes lose their status when they are created."""
    patch = Patch(PatchKind.MERGE, {"status": node(name, 16)["status"]})
    await client.patch(NODES, name, patch, subresource="status")
