"""As many units as one kubelet takes, and what a restart of the kubelet costs when pods hold many of them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import pytest

from gcushare.config_manager.scheduler_config.versions import parse_version
from gcushare.core.units import GIB
from gcushare_playground.plans import NodePlan
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import NODE, ControlPlane
from tests.e2e.figures import Figures
from tests.e2e.machine import Machine
from tests.e2e.node_side import NodeSide, real_pod
from tests.e2e.scheduling import Scheduling

_WITHOUT_HEALTH: tuple[tuple[tuple[int, int], str], ...] = (
    ((1, 31), "ResourceHealthStatus"),
    ((1, 36), "ResourceHealthStatusMessage"),
)
"""Gates of the kubelet and the release that brought each. With the first (on from 1.36) it looks, after its restart,
for the owner of every id of a plugin's first list, and each look copies the ids of every pod, with its device manager
locked: ids times ids held. The second needs the first."""


@asynccontextmanager
async def large_node(control_plane: ControlPlane, node: NodePlan, gates: Mapping[str, bool]) -> AsyncIterator[NodeSide]:
    """Run a node whose cards are counted in MiB."""
    need_binaries("kube-scheduler")
    async with Machine(control_plane, gates) as machine, Scheduling(control_plane) as scheduling:
        side = NodeSide(machine, scheduling, node, unit="MiB")
        side.set_health()
        await scheduling.start_all()
        yield side


@contextmanager
def timed(what: str, table: dict[str, float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    table[what] = time.perf_counter() - started


async def test_a_kubelet_takes_262144_units_and_pods_of_16384(control_plane: ControlPlane, figures: Figures) -> None:
    """8 cards of 32 GiB in MiB are a list of exactly 4 MiB; restarts of plugin and kubelet leave the pods alone."""
    node = NodePlan(name=NODE, card_bytes=(32 * GIB,) * 8)
    taken: dict[str, float] = {}
    async with large_node(control_plane, node, without_health()) as side:
        with timed("plugin started, all units offered", taken):
            await side.start_plugin()
            await side.until_allocatable(262_144)
        with timed("a pod of 16,384 units runs, its record confirmed", taken):
            await side.run_pods(real_pod("first", 16_384))
        with timed("plugin killed and started, a second pod runs", taken):
            await side.plugin.kill()
            await side.until_allocatable(0)
            await side.start_plugin()
            await side.until_allocatable(262_144)
            await side.run_pods(real_pod("second", 16_384))
        with timed("kubelet killed and started, a third pod runs", taken):
            await side.restart_kubelet()
            await side.run_pods(real_pod("third", 16_384))
        await side.expect_true("first", "second", "third")
        assert side.recorded("first") == side.recorded("second"), "both fit on one card of 32,768 units"
    figures.add("a kubelet with 262,144 units", ("", "seconds"), *((k, f"{v:.2f}") for k, v in taken.items()))


@pytest.mark.parametrize("held", [256, 1024, 4096])
async def test_a_restart_of_the_kubelet_with_its_health_gate_costs_ids_times_ids_held(
    control_plane: ControlPlane, figures: Figures, held: int
) -> None:
    """What docs/limits.md warns of; the pods must come through however long it takes."""
    node = NodePlan(name=NODE, card_bytes=(8 * GIB,) * 2)
    taken: dict[str, float] = {}
    for words, gates in (("gate off", without_health()), ("gate as released", {})):
        async with large_node(control_plane, node, gates) as side:
            await side.start_plugin()
            await side.until_allocatable(16_384)
            await side.run_pods(real_pod("holds", held))
            with timed(words, taken):
                await side.restart_kubelet()
                await side.run_pods(real_pod("next", 1), deadline_s=300)
            await side.expect_true("holds", "next")
    title = f"kubelet restart with 16,384 units, {held:,} of them held, until a new pod runs"
    figures.add(title, ("", "seconds"), *((k, f"{v:.2f}") for k, v in taken.items()))


def without_health() -> dict[str, bool]:
    """Write the gates that this kubelet knows, off."""
    kubelet = need_binaries("kubelet")["kubelet"]
    version = parse_version(subprocess.run([kubelet, "--version"], capture_output=True, text=True, check=True).stdout)
    return {name: False for since, name in _WITHOUT_HEALTH if version.release >= since}
