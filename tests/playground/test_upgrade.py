"""An upgrade of a node with running pods: the programs of a former state stop, those of this one take over.

GCUSHARE_UPGRADE_FROM names a checkout of the former state (``git worktree add DIR v0.1.0``); without it the programs of
this state are replaced by themselves, which shows the same of a restart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from gcushare.core.units import GIB
from gcushare.vendors import ALIYUN
from gcushare_playground.commands import extender_command, plugin_command, port_of
from gcushare_playground.picture import allocatable_of, phase_of
from gcushare_playground.plans import ClusterPlan, NodePlan
from gcushare_playground.processes import Child, Command
from tests.playground.census import Census
from tests.playground.clusters import started

NODE = NodePlan(name="node-1", card_bytes=(14 * GIB, 14 * GIB))
FORMER = os.environ.get("GCUSHARE_UPGRADE_FROM", "")


def of_former_state(command: Command) -> Command:
    """The same command with the former state's modules."""
    if not FORMER:
        return command
    source = Path(FORMER) / "src"
    assert (source / "gcushare").is_dir(), f"GCUSHARE_UPGRADE_FROM={FORMER} is no checkout"
    environ: Mapping[str, str] = {**command.environ, "PYTHONPATH": str(source)}
    return replace(command, environ=environ)


async def stop_extender(census: Census) -> None:
    extender = census.cluster.extender
    assert extender is not None
    await extender.stop()


async def run_former_programs(census: Census) -> None:
    """Replace the programs by the former state's."""
    cluster = census.cluster
    await cluster.plugins[NODE.name].stop()
    await stop_extender(census)
    port = port_of(cluster.extender_url)
    cluster.extender = Child(of_former_state(extender_command(cluster.plan, cluster.place, port)))
    await cluster.extender.start()
    cluster.plugins[NODE.name] = Child(of_former_state(plugin_command(cluster.plan, cluster.place, NODE)))
    await cluster.plugins[NODE.name].start()
    memory, nodes = cluster.plan.vendor.memory_resource, cluster.nodes
    # Of the memory alone: a former state may have counted the cards in another way.
    await nodes.until(lambda: allocatable_of(nodes.objects[NODE.name], memory) == 28, "the node offers its memory")


async def run_pod(census: Census, name: str, units: int) -> None:
    key = await census.create(name, units)
    await census.cluster.pods.until(
        lambda: census.is_assigned(key), f"{name} runs with a confirmed record", deadline_s=60.0
    )


def state_of(census: Census) -> dict[str, tuple[object, ...]]:
    """What may not change for a pod: its identity, where it runs, since when, and its record."""
    found: dict[str, tuple[object, ...]] = {}
    for key, pod in census.pods.items():
        statuses = pod["status"].get("containerStatuses", [])
        restarts = tuple((each["name"], each.get("restartCount", 0)) for each in statuses)
        found[key] = (pod["metadata"]["uid"], phase_of(pod), restarts, census.record_of(pod))
    return found


@pytest.mark.slow
async def test_pods_run_on_with_their_cards_and_the_next_ones_are_placed_next_to_them() -> None:
    plan = ClusterPlan(nodes=(NODE,), vendor=ALIYUN, wait_factor=0.1, unschedulable_s=3.0)
    async with started(plan) as census:
        await run_former_programs(census)
        for name, units in (("a", 5), ("b", 5), ("c", 12)):
            await run_pod(census, name, units)
        before = state_of(census)
        assert len(before) == 3
        cluster = census.cluster
        await stop_extender(census)
        await cluster.start_extender()
        await cluster.plugins[NODE.name].stop()
        await cluster.start_plugin(NODE)
        await cluster.wait_ready()
        assert state_of(census) == before
        await run_pod(census, "d", 4)
        after = state_of(census)
        assert {key: after[key] for key in before} == before
        record = census.record_of(census.pods["default/d"])
        assert record is not None
        assert record.card_indexes == (0,), "5 and 5 leave 4 of 14, and 12 leaves 2"
