"""Percentages of unequal cards in a whole cluster, and pods that no scheduler placed."""

from __future__ import annotations

import pytest

from gcushare.core.units import GIB
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import MEMORY_PERCENT
from gcushare_playground.picture import POD_OBJECTS, phase_of
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.playground.census import CONTAINER, Census, manifest
from tests.playground.clusters import started

pytestmark = pytest.mark.slow
PLAN = ClusterPlan(
    nodes=(NodePlan(name="small", card_bytes=(16 * GIB,)), NodePlan(name="large", card_bytes=(40 * GIB,))),
    extender_flags=("--no-leader-elect", "--memory-percent"),
    wait_factor=0.1,
    unschedulable_s=1.0,
    status_interval_s=0.1,
)
HALF = {MEMORY_PERCENT: "50"}


async def bind_directly(census: Census, name: str, units: int, node: str) -> str:
    """Create a pod whose author names the node: neither the scheduler nor the extender is asked."""
    body = manifest(name, units)
    body["spec"]["nodeName"] = node
    await census.cluster.client.create(POD_OBJECTS, body, namespace="default")
    return f"default/{name}"


async def test_each_pod_has_its_part_of_its_card_and_no_pod_can_take_it() -> None:
    async with started(PLAN) as census:
        pods = census.cluster.pods
        keys = [await census.create(f"half-{number}", 1, annotations=HALF) for number in range(3)]
        await pods.until(lambda: all(map(census.is_assigned, keys)), "three pods run")
        nodes = [census.pods[key]["spec"]["nodeName"] for key in keys]
        assert sorted(nodes) == ["large", "small", "small"], "both cards are filled by halves"
        for key, name in zip(keys, nodes, strict=True):
            pod = census.pods[key]
            record = census.record_of(pod)
            units = 8 if name == "small" else 20
            assert record is not None
            assert record.pod_units == units
            assert census.held(pod) == {0: 1}, "the kubelet gives ids for the request alone"
            view = census.doubles.kubelets[name].container_view(pod["metadata"]["uid"], CONTAINER)
            assert view is not None
            assert view.environment[ENFLAME.environment.container_bytes] == str(units * GIB)

        taken = await bind_directly(census, "taken", 1, "small")  # 14 of its ids are free, none of its units
        await pods.until(lambda: phase_of(census.pods.get(taken, {})) == "Failed", "it is refused")
        fits = await bind_directly(census, "fits", 20, "large")
        await pods.until(lambda: phase_of(census.pods.get(fits, {})) == "Running", "the other half is free")
        over = await census.create("over", 1)
        await pods.until(lambda: census.pods.get(over, {}).get("status", {}).get("conditions"), "it waits")
        assert not census.pods[over]["spec"].get("nodeName")
