"""The doctor over the real programs: silent while all is well, and right about what then breaks."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.core.units import GIB
from gcushare.runtime.entry import ProcessContext
from gcushare.vendors import ENFLAME
from gcushare_playground.picture import poll_until
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.playground.clusters import Census, listening_url, show_program, started
from tests.protocol.doctor_rig import SERVICE, SYSTEM, policy, policy_binding

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("doctor system"), pytest.mark.slow]

NODE = NodePlan(name="n1", card_bytes=(16 * GIB,) * 2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def census() -> AsyncIterator[Census]:
    plan = ClusterPlan(nodes=(NODE,), wait_factor=0.1, plugin_flags=("--poll-interval", "0.2"))
    async with started(plan) as running:
        install(running)
        for number in range(4):
            await running.create(f"p{number}", 6)
        await running.cluster.pods.until(lambda: len(running.running()) == 6, "four pods run, and the programs")
        yield running


def install(census: Census) -> None:
    """Show the programs as a cluster shows them: pods, a Service, the policy."""
    registry, cluster = census.cluster.doubles.api.registry, census.cluster
    for obj in (policy(), policy_binding()):
        registry.put(obj)
    plugin_url = listening_url(cluster.plugins[NODE.name])
    show_program(census, NODE.name, "gcushare-device-plugin", plugin_url)
    show_program(census, NODE.name, "gcushare-scheduler-extender", cluster.extender_url, cluster.page_url)
    ports = [{"name": "http", "port": 32766, "targetPort": "status"}]
    spec = {"selector": {"app": "gcushare-scheduler-extender"}, "ports": ports}
    metadata = {"name": SERVICE, "namespace": SYSTEM}
    registry.put({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


async def examine(census: Census) -> Any:
    place, stdout, stderr = census.cluster.place, io.StringIO(), io.StringIO()
    argv = ("-o", "json", "--kubeconfig", str(place.kubeconfig), "--scheduler-config", str(place.scheduler_config))
    await asyncio.to_thread(SUBCOMMANDS["doctor"].run, ProcessContext(argv, {"HOME": str(place.root)}, stdout, stderr))
    assert stderr.getvalue() == ""
    return json.loads(stdout.getvalue())


# Each test stands by itself, in whatever process it runs; what a test breaks, it and the later ones live with.


async def test_a_system_at_work_gives_no_findings(census: Census) -> None:
    async def look() -> str | None:
        findings = (await examine(census))["findings"]
        return str(findings) if findings else None

    await poll_until(look, "nothing is found")
    document = await examine(census)
    assert document["versions"]["plugins"].keys() == {"n1"}
    assert document["lookedAt"]["extenders"] == 1


async def test_a_bundle_of_it_holds_what_the_programs_know(census: Census, tmp_path: Path) -> None:
    place, path, stdout = census.cluster.place, tmp_path / "bundle.tar.gz", io.StringIO()
    process = ProcessContext(("--kubeconfig", str(place.kubeconfig), str(path)), {"HOME": "/"}, stdout, stdout)
    assert await asyncio.to_thread(SUBCOMMANDS["support-bundle"].run, process) == 0
    with tarfile.open(path) as tar:
        names = {name.partition("/")[2]: name for name in tar.getnames()}
        member = tar.extractfile(names["extender/gcushare-scheduler-extender-1/enflame-inspect.json"])
        assert member is not None
        cards = [card for node in json.load(member)["nodes"] for card in node[ENFLAME.inspect.cards]]
        assert sum(pod["usedGCU"] for card in cards for pod in card["pods"] or ()) == 24
    assert "plugins/n1/gcushare-device-plugin-1/metrics.txt" in names
    assert "logs/kube-system/gcushare-device-plugin-1/gcushare-device-plugin.log" in names


async def test_programs_that_died_are_found(census: Census) -> None:
    cluster = census.cluster
    assert cluster.extender is not None
    await asyncio.gather(cluster.extender.kill(), cluster.plugins[NODE.name].kill())
    found = {each["id"] for each in (await examine(census))["findings"]}
    assert {"extender-unreachable", "plugin-unreachable"} <= found
