"""How well kube-scheduler packs claims by itself and with the order of nodes, counted from the claims alone."""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from gcushare.core.claims import ClaimSize
from gcushare.kube.resources import PODS
from gcushare.wire.contracts import CLAIMS_CONTROLLER, CLAIMS_ORDER_LABEL
from gcushare.wire.dra.slices import ResourceSlice
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS, node_of
from tests.charts import needs_helm
from tests.e2e.assets import need_binaries
from tests.e2e.claims import (
    CLAIMS,
    CONTROLLER_MANAGER,
    GIB,
    SLICES,
    TEMPLATES,
    claim_node,
    claim_template,
    count_used,
    create_each,
    delete_each,
    install,
    slices_of,
    start_controller_manager,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.figures import Figures
from tests.e2e.objects import JsonObject, pod
from tests.e2e.waiting import until

pytestmark = needs_helm

CARDS, CARD_GIB = 8, 16
RAISED = ("--kube-api-qps=1000", "--kube-api-burst=1000")
LIMITS = {"default": (), "1000": RAISED}
WriteSlices = Callable[[str, int, int], list[ResourceSlice]]


@dataclass(frozen=True, slots=True)
class Round:
    """What one round opened, and how fast it was."""

    nodes: int
    cards: int
    fill: float
    pods_per_s: float


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The policies and the templates of every size; the test brings nodes."""
    need_binaries("kube-scheduler", CONTROLLER_MANAGER)
    await install(control_plane)
    await create_each(control_plane.client, TEMPLATES, [claim_template(ClaimSize(size)) for size in range(1, 17)])
    yield control_plane


async def replace_nodes(cluster: ControlPlane, count: int, write: WriteSlices = slices_of) -> None:
    """Have these nodes and no others; ``write`` makes a node's slices."""
    for resource in (NODE_OBJECTS, SLICES):
        await delete_each(cluster.client, resource, await cluster.client.list_all(resource))
    names = [f"node-{number:04}" for number in range(count)]
    await create_each(cluster.client, NODE_OBJECTS, [claim_node(name) for name in names])
    slices = [each for name in names for each in write(name, CARDS, CARD_GIB)]
    await create_each(cluster.client, SLICES, slices)


async def measure(cluster: ControlPlane, pods: list[JsonObject], *, order: bool, limit: str = "1000") -> Round:
    """Let the scheduler place the pods, check every card and return what it opened."""
    await start_controller_manager(cluster, ("resourceclaim-controller",), *LIMITS[limit])
    if order:
        await start_controller(cluster)
    await cluster.start_scheduler(None)
    started = time.perf_counter()
    await create_each(cluster.client, POD_OBJECTS, pods)
    found = await until_bound(cluster, len(pods))
    taken_s = time.perf_counter() - started
    used = count_used(await cluster.client.list_all(CLAIMS))
    assert find_wrong(found, await cluster.client.list_all(CLAIMS), used) == []
    for name in ("kube-scheduler", *((CLAIMS_CONTROLLER,) if order else ())):
        await cluster.end(name)
    await delete_each(cluster.client, PODS, found)
    # Kubernetes' garbage collector, which does not run here, would delete them.
    await delete_each(cluster.client, CLAIMS, await cluster.client.list_all(CLAIMS))

    async def left() -> str:
        return ", ".join(each["metadata"]["name"] for each in (await cluster.client.list_all(CLAIMS))[:3])

    await until(left, "the claims are gone", deadline_s=240)
    await cluster.end(CONTROLLER_MANAGER)
    full = sum(used.values()) / (len(used) * CARD_GIB * GIB)
    return Round(len({node for node, _ in used}), len(used), full, len(pods) / taken_s)


async def start_controller(cluster: ControlPlane) -> None:
    await cluster.start(
        cluster.command(
            CLAIMS_CONTROLLER,
            *(sys.executable, "-m", "gcushare.claims_controller", "--kubeconfig", str(cluster.kubeconfig)),
            *("--listen-address", "127.0.0.1", "--listen-port", "0", "--log-dir", "", "--no-leader-elect"),
            ready=re.compile(r"(http://127\.0\.0\.1:\d+)"),
        )
    )

    async def missing() -> str:
        nodes = await cluster.client.list_all(NODE_OBJECTS)
        return "" if any(CLAIMS_ORDER_LABEL in each["metadata"]["labels"] for each in nodes) else "no node has a label"

    await until(missing, "the first nodes have their labels", deadline_s=60)


async def until_bound(cluster: ControlPlane, count: int) -> list[JsonObject]:
    """Count once a second: counting more often would cost as much as binding, on the CPUs that are measured."""
    deadline = time.perf_counter() + 500
    while True:
        found = await cluster.client.list_all(POD_OBJECTS)
        bound = sum(1 for each in found if node_of(each))
        if bound >= count:
            return found
        assert time.perf_counter() < deadline, f"{bound} of {count} pods are bound"
        await asyncio.sleep(1)


def find_wrong(pods: list[JsonObject], claims: list[JsonObject], used: Counter[tuple[str, int]]) -> list[str]:
    """What the claims alone show to be wrong: a card over its size, a claim of nobody, a pod on another node."""
    wrong = [f"{card} has {held} bytes" for card, held in used.items() if held > CARD_GIB * GIB]
    nodes = {each["metadata"]["uid"]: node_of(each) for each in pods}
    for each in claims:
        users = [user["uid"] for user in each.get("status", {}).get("reservedFor", ())]
        pools = {result["pool"] for result in each["status"]["allocation"]["devices"]["results"]}
        if len(users) != 1 or {nodes.get(users[0])} != pools:
            wrong.append(f"{each['metadata']['name']} of {users} is on {pools}")
    return wrong


def sized_pods(count: int, seed: int = 36) -> list[JsonObject]:
    draw = random.Random(seed)
    return [pod(f"pod-{number}", draw.randint(2, CARD_GIB)) for number in range(count)]


async def test_pods_fill_one_node_after_the_other(cluster: ControlPlane) -> None:
    await replace_nodes(cluster, 30)
    pods = sized_pods(100)
    asked = sum(int(each["spec"]["containers"][0]["resources"]["limits"]["enflame.com/gcu-memory"]) for each in pods)
    least = -(-asked // (CARDS * CARD_GIB))
    packed = await measure(cluster, pods, order=True)
    # Cards cannot be filled to the last unit, and labels follow a moment later.
    assert packed.nodes <= least + 5


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_claims_on_500_nodes(cluster: ControlPlane, figures: Figures) -> None:
    """What is compared is shown, not asserted, but for what the order of nodes is for."""
    await replace_nodes(cluster, 500)
    pods = sized_pods(1000)
    alone = await measure(cluster, pods, order=False)
    packed = await measure(cluster, pods, order=True)
    slow = await measure(cluster, sized_pods(200), order=True, limit="default")
    rows = (("kube-scheduler alone", alone), ("with the order of nodes", packed), ("200 pods, default limit", slow))
    figures.add(
        f"1,000 claims of 2 to 16 GiB on 500 nodes of 8 x 16 GiB, {os.cpu_count()} CPUs; --kube-api-qps raised",
        ("", "nodes opened", "cards opened", "cards' fill", "pods per second"),
        *((name, str(r.nodes), str(r.cards), f"{r.fill:.0%}", f"{r.pods_per_s:.0f}") for name, r in rows),
    )
    assert packed.nodes < alone.nodes / 2
