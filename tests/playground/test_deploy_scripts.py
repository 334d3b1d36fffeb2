"""deploy.sh and the others with a real kubectl and helm; also with another helm, and with nodes far away."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from gcushare._version import __version__
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.commands import extender_command, port_of
from gcushare_playground.plans import ClusterPlan, Place
from gcushare_playground.processes import Child
from tests.charts import EXTENDER_CHART, HELM, NAMESPACE, UMBRELLA_CHART, one, rendered
from tests.playground.deploy_rig import (
    EXTENDER,
    KUBECTL,
    MANAGER,
    PLUGIN,
    Bench,
    Site,
    config_manager,
    control_plane_node,
    in_order,
    needs_tools,
    rolled_out,
)
from tests.protocol.config_manager_node import until

pytestmark = [needs_tools, pytest.mark.slow]
REPOSITORY = "artifact.enflame.cn/enflame_docker_images/enflame"

QUESTION = (
    "Please enter gcushare node name and separated by space(if all nodes use shared GCU, you can just press Enter)"
)


async def test_the_plugin_is_deployed_as_the_manual_shows(bench: Bench) -> None:
    bench.give_image(PLUGIN)
    bench.fail_once("docker push")
    done = await bench.run(PLUGIN, "deploy.sh", stdin="\n")
    assert done.code == 0, done
    lines = [
        "Try to push component image to enflame repo...\n",
        "push images to repo failed, will load operator image to all nodes\n",
        'cluster nodes: "127.0.0.1" "127.0.0.1"\n',
        "Cluster node name list:\nn1\nn2\n",
        f"{QUESTION}: \n",
        "node/n1 labeled\n",
        "node/n2 labeled\n",
        "deploy gcushare device plugin release start...\n",
        f"NAME: {PLUGIN}\n",
        "STATUS: deployed\n",
    ]
    assert in_order(done.out, lines), done
    assert bench.labelled() == {"n1", "n2"}
    assert [call.split()[3] for call in bench.calls if call.startswith("ctr --namespace")] == ["images", "images"]
    template = bench.site.get("daemonsets.apps", PLUGIN)["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == f"{REPOSITORY}/{PLUGIN}:v{__version__}"
    assert len(template["metadata"]["annotations"]["gcushare.io/image"]) == 16


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(("--delivery", "none"), "no answer was given which nodes share their cards", id="no-answer"),
        pytest.param(("--delivery", "none", "--nodes", "n3"), "not every one of these is a node: n3", id="no-node"),
        pytest.param(("--delivery", "none", "--memory-unit", "2"), "do not fit the chart", id="unit"),
        pytest.param(("--nodes", "all"), "there is no image file", id="no-image"),
    ],
)
async def test_a_deployment_stops_before_the_release_and_says_what_to_do(
    bench: Bench, words: tuple[str, ...], reason: str
) -> None:
    done = await bench.run(PLUGIN, "deploy.sh", *words)
    assert done.code == 1
    assert reason in done.errors
    assert "what to do: " in done.errors
    assert bench.site.names("daemonsets.apps") == set()
    assert bench.labelled() == set()


async def test_a_node_that_could_not_be_loaded_is_where_the_next_run_goes_on(bench: Bench) -> None:
    bench.give_image(PLUGIN)
    bench.site.server.registry.put(control_plane_node("n0"))
    bench.fail_once("nothing", "ctr --namespace k8s.io images import")
    failed = await bench.run(PLUGIN, "deploy.sh", "--delivery", "load", "--nodes", "all")
    assert failed.code == 1
    assert "could not be loaded on this machine (n0)" in failed.errors
    assert "continues from here" in failed.errors
    bench.fail_once("nothing")
    again = await bench.run(PLUGIN, "deploy.sh", "--delivery", "load", "--nodes", "all")
    assert again.code == 0, again
    third = await bench.run(PLUGIN, "deploy.sh", "--delivery", "load", "--nodes", "all")
    assert "has the image already" not in third.out, "a kubelet may have removed it since"
    assert "has been upgraded" in third.out


@pytest.mark.parametrize("package", [PLUGIN, EXTENDER])
async def test_what_another_release_installed_is_left_to_it(bench: Bench, package: str) -> None:
    await bench.site.helm("install", "gcushare", UMBRELLA_CHART)
    wish = bench.site.get("configmaps", MANAGER)["data"]["mode"]
    for script in ("delete.sh", "deploy.sh"):
        done = await bench.run(package, script)
        assert done.code == 1, done
        assert f"{package} belongs to the helm release gcushare" in done.errors
        assert f"helm uninstall gcushare -n {NAMESPACE}" in done.errors
    assert bench.site.get("configmaps", MANAGER)["data"]["mode"] == wish
    assert bench.labelled() == set()


async def test_the_extender_is_deployed_followed_and_deleted_with_the_scheduler_put_back(bench: Bench) -> None:
    async with config_manager(bench.site, "n1") as host:
        before = host.manifest.read_bytes()
        done = await bench.run(EXTENDER, "deploy.sh", "--delivery", "none", "--set", "autoscaling.startupTaint=true")
        assert done.code == 0, done
        assert in_order(
            done.out,
            [
                "deploy gcushare scheduler extender release start...\n",
                f"NAME: {EXTENDER}\n",
                "start modify scheduler config...\n",
                "check current k8s cluster version is v",
                "copy scheduler extender config file success, for detail, see /etc/kubernetes/",
                "stat /etc/kubernetes/kube-scheduler.back.yaml: no such file or directory\n",
                "backup kube-scheduler.yaml success, for detail, see /etc/kubernetes/kube-scheduler.back.yaml\n",
                "modify scheduler pod yaml template success, for detail, see /etc/kubernetes/kube-scheduler.yaml\n",
                "modify kube-scheduler config finish, for detail, see /etc/kubernetes/manifests/kube-scheduler.yaml\n",
                "node n1: kube-scheduler calls the extender\n",
            ],
        ), done
        address = bench.site.get("services", EXTENDER)["spec"]["clusterIP"]
        assert await host.config_has(f"http://{address}:32766/gcushare-scheduler".encode())
        deleted = await bench.run(EXTENDER, "delete.sh")
        assert deleted.code == 0, deleted
        assert in_order(
            deleted.out,
            [
                "start recover scheduler config...\n",
                "check current k8s cluster version is v",
                "recover default scheduler success, for detail, see /etc/kubernetes/manifests/kube-scheduler.yaml\n",
                "stat /etc/kubernetes/kube-scheduler.back.yaml: no such file or directory\n",
                "stat /etc/kubernetes/kube-scheduler.yaml: no such file or directory\n",
                "stat /etc/kubernetes/scheduler-extender-config.json: no such file or directory\n",
                "stat /etc/kubernetes/scheduler-extender-config-v1.23+.yaml: no such file or directory\n",
                "delete all scheduler config file success, for detail, see /etc/kubernetes\n",
                f"uninstall gcushare scheduler extender release in namespace:{NAMESPACE} start...\n",
                f'release "{EXTENDER}" uninstalled\n',
            ],
        ), deleted
        assert host.manifest.read_bytes() == before
    assert bench.site.names("deployments.apps") == set()
    assert bench.site.names("leases.coordination.k8s.io") == set()


async def test_nothing_is_uninstalled_while_a_scheduler_is_not_put_back(bench: Bench) -> None:
    deploying = asyncio.create_task(bench.run(EXTENDER, "deploy.sh", "--delivery", "none", "--timeout", "3s"))
    server = bench.site.server
    await server.store.until(lambda: bench.site.find("configmaps", MANAGER))
    failed = json.dumps({"state": "failed", "reason": "no kube-scheduler process is to be seen"})
    data = {"mode": "apply", "node.n1": failed}
    server.registry.update(BY_NAME["configmaps"], Key(NAMESPACE, MANAGER), lambda obj: {**obj, "data": data})
    deployed = await deploying
    assert deployed.code == 1
    assert "no kube-scheduler process is to be seen" in deployed.out
    deleted = await bench.run(EXTENDER, "delete.sh", "--timeout", "1s")
    assert deleted.code == 1
    assert "nothing was uninstalled" in deleted.errors
    assert bench.site.names("deployments.apps") == {EXTENDER}
    forced = await bench.run(EXTENDER, "delete.sh", "--timeout", "1s", "--force")
    assert forced.code == 0, forced
    assert bench.site.names("deployments.apps") == set()


@asynccontextmanager
async def extender(site: Site) -> AsyncIterator[str]:
    """Run the real extender; its address."""
    place = Place(site.folder / "extender")
    place.logs.mkdir(parents=True)
    site.server.kubeconfig(place.kubeconfig)
    child = Child(extender_command(ClusterPlan(nodes=()), place))
    try:
        url = await child.start()

        async def answers() -> bool:
            return (await site.run("curl", "--silent", "--fail", f"{child.addresses[1]}/readyz")).code == 0

        await until(answers, "the extender is ready")
        yield url
    finally:
        await child.stop()


def put_service(site: Site, url: str) -> None:
    """Put the Service through which the API server reaches the extender."""
    head = {"apiVersion": "v1", "metadata": {"name": EXTENDER, "namespace": NAMESPACE}}
    site.server.registry.put({**head, "kind": "Service", "spec": {"ports": [{"name": "http", "port": 32766}]}})
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "http", "port": port_of(url)}]}
    site.server.registry.put({**head, "kind": "Endpoints", "subsets": [subset]})


@pytest.mark.parametrize("is_direct", [True, False], ids=["with an old curl", "through the API server"])
async def test_inspect_shows_the_document_and_the_extenders_own_words(bench: Bench, is_direct: bool) -> None:
    bench.put_tool("curl", f'[[ " $* " != *" --fail-with-body "* ]] || exit 2; exec {shutil.which("curl")} "$@"')
    async with extender(bench.site) as url:
        put_service(bench.site, url)
        words = ("--url", url) if is_direct else ()
        whole = await bench.run(EXTENDER, "inspect.sh", *words)
        unknown = await bench.run(EXTENDER, "inspect.sh", *words, "n9")
    assert whole.code == 0, whole
    first, _, document = whole.out.partition("\n")
    assert first == "inspect GCU usage of all nodes from scheduler cache"
    assert "nodes" in json.loads(document)
    assert unknown.code == 1
    assert "error: node 'n9' has no GCU cards that the scheduler extender knows of\n" in unknown.errors


async def test_what_helm_test_asks_is_answered_by_the_extender(bench: Bench) -> None:
    pod = one(rendered(EXTENDER_CHART), "Pod", f"{EXTENDER}-test")
    *python, _ = pod["spec"]["containers"][0]["command"]
    async with extender(bench.site) as url:
        done = await bench.site.run(sys.executable, *python[1:], url)
    assert done.code == 0, done
    asked = [line.split()[:2] for line in done.out.splitlines() if line.startswith("/")]
    assert asked == [["/version", "200"], ["/gcushare-scheduler/inspect", "200"]]


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
    bench.site.server.registry.put(far_node("far-3", "containerd://2.0.5-k3s1", "192.0.2.3"))
    windows = far_node("win", "containerd://1.7.0", "192.0.2.4")
    windows["metadata"]["labels"]["kubernetes.io/os"] = "windows"
    bench.site.server.registry.put(windows)
    done = await bench.run(PLUGIN, "deploy.sh", "--delivery", "load", "--nodes", "all")
    assert done.code == 0, done
    assert "win" not in bench.labelled()
    *others, k3s = (bench.root / "far").read_text().splitlines()
    assert others == ["-p 22 root@192.0.2.1 podman load", "-p 22 root@2001:db8::2 docker load"]
    assert "k3s) ctr --address /run/k3s/containerd/containerd.sock --namespace k8s.io images import -" in k3s
    for address in ("192.0.2.1", "2001:db8::2", "192.0.2.3"):
        assert (bench.root / f"got-{address}").read_bytes() == b"an image"


@pytest.mark.parametrize("name", [MANAGER, "other-name"])
async def test_schedulers_of_nodes_that_are_there_are_waited_for_by_whatever_name_the_managers_have(
    bench: Bench, name: str
) -> None:
    registry = bench.site.server.registry
    registry.put(one(rendered(EXTENDER_CHART, f"configManager.name={name}"), "DaemonSet", name))
    key, reports = Key(NAMESPACE, name), Key(NAMESPACE, MANAGER)
    status = rolled_out(1, 1)
    registry.update(BY_NAME["daemonsets.apps"], key, lambda obj: {**obj, "status": status}, status_only=True)
    registry.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MANAGER, "namespace": NAMESPACE}})
    unreadable = 'kubectl() { [ "$2" != configmap ] && command kubectl "$@"; }'
    for state, code, broken in (("changing", 1, ""), ("recovered", 0, ""), ("", 2, ""), ("recovered", 1, unreadable)):
        states = {"n1": state, "gone": "failed", "n": "recovered"} if state else {}
        data = {f"node.{node}": json.dumps({"state": each, "reason": ""}) for node, each in states.items()}
        registry.update(BY_NAME["configmaps"], reports, partial(dict, data=data))
        lines = (
            f"set -euo pipefail; cd {bench.root}/deploy/lib; . ./common.sh; . ./schedulers.sh",
            *(broken, f"namespace={NAMESPACE} timeout=1s; wait_for_schedulers recovered || exit $?"),
        )
        done = await bench.site.run("bash", "-c", "\n".join(lines))
        assert done.code == code, done
        assert "gone" not in done.out
        assert ("0 of 1 control-plane nodes are recovered:\nn1 changing" in done.out) == (state == "changing"), done
