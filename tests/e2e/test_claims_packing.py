"""How well kube-scheduler packs claims by itself and with the order of nodes, counted from the claims alone."""

from __future__ import annotations

import asyncio
import enum
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass

import pytest
import pytest_asyncio

from gcushare.core.errors import RetryableError
from gcushare.core.units import GIB
from gcushare.kube.resources import NAMESPACES, PODS
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL, EXTENDER
from gcushare.wire.dra.claim_names import ClaimSize
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS, node_of
from tests.charts import needs_helm
from tests.e2e.assets import need_binaries
from tests.e2e.claims import (
    CLAIMS,
    CONTROLLER_MANAGER,
    SLICES,
    TEMPLATES,
    call_extender,
    claim_node,
    claim_template,
    count_used,
    create_each,
    delete_each,
    install,
    install_extender,
    opt_in,
    slices_of,
    start_controller_manager,
    start_extender,
    try_pod,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.figures import Figures
from tests.e2e.objects import JsonObject, find_overcommitted, node, pod
from tests.e2e.objects import count_used as count_recorded
from tests.e2e.scheduling import Scheduling
from tests.e2e.waiting import until

pytestmark = needs_helm

CARDS, CARD_GIB = 8, 16
RAISED = ("--kube-api-qps=1000", "--kube-api-burst=1000")


class Way(enum.Enum):
    """What chooses among the nodes on which a claim fits."""

    ALONE = "kube-scheduler"
    LABELS = "the order of nodes that the extender keeps"
    EXTENDER = "the scheduler extender"


@dataclass(frozen=True, slots=True)
class Round:
    """What one round opened, and how fast it was."""

    nodes: int
    cards: int
    fill: float
    pods_per_s: float

    @classmethod
    def of(cls, used: Mapping[tuple[str, int], int], pods_per_s: float) -> Round:
        """Count what is used of each card, in GiB."""
        return cls(len({node for node, _ in used}), len(used), sum(used.values()) / (len(used) * CARD_GIB), pods_per_s)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The policies and the templates of every size; the test brings nodes."""
    need_binaries("kube-scheduler", CONTROLLER_MANAGER)
    await install(control_plane)
    await install_extender(control_plane)
    await create_each(control_plane.client, TEMPLATES, [claim_template(ClaimSize(size)) for size in range(1, 17)])
    yield control_plane


async def replace_nodes(cluster: ControlPlane, count: int, *, claims: bool = True) -> None:
    """Have these nodes and no others: nodes that serve claims, or resources."""
    for resource in (NODE_OBJECTS, SLICES):
        await delete_each(cluster.client, resource, await cluster.client.list_all(resource))
    names = [f"node-{number:04}" for number in range(count)]
    made = (claim_node(each, CARDS, CARD_GIB) if claims else node(each, *[CARD_GIB] * CARDS) for each in names)
    await create_each(cluster.client, NODE_OBJECTS, list(made))
    if claims:
        slices = [each for name in names for each in slices_of(name, CARDS, CARD_GIB)]
        await create_each(cluster.client, SLICES, slices)


async def measure(cluster: ControlPlane, pods: list[JsonObject], way: Way, *flags: str) -> Round:
    """Let the scheduler place the pods, check every card and return what it opened."""
    await call_extender(cluster, called=way is Way.EXTENDER)
    await start_controller_manager(cluster, ("resourceclaim-controller",), *flags)
    if way is Way.LABELS:
        await keep_order(cluster)
    extended = Scheduling(cluster, claims=True)
    if way is Way.EXTENDER:
        await extended.start_extender()
    await cluster.start_scheduler(extended.settings if way is Way.EXTENDER else None)
    found, pods_per_s = await place(cluster, pods)
    used = count_used(await cluster.client.list_all(CLAIMS))
    assert find_wrong(found, await cluster.client.list_all(CLAIMS), used) == []
    for name in ("kube-scheduler", *(() if way is Way.ALONE else (EXTENDER,))):
        await cluster.end(name)
    await delete_each(cluster.client, PODS, found)
    # Kubernetes' garbage collector, which does not run here, would delete them.
    await delete_each(cluster.client, CLAIMS, await cluster.client.list_all(CLAIMS))

    async def left() -> str:
        return ", ".join(each["metadata"]["name"] for each in (await cluster.client.list_all(CLAIMS))[:3])

    await until(left, "the claims are gone", deadline_s=240)
    await cluster.end(CONTROLLER_MANAGER)
    return Round.of({card: held // GIB for card, held in used.items()}, pods_per_s)


async def measure_resources(cluster: ControlPlane, pods: list[JsonObject]) -> Round:
    """The same pods in a namespace without claims, placed by the extender on nodes that serve resources."""
    extended = Scheduling(cluster)
    await extended.start_extender()
    await cluster.start_scheduler(extended.settings)
    await opt_in(cluster.client, "default", opted=False)

    async def changed() -> str:
        _, made = await try_pod(cluster, pod("probe", 1))
        return "a pod gets a claim" if "resourceClaims" in made["spec"] else ""

    await until(changed, "pods stay as they are", deadline_s=60)
    found, pods_per_s = await place(cluster, pods)
    assert find_overcommitted(found, await cluster.client.list_all(NODE_OBJECTS)) == {}
    for name in ("kube-scheduler", EXTENDER):
        await cluster.end(name)
    await delete_each(cluster.client, PODS, found)
    await opt_in(cluster.client, "default")
    return Round.of(count_recorded(found), pods_per_s)


async def place(cluster: ControlPlane, pods: list[JsonObject]) -> tuple[list[JsonObject], float]:
    """Create the pods and wait until they are bound; returns them, and how many were bound in a second."""
    started = time.perf_counter()
    await create_each(cluster.client, POD_OBJECTS, pods)
    found = await until_bound(cluster, len(pods))
    return found, len(pods) / (time.perf_counter() - started)


async def keep_order(cluster: ControlPlane) -> None:
    await start_extender(cluster, "--no-leader-elect")

    async def missing() -> str:
        nodes = await cluster.client.list_all(NODE_OBJECTS)
        return "" if any(CLAIMS_ORDER_LABEL in each["metadata"]["labels"] for each in nodes) else "no node has a label"

    await until(missing, "the first nodes have their labels", deadline_s=60)


async def until_bound(cluster: ControlPlane, count: int) -> list[JsonObject]:
    """Count once a second: counting more often would cost as much as binding, on the CPUs that are measured."""
    deadline, bound = time.perf_counter() + 900, 0
    while time.perf_counter() < deadline:
        await asyncio.sleep(1)
        try:
            found = await cluster.client.list_all(POD_OBJECTS)
        except RetryableError:
            continue  # An API server with much to do answers a list late, and says so.
        bound = sum(1 for each in found if node_of(each))
        if bound >= count:
            return found
    raise AssertionError(f"{bound} of {count} pods are bound")


def find_wrong(pods: list[JsonObject], claims: list[JsonObject], used: Counter[tuple[str, int]]) -> list[str]:
    """What the claims alone show to be wrong: a card over its size, a claim without a pod, a pod on another node."""
    wrong = [f"{card} has {held} bytes" for card, held in used.items() if held > CARD_GIB * GIB]
    nodes = {each["metadata"]["uid"]: node_of(each) for each in pods}
    for each in claims:
        users = [user["uid"] for user in each.get("status", {}).get("reservedFor", ())]
        pools = {result["pool"] for result in each["status"]["allocation"]["devices"]["results"]}
        if len(users) != 1 or {nodes.get(users[0])} != pools:
            wrong.append(f"{each['metadata']['name']} of {users} is on {pools}")
    return wrong


def sized_pods(count: int) -> list[JsonObject]:
    draw = random.Random(36)
    return [pod(f"pod-{number}", draw.randint(2, CARD_GIB)) for number in range(count)]


@pytest.mark.parametrize("way", [Way.LABELS, Way.EXTENDER])
async def test_pods_fill_one_node_after_the_other(cluster: ControlPlane, way: Way) -> None:
    await replace_nodes(cluster, 30)
    pods = sized_pods(100)
    asked = sum(int(each["spec"]["containers"][0]["resources"]["limits"]["enflame.com/gcu-memory"]) for each in pods)
    least = -(-asked // (CARDS * CARD_GIB))
    packed = await measure(cluster, pods, way, *RAISED)
    # Cards cannot be filled to the last unit, and the order follows a moment later.
    assert packed.nodes <= least + 5


async def test_with_the_extender_each_pod_goes_to_a_node_of_its_kind(cluster: ControlPlane) -> None:
    """Two nodes that serve claims, two that serve resources; whole cards are asked for by the resource alone."""
    client = cluster.client
    await replace_nodes(cluster, 2)
    await create_each(client, NODE_OBJECTS, [node(f"resources-{number}", 16, 16) for number in range(2)])
    await client.create(NAMESPACES, {"metadata": {"name": "resources"}})
    await call_extender(cluster, called=True)
    await start_controller_manager(cluster)
    extended = Scheduling(cluster, claims=True, whole_cards=True)
    await extended.start_extender()
    await cluster.start_scheduler(extended.settings)
    try:
        for number in range(4):
            await client.create(POD_OBJECTS, pod(f"claim-{number}", 12), namespace="default")
            await client.create(POD_OBJECTS, pod(f"resource-{number}", 12), namespace="resources")
        await client.create(POD_OBJECTS, pod("whole", 0, whole=1), namespace="default")
        found = await until_bound(cluster, 9)
        kinds = {(each["metadata"]["name"].split("-")[0], node_of(each).split("-")[0]) for each in found}
        assert kinds == {("claim", "node"), ("resource", "resources"), ("whole", "node")}
        of_resources = [each for each in found if each["metadata"]["namespace"] == "resources"]
        assert find_overcommitted(of_resources, await client.list_all(NODE_OBJECTS)) == {}
        used = count_used(await client.list_all(CLAIMS))
        assert sorted(used.values()) == [*[12 * GIB] * 4, 16 * GIB]
    finally:
        for name in ("kube-scheduler", EXTENDER, CONTROLLER_MANAGER):
            await cluster.end(name)
        for resource in (POD_OBJECTS, CLAIMS):
            await delete_each(client, resource, await client.list_all(resource))


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_claims_and_resources_on_500_nodes(cluster: ControlPlane, figures: Figures) -> None:
    """What is compared is shown, not asserted, but for what the order of nodes is for."""
    pods = sized_pods(1000)
    rows: list[tuple[str, Round, float]] = []

    async def add(name: str, measured: Awaitable[Round]) -> Round:
        rows.append((name, round := await measured, os.getloadavg()[0]))
        return round

    await replace_nodes(cluster, 500, claims=False)
    await add("resources: the extender", measure_resources(cluster, pods))
    await replace_nodes(cluster, 500)
    alone = await add("claims: kube-scheduler alone", measure(cluster, pods, Way.ALONE, *RAISED))
    for way, name in ((Way.LABELS, "claims: the order of nodes"), (Way.EXTENDER, "claims: the extender asked")):
        packed = await add(name, measure(cluster, pods, way, *RAISED))
        assert packed.nodes < alone.nodes / 2
        await add(f"{name}; default limit", measure(cluster, pods, way))
    figures.add(
        f"{len(pods)} pods of 2 to 16 GiB on 500 nodes of 8 x 16 GiB, {os.cpu_count()} CPUs; --kube-api-qps raised",
        ("", "nodes opened", "cards opened", "cards' fill", "pods per second", "load average"),
        *(
            (n, str(r.nodes), str(r.cards), f"{r.fill:.0%}", f"{r.pods_per_s:.0f}", f"{load:.1f}")
            for n, r, load in rows
        ),
    )
