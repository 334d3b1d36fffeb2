"""The scripts of the packages where something is not as usual: another helm, an API that fails, nodes far away."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.charts import EXTENDER_CHART, HELM, NAMESPACE, one, rendered
from tests.playground.deploy_bench import PLUGIN, Bench, started_bench
from tests.playground.deploy_rig import KUBECTL, MANAGER, Outcome, control_plane_node, needs_tools, rolled_out

pytestmark = [needs_tools, pytest.mark.slow]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with started_bench(tmp_path) as started:
        yield started


@pytest.mark.parametrize(
    ("tool", "call", "reason"),
    [
        pytest.param("helm", "list", f"could not check whether release {PLUGIN} is installed", id="releases"),
        pytest.param("kubectl", "get nodes", "the nodes cannot be listed", id="nodes"),
    ],
)
async def test_what_cannot_be_seen_is_not_taken_for_what_is_not_there(
    bench: Bench, tool: str, call: str, reason: str
) -> None:
    await bench.run(PLUGIN, "deploy.sh", "--nodes", "all", "--delivery", "none")
    real = {"helm": HELM, "kubectl": KUBECTL}[tool]
    bench.put_tool(tool, f'[[ "$* " != "{call} "* ]] || {{ echo "Error: timed out" >&2; exit 1; }}; exec {real} "$@"')
    done = await bench.run(PLUGIN, "delete.sh")
    assert (done.code, reason in done.errors) == (1, True), done
    assert "is not installed" not in done.out
    assert bench.labelled() == {"n1", "n2"}


def far_node(name: str, runtime: str, *addresses: str) -> JsonObject:
    """A node that is reached by ssh."""
    made = control_plane_node(name)
    made["status"]["addresses"] = [{"type": "InternalIP", "address": each} for each in addresses]
    made["status"]["nodeInfo"]["containerRuntimeVersion"] = runtime
    return made


async def test_a_node_far_away_gets_the_image_as_its_own_runtime_loads_it(bench: Bench) -> None:
    bench.give_image(PLUGIN)
    bench.put_tool("ssh", f'cat >"{bench.root}/got-${{3#*@}}"; echo "$*" >>"{bench.root}/far"')
    bench.site.server.registry.put(far_node("far-1", "cri-o://1.30.1", "192.0.2.1", "2001:db8::1"))
    bench.site.server.registry.put(far_node("far-2", "docker://24.0.0", "2001:db8::2"))
    bench.site.server.registry.put(far_node("far-3", "containerd://1.7.0", "192.0.2.3"))
    done = await bench.run(PLUGIN, "deploy.sh", "--delivery", "load", "--nodes", "all")
    assert done.code == 0, done
    assert (bench.root / "far").read_text().splitlines() == [
        "-p 22 root@192.0.2.1 podman load",
        "-p 22 root@2001:db8::2 docker load",
        "-p 22 root@192.0.2.3 ctr --namespace k8s.io images import -",
    ]
    for address in ("192.0.2.1", "2001:db8::2", "192.0.2.3"):
        assert (bench.root / f"got-{address}").read_bytes() == b"an image"


def put_managers(bench: Bench, name: str) -> None:
    """Put the config managers' DaemonSet, changed once since it was made, and the ConfigMap that they report in."""
    registry = bench.site.server.registry
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MANAGER, "namespace": NAMESPACE}}
    registry.put({**head, "data": {}})
    registry.put(one(rendered(EXTENDER_CHART, f"configManager.name={name}"), "DaemonSet", name))
    changed = {"minReadySeconds": 1}
    key = Key(NAMESPACE, name)
    registry.update(BY_NAME["daemonsets.apps"], key, lambda obj: {**obj, "spec": {**obj["spec"], **changed}})


def report(bench: Bench, name: str, states: Mapping[str, str], status: JsonObject) -> None:
    """Have each node report a state, and the cluster the DaemonSet's status."""
    registry = bench.site.server.registry
    words = {
        f"node.{node}": json.dumps({"state": each, "calls": "none", "reason": ""}) for node, each in states.items()
    }
    registry.update(BY_NAME["configmaps"], Key(NAMESPACE, MANAGER), lambda obj: {**obj, "data": words})
    key = Key(NAMESPACE, name)
    registry.update(BY_NAME["daemonsets.apps"], key, lambda obj: {**obj, "status": status}, status_only=True)


async def wait_for_schedulers(bench: Bench, state: str) -> Outcome:
    lines = (
        f"set -euo pipefail; cd {bench.root}/deploy/lib; . ./common.sh; . ./schedulers.sh",
        f"namespace={NAMESPACE} timeout=1s; wait_for_schedulers {state}",
    )
    return await bench.site.run("bash", "-c", "\n".join(lines))


@pytest.mark.parametrize("name", [MANAGER, "other-name"])
async def test_schedulers_of_nodes_that_are_there_are_waited_for_by_whatever_name_the_managers_have(
    bench: Bench, name: str
) -> None:
    states = {"n1": "changing", "gone": "failed", "n": "recovered"}
    put_managers(bench, name)
    report(bench, name, states, rolled_out(2, 1))
    waiting = await wait_for_schedulers(bench, "recovered")
    assert waiting.code == 1
    assert "after 1s 0 of 1 control-plane nodes are recovered:\nn1 changing" in waiting.out
    assert "gone" not in waiting.out
    report(bench, name, {**states, "n1": "recovered"}, rolled_out(2, 1))
    assert (await wait_for_schedulers(bench, "recovered")).code == 0
