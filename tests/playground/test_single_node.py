"""One node with real programs: swapped admission, and a record that is falsified while nothing runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gcushare.core.units import GIB
from gcushare.kube.patches import Patch, PatchKind
from gcushare_playground.picture import POD_OBJECTS, node_of
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.playground.census import Census
from tests.playground.clusters import started

# One group: the cluster is started once, in one worker.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("single node"), pytest.mark.slow]

NODE = "node-1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running_cluster() -> AsyncIterator[Census]:
    nodes = (NodePlan(name=NODE, card_bytes=(16 * GIB,) * 4),)
    async with started(ClusterPlan(nodes=nodes, wait_factor=0.1, unschedulable_s=3.0)) as census:
        yield census


@pytest_asyncio.fixture(loop_scope="module")
async def census(running_cluster: Census) -> AsyncIterator[Census]:
    yield running_cluster
    await running_cluster.delete_all()


async def test_two_pods_of_equal_size_admitted_in_swapped_order_end_with_true_records(census: Census) -> None:
    kubelet = census.doubles.kubelets[NODE]
    kubelet.faults.admission_open.clear()
    try:
        # 12 units each: one per card, so that every pod has a card of its own to be confused about.
        keys = [await census.create(f"twin-{number}", 12) for number in range(4)]
        await census.cluster.pods.until(
            lambda: all(node_of(census.pods.get(key, {"spec": {}})) for key in keys), "bound"
        )
        await kubelet.gather_pods(len(keys))
        planned = {key: census.record_of(census.pods[key]) for key in keys}
        admitted: list[str] = []

        async def note(uid: str, _container: str) -> None:
            admitted.append(uid)

        kubelet.faults.before_allocate = note
        kubelet.faults.admission_open.set()
        await census.wait_quiet(len(keys))
    finally:
        kubelet.faults.before_allocate = None
        kubelet.faults.admission_open.set()
    created = [census.pods[key]["metadata"]["uid"] for key in keys]
    assert admitted != created, "the kubelet double admitted in the order of creation: nothing was swapped"
    assert {record.card_indexes for record in planned.values() if record} == {(0,), (1,), (2,), (3,)}
    assert list(census.problems()) == []


async def test_a_record_falsified_while_the_plugin_is_away_is_noticed_and_put_right_when_it_is_back(
    census: Census,
) -> None:
    """The census's own negative control, too: it must see what is wrong before it may say that all is well."""
    cluster = census.cluster
    key = await census.create("victim", 4)
    await census.wait_quiet(1)
    await cluster.plugins[NODE].kill()
    falsified = Patch(PatchKind.MERGE, {"metadata": {"annotations": {"enflame.com/gcu-device-id": "2"}}})
    await cluster.client.patch(POD_OBJECTS, "victim", falsified, namespace="default")
    await cluster.pods.until(lambda: list(census.problems()) != [], "the census sees it")
    assert list(census.problems()) == [
        "victim: record says {2: 4}, kubelet gave {0: 4}",
        "victim: record says card (2,), its container sees 0",
    ]
    await cluster.start_plugin(cluster.plan.nodes[0])
    await census.wait_quiet(1)
    record = census.record_of(census.pods[key])
    assert record is not None
    assert record.card_indexes == (0,)
