"""The whole system with nothing but the rights that the charts grant: no right is missing, and none is unused."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from gcushare.core.cards import SERVES_CLAIMS
from gcushare.core.errors import GcushareError
from gcushare.core.units import GIB
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.connection.config import find_api_server
from gcushare.kube.events import EventRecorder, RecorderLimits
from gcushare.kube.resources import NAMESPACES
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import ROOM_FOUND
from gcushare.wire.objects import ObjectReference
from gcushare_playground.apiserver import DropAfter, Fault, RbacAuthorizer, service_account
from gcushare_playground.cluster import Cluster
from gcushare_playground.picture import POD_OBJECTS
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.charts import NAMESPACE, UMBRELLA_CHART, Object, granted, needs_helm, of_kind, rendered
from tests.extender_objects import node_document
from tests.playground.deploy_rig import MANAGER, Site, config_manager, until_applied
from tests.protocol.extender_rig import until
from tests.running import running
from tests.unit.apiserver_objects import memory_pod

EXTENDER, PLUGIN, READER = "gcushare-scheduler-extender", "gcushare-device-plugin", "gcushare-dashboard"
UNINSTALLER, CLEANUP = f"{MANAGER}-uninstall", f"{PLUGIN}-cleanup"
ACCOUNTS = (EXTENDER, PLUGIN, MANAGER, UNINSTALLER, CLEANUP)
NODE = "n1"
ELECTION = ("--lease-namespace", NAMESPACE)
# The scheduler double calls over plain HTTP.
MUTUAL_TLS = (*("--verbs", "both", "--verbs-port", "0", "--verbs-secret", f"{NAMESPACE}/{EXTENDER}-verbs"),)
PLAN = ClusterPlan(
    nodes=(NodePlan(name=NODE, card_bytes=(16 * GIB, 16 * GIB)),),
    wait_factor=0.1,
    dashboard="token",
    extender_flags=(*ELECTION, *MUTUAL_TLS),
)
# One group: the scenario is run once, in one worker.
pytestmark = [needs_helm, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("rights"), pytest.mark.slow]


def objects_to_store() -> Iterator[Object]:
    """The rights, and what the programs look for by name."""
    kinds = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "Service", "Secret")
    for each in of_kind(rendered(UMBRELLA_CHART), *kinds):
        yield {key: value for key, value in each.items() if key != "status"}
    for each in of_kind(rendered(UMBRELLA_CHART), "ConfigMap"):
        report = {f"node.{NODE}": '{"state": "applied", "reason": ""}'} if each["metadata"]["name"] == MANAGER else {}
        yield {**each, "data": {**each["data"], **report}}


async def run_program(site: Site, account: str, *words: str) -> None:
    done = await site.run(
        sys.executable, "-m", *words, KUBECONFIG=str(site.token_file(account)), POD_NAMESPACE=NAMESPACE
    )
    assert done.code in (0, 1), done
    assert "Forbidden" not in done.errors, done


async def repeat_an_event(site: Site, account: str) -> None:
    """Post an event twice: the programs' recorder waits a minute before it writes the second time."""
    config = find_api_server(str(site.token_file(account)))
    about = ObjectReference(kind="Node", name=NODE, uid=NODE, api_version="v1")
    async with KubeClient(config) as client:
        recorder = EventRecorder(client, account, limits=RecorderLimits(interval_s=0.0), clock=SystemClock())
        async with running(recorder.run(), "recorder"):
            for count in (1, 2):
                recorder.record(about, "Tested", "twice")
                await recorder.drain(10.0)
                assert recorder.counters["posted"] == count


async def place_pods(cluster: Cluster) -> None:
    """One pod that fits, one whose binding is not answered, one that fits nowhere."""
    cluster.doubles.api.faults.on(Fault(DropAfter(), path="/pods/unanswered/binding", count=1))
    for name, units in (("first", 4), ("unanswered", 8), ("large", 20)):
        await cluster.client.create(POD_OBJECTS, memory_pod(name, units), namespace="default")
    assigned = ENFLAME.record.assigned

    def is_done() -> bool:
        found = [cluster.pods.objects.get(f"default/{name}", {}) for name in ("first", "unanswered")]
        return all(each.get("metadata", {}).get("annotations", {}).get(assigned) == "true" for each in found)

    await cluster.pods.until(is_done, "both pods are assigned")


async def let_a_pod_end_for_a_more_important_one(cluster: Cluster) -> None:
    for name, priority in (("lower", 0), ("urgent", 1)):
        wanted = memory_pod(name, 16)
        wanted["spec"]["priority"] = priority
        await cluster.client.create(POD_OBJECTS, wanted, namespace="default")
        await cluster.pods.until(partial(is_scheduled, cluster, name, "True"), f"{name} is scheduled", deadline_s=60.0)
    assert "default/lower" not in cluster.pods.objects
    await cluster.client.delete(POD_OBJECTS, "urgent", namespace="default")


async def make_room_that_the_scheduler_does_not_see(cluster: Cluster) -> None:
    """A pod that fits in sum but on no card fits after a deletion; the scheduler is gone, so the extender notes it."""
    for name, units, condition in (("filler", 14, "True"), ("refused", 5, "False")):
        await cluster.client.create(POD_OBJECTS, memory_pod(name, units), namespace="default")
        await cluster.pods.until(
            partial(is_scheduled, cluster, name, condition), f"PodScheduled of {name} is {condition}", deadline_s=60.0
        )
    await cluster.doubles.scheduler.__aexit__(None, None, None)
    await cluster.client.delete(POD_OBJECTS, "filler", namespace="default")
    await cluster.pods.until(
        lambda: ROOM_FOUND in cluster.pods.objects["default/refused"]["metadata"].get("annotations", {}),
        "room is noted on the refused pod",
        deadline_s=60.0,
    )


def is_scheduled(cluster: Cluster, name: str, status: str) -> bool:
    conditions = cluster.pods.objects.get(f"default/{name}", {}).get("status", {}).get("conditions", ())
    return any(each["type"] == "PodScheduled" and each["status"] == status for each in conditions)


async def look_at_the_page(cluster: Cluster) -> None:
    """With the token that the notes of the chart tell admins to make."""
    token = cluster.doubles.api.add_user(service_account(NAMESPACE, READER))
    headers = {"Authorization": f"Bearer {token}"}
    async with cluster.http.get(f"{cluster.page_url}/dashboard/api/cluster", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        assert [node["name"] for node in (await answer.json())["nodes"]] == [NODE]


async def meet_a_node_that_serves_claims(site: Site) -> None:
    """From then on the extender watches claims."""
    node = node_document("serves-claims", 16, modes=(SERVES_CLAIMS,))
    site.server.registry.put({"apiVersion": "v1", "kind": "Node", **node})
    watch = ("resource.k8s.io", "resourceclaims", "watch")
    await until(lambda: watch in site.server.requests.used(user(EXTENDER)))


async def configure_and_recover(site: Site) -> None:
    async with config_manager(site, NODE) as host:
        await until_applied(site, NODE)
        # As in its pod, which has no /proc of the host: it looks for the mirror pod.
        (host.root / "proc").unlink()
        await run_program(
            site, MANAGER, "gcushare.config_manager", "status", f"--host-root={host.root}", f"--node-name={NODE}"
        )
        (host.root / "proc").symlink_to("/proc")
        await run_program(site, UNINSTALLER, "gcushare.config_manager", "uninstall", "--wait-timeout=20s")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def after(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The API server after everything that the programs do was done once."""
    async with Cluster(PLAN) as cluster:
        await cluster.start_api_server()
        api = cluster.doubles.api
        for each in objects_to_store():
            api.registry.put(each)
        api.authorizer = RbacAuthorizer(api.store)
        folder: Path = tmp_path_factory.mktemp("rights")
        site = Site(api, folder, api.kubeconfig(folder / "admin.kubeconfig"))
        try:
            await cluster.start_kubelets()
            claiming = memory_pod("claims-a-device", 1)
            del claiming["spec"]["containers"][0]["resources"]
            claiming["spec"] |= {"nodeName": NODE, "resourceClaims": [{"name": "it", "resourceClaimName": "a-device"}]}
            await cluster.client.create(POD_OBJECTS, claiming, namespace="default")
            # Each program reads the file when it starts: its own token, with its node's name for the plugin.
            api.kubeconfig(cluster.place.kubeconfig, service_account(NAMESPACE, EXTENDER), namespace=NAMESPACE)
            await cluster.start_extender()
            api.kubeconfig(cluster.place.kubeconfig, service_account(NAMESPACE, PLUGIN, node=NODE))
            await cluster.start_plugins(PLAN.nodes)
            await cluster.start_scheduler()
            await cluster.wait_ready()
            await place_pods(cluster)
            await let_a_pod_end_for_a_more_important_one(cluster)
            await make_room_that_the_scheduler_does_not_see(cluster)
            await look_at_the_page(cluster)
            for account in (EXTENDER, PLUGIN):
                await repeat_an_event(site, account)
            await configure_and_recover(site)
            await run_program(site, CLEANUP, "gcushare.cli.uninstall", "--vendor=enflame")
            await meet_a_node_that_serves_claims(site)
        except BaseException as error:
            error.add_note(cluster.describe_programs())
            raise
        yield site


def user(account: str) -> str:
    return service_account(NAMESPACE, account).name


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_no_right_is_missing(after: Site, account: str) -> None:
    assert after.server.requests.refused(user(account)) == []
    assert list(after.server.requests.of(user(account)))


@pytest.mark.parametrize("account", ACCOUNTS)
async def test_no_right_is_unused(after: Site, account: str) -> None:
    assert granted(account) - after.server.requests.used(user(account)) == set()


async def test_a_right_that_is_not_granted_would_be_missed(after: Site) -> None:
    config = find_api_server(str(after.token_file("gcushare-stranger")))
    async with KubeClient(config) as client:
        with pytest.raises(GcushareError, match="403"):
            await client.get(NAMESPACES, NAMESPACE)
    assert [each.resource for each in after.server.requests.refused(user("gcushare-stranger"))] == ["namespaces"]
