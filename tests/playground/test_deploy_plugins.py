"""The plugin's deploy.sh waits for its pods, and its delete.sh takes off the labels of its own release alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcushare.vendors import ALIYUN, ENFLAME
from gcushare_playground.apiserver.objects import Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.charts import NAMESPACE, PLUGIN_CHART
from tests.playground.deploy_bench import PLUGIN, Bench, in_order, started_bench
from tests.playground.deploy_rig import needs_tools
from tests.playground.plugin_pods import NO_CARDS, NO_CPU, NO_IMAGE, NO_LIBRARY, Obstacle

pytestmark = [needs_tools, pytest.mark.slow]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with started_bench(tmp_path) as started:
        yield started


async def deploy_everywhere(bench: Bench, *words: str) -> None:
    done = await bench.run(PLUGIN, "deploy.sh", "--nodes", "all", "--delivery", "none", *words)
    assert done.code == 0, done


def label(bench: Bench, node: str, key: str) -> None:
    """Label a node as another system's admin does."""

    def change(obj: dict[str, object]) -> dict[str, object]:
        metadata = obj["metadata"]
        assert isinstance(metadata, dict)
        return {**obj, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), key: "true"}}}

    bench.site.server.registry.update(BY_NAME["nodes"], Key("", node), change)


async def test_enter_labels_a_node_without_a_library_and_deploying_says_so(bench: Bench) -> None:
    bench.site.plugins.obstacles["n2"] = NO_LIBRARY
    done = await bench.run(PLUGIN, "deploy.sh", "--delivery", "none", "--timeout", "2s", stdin="\n")
    assert done.code == 1, done
    why = f"{NO_LIBRARY.reason}: {NO_LIBRARY.message}"
    assert in_order(done.out, ["node n1: the plugin is ready\n", f"node n2: the plugin did not start: {why}\n"]), done
    assert "the plugin did not start on every labelled node" in done.errors
    assert f"kubectl label node NODE {ENFLAME.label_key}-" in done.errors
    lines = (
        f"set -euo pipefail; cd {bench.root}/deploy/lib; . ./common.sh; . ./plugins.sh",
        f"name={PLUGIN} namespace={NAMESPACE} timeout=10m settle_s=1; wait_for_plugins enflame",
    )
    settled = await bench.site.run("bash", "-c", "\n".join(lines))
    assert settled.code == 1, settled
    assert f"node n2: the plugin did not start: {why}\n" in settled.out, "long before the time is over"


async def test_a_deployment_does_not_wait_for_mps_daemons_which_it_leaves_as_they_are(bench: Bench) -> None:
    await deploy_everywhere(bench, "--vendor", "aliyun", "--set", "memoryLimit=mps", "--timeout", "60s")
    assert bench.site.names("daemonsets.apps") == {f"{PLUGIN}-aliyun", f"{PLUGIN}-aliyun-mps"}


@pytest.mark.parametrize(
    ("obstacle", "why"),
    [
        pytest.param(NO_IMAGE, 'ImagePullBackOff: Back-off pulling image "registry/image"', id="image"),
        pytest.param(NO_CPU, "no room for its pod: 0/2 nodes are available: 2 Insufficient cpu.", id="cpu"),
        pytest.param(NO_CARDS, "NoCards: efml found no card", id="cards"),
        pytest.param(Obstacle(), f"its pod {PLUGIN}-n1 is not ready", id="unknown"),
    ],
)
async def test_deploying_names_the_reason_when_its_time_is_over(bench: Bench, obstacle: Obstacle, why: str) -> None:
    bench.site.plugins.obstacles["n1"] = obstacle
    done = await bench.run(PLUGIN, "deploy.sh", "--nodes", "n1", "--delivery", "none", "--timeout", "2s")
    assert (done.code, f"node n1: the plugin did not start: {why}" in done.out) == (1, True), done


async def test_deleting_the_plugin_removes_its_release_and_its_label_and_can_be_repeated(bench: Bench) -> None:
    await deploy_everywhere(bench)
    label(bench, "n2", ALIYUN.label_key)
    done = await bench.run(PLUGIN, "delete.sh")
    assert done.code == 0, done
    lines = [
        f"uninstall gcushare device plugin release in namespace:{NAMESPACE} start...\n",
        f'release "{PLUGIN}" uninstalled\n',
        "node/n1 ",
        "node/n2 ",
    ]
    assert in_order(done.out, lines), done
    assert bench.labelled() == set()
    assert bench.labelled(ALIYUN.label_key) == {"n2"}, "Aliyun's own nodes keep their label"
    assert bench.site.names("daemonsets.apps") == set()
    again = await bench.run(PLUGIN, "delete.sh")
    assert (again.code, "is not installed" in again.out) == (0, True)


async def test_nothing_loses_its_label_if_no_release_is_installed(bench: Bench) -> None:
    label(bench, "n1", ALIYUN.label_key)
    label(bench, "n2", ENFLAME.label_key)
    done = await bench.run(PLUGIN, "delete.sh")
    assert done.code == 0, done
    assert "the label gpushare=true stays on: n1 (if gcushare set it, remove it by: " in done.out
    assert (bench.labelled(), bench.labelled(ALIYUN.label_key)) == ({"n2"}, {"n1"})
    asked = await bench.run(PLUGIN, "delete.sh", "--vendor", "aliyun")
    assert asked.code == 0, asked
    assert (bench.labelled(), bench.labelled(ALIYUN.label_key)) == ({"n2"}, set())


async def test_helm_uninstall_takes_off_no_label_of_the_other_vendor(bench: Bench) -> None:
    await bench.site.helm("install", PLUGIN, PLUGIN_CHART, "--set", "cleanup.removeNodeLabel=true")
    label(bench, "n1", ALIYUN.label_key)
    label(bench, "n1", ENFLAME.label_key)
    await bench.site.run("kubectl", "annotate", "node", "n1", f"{ENFLAME.inventory_annotation}={{}}")
    await bench.site.helm("uninstall", PLUGIN)
    assert (bench.labelled(), bench.labelled(ALIYUN.label_key)) == (set(), {"n1"})
