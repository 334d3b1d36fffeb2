"""docs/recipes.md on a real API server and scheduler: quotas, units, priorities, groups, queues, a scaler's figure."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from ruamel.yaml import YAML

from gcushare.cli.nodes_needed.nodes_needed import read_pending
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.cards import Inventory, InventoryCard
from gcushare.core.errors import ForbiddenError
from gcushare.core.quantities import parse_count
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.kube.errors import InvalidError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import PODS, Resource
from gcushare.scheduler_extender.verbs.filter import UNIT_REASON
from gcushare.vendors import ENFLAME
from gcushare.wire.nodes import encode_inventory
from gcushare_playground.picture import POD_OBJECTS, condition_of, node_of
from tests.documents import recipe
from tests.e2e.claims import start_controller_manager
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import JsonObject, card_of, find_overcommitted, node, pod
from tests.e2e.scheduling import PRIORITY_CLASSES, Scheduling
from tests.e2e.waiting import until

POD_GROUPS: Resource[JsonObject] = Resource("apis/scheduling.k8s.io/v1alpha2", "podgroups", dict)
QUOTAS: Resource[JsonObject] = Resource("api/v1", "resourcequotas", dict)
DEPLOYMENTS: Resource[JsonObject] = Resource("apis/apps/v1", "deployments", dict)
RESOURCES: dict[str, Resource[JsonObject]] = {
    "Namespace": Resource("api/v1", "namespaces", dict, namespaced=False),
    "ResourceQuota": QUOTAS,
    "PriorityClass": PRIORITY_CLASSES,
    "PodGroup": POD_GROUPS,
    "Deployment": DEPLOYMENTS,
}
TEAM = "team-a"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control_plane() -> AsyncIterator[ControlPlane]:
    """A control plane with groups, and the controllers of quotas and Deployments."""
    gates = "GenericWorkload=true,GangScheduling=true,SchedulerPopFromBackoffQ=false"
    async with ControlPlane(feature_gates=gates, runtime_config="scheduling.k8s.io/v1alpha2=true") as running:
        controllers = [f"{each}-controller" for each in ("resourcequota", "deployment", "replicaset")]
        await start_controller_manager(running, controllers, "--kube-api-qps=500", "--kube-api-burst=500")
        for document in (*recipe("quota"), *recipe("priorities")):
            await apply(running, document)
        yield running


async def apply(control_plane: ControlPlane, document: JsonObject) -> None:
    """Create an object of a recipe."""
    resource = RESOURCES[document["kind"]]
    namespace = document["metadata"].get("namespace", "default") if resource.namespaced else None
    await control_plane.client.create(resource, document, namespace=namespace)


async def ask_needed(scheduling: Scheduling) -> JsonObject:
    """What is counted for nodes with two cards of 16."""
    found = await read_pending(scheduling.client, ClusterSnapshot(ENFLAME), "2x16", "", Counter())
    return dict(msgspec.to_builtins(found)["classes"][0])


async def refusal_of(control_plane: ControlPlane, body: JsonObject) -> str:
    """Why a pod of the team is refused; empty if it is created, and then it is removed again."""
    try:
        made = await control_plane.client.create(POD_OBJECTS, body, namespace=TEAM)
    except (ForbiddenError, InvalidError) as error:
        return str(error)
    await control_plane.client.delete(PODS, made["metadata"]["name"], namespace=TEAM, grace_s=0)
    return ""


async def test_a_team_gets_units_up_to_its_quota_and_no_whole_card(control_plane: ControlPlane) -> None:
    async def what_is_missing() -> str:
        quota = await control_plane.client.get(QUOTAS, "cards", namespace=TEAM)
        return "" if quota.get("status", {}).get("hard") else "the quota's status"

    await until(what_is_missing, "the quota is in force")
    await control_plane.client.create(POD_OBJECTS, pod("first", 20), namespace=TEAM)
    try:
        said = await refusal_of(control_plane, pod("second", 20))
        assert "exceeded quota: cards, requested: requests.enflame.com/gcu-memory=20" in said
        assert "exceeded quota" in await refusal_of(control_plane, pod("whole", 0, whole=1))
        assert await refusal_of(control_plane, pod("small", 12)) == ""
    finally:
        await control_plane.client.delete(PODS, "first", namespace=TEAM, grace_s=0)


async def test_a_pod_gets_a_node_of_its_unit_alone(scheduling: Scheduling) -> None:
    fine = node("fine", 16)
    card = InventoryCard(index=0, uuid="fine-0", memory_bytes=16 * GIB, units=16_384)
    inventory = Inventory(unit=parse_memory_unit("MiB"), cards=(card,))
    fine["metadata"]["annotations"][ENFLAME.inventory_annotation] = encode_inventory(inventory)
    for part in ("capacity", "allocatable"):
        fine["status"][part] |= {ENFLAME.memory_resource: "16384"}
    await scheduling.create_nodes([fine, node("coarse", 8)])
    (small,) = recipe("unit")
    await scheduling.create_pods([small, pod("plain", 4)])
    await scheduling.until_bound("small", "plain")
    assert (node_of(scheduling.pod("small")), node_of(scheduling.pod("plain"))) == ("fine", "coarse")
    await scheduling.create_pods([pod("large", 6)])
    await scheduling.until_said("large", "FailedScheduling", text=UNIT_REASON)


async def test_production_ends_batch_and_batch_ends_no_one(scheduling: Scheduling) -> None:
    await scheduling.create_nodes([node("node-1", 16)])
    await scheduling.create_pods([pod("filler", 12, priorityClassName="placeholder")])
    await scheduling.until_bound("filler")
    await scheduling.create_pods([pod("patient", 12, priorityClassName="batch")])
    await scheduling.until_said("patient", "FailedScheduling", text="Insufficient enflame.com/gcu-memory")
    await scheduling.create_pods([pod("urgent", 12, priorityClassName="production")])
    await scheduling.until_bound("urgent")
    assert not node_of(scheduling.pod("patient"))
    assert "default/filler" not in scheduling.pods.objects


class TestGroups:
    @staticmethod
    async def create(scheduling: Scheduling, *names: str) -> None:
        """Create groups of three from the page's, all of one moment."""
        group, first = recipe("group")
        for name in names:
            await apply(scheduling.control_plane, {**group, "metadata": {"name": name}})
        pods = []
        for number in range(3):
            for name in names:
                body = copy.deepcopy(first)
                body["metadata"]["name"] = f"{name}-{number}"
                body["spec"]["schedulingGroup"]["podGroupName"] = name
                body["spec"]["terminationGracePeriodSeconds"] = 0
                pods.append(body)
        await scheduling.create_pods(pods)

    @staticmethod
    def bound_groups(scheduling: Scheduling) -> list[str]:
        """The group of every pod that has a node."""
        return sorted(each["metadata"]["name"].rpartition("-")[0] for each in scheduling.bound())

    @staticmethod
    async def forget(scheduling: Scheduling, *names: str) -> None:
        await scheduling.delete_pods()
        for name in names:
            await scheduling.client.delete(POD_GROUPS, name, namespace="default")

    async def test_two_groups_are_placed_one_after_the_other_and_never_by_halves(self, scheduling: Scheduling) -> None:
        """Each needs three cards, and there are three: by sums of units alone, two cards would do."""
        await scheduling.create_nodes([node("node-1", 16, 16)])
        await self.create(scheduling, "left", "right")
        for name in ("left-2", "right-2"):
            await scheduling.until_said(name, "FailedScheduling")
        assert self.bound_groups(scheduling) == []
        await scheduling.create_nodes([node("node-2", 16)])
        await scheduling.until_all_bound(3)
        (first,) = set(self.bound_groups(scheduling))
        for number in range(3):
            await scheduling.client.delete(PODS, f"{first}-{number}", namespace="default", grace_s=0)
        other = "right" if first == "left" else "left"
        await scheduling.until_bound(*(f"{other}-{number}" for number in range(3)))
        assert not find_overcommitted(scheduling.pods.objects.values(), scheduling.nodes.objects.values())
        await self.forget(scheduling, "left", "right")

    async def test_a_group_that_does_not_fit_leaves_its_room_to_others(self, scheduling: Scheduling) -> None:
        await scheduling.create_nodes([node("node-1", 16, 16)])
        await self.create(scheduling, "train")
        await scheduling.until_said("train-2", "FailedScheduling")
        await scheduling.create_pods([pod("single-1", 16), pod("single-2", 16)])
        await scheduling.until_bound("single-1", "single-2")
        assert self.bound_groups(scheduling) == ["single", "single"]
        await self.forget(scheduling, "train")


async def test_kueues_objects_are_what_its_definitions_accept(control_plane: ControlPlane) -> None:
    folder = os.environ.get("KUEUE_CRDS")
    if not folder:
        pytest.skip("name a folder with Kueue's definitions (config/components/crd/bases) in KUEUE_CRDS")
    definitions: Iterable[Path] = sorted(Path(folder).glob("kueue.x-k8s.io_*.yaml"))
    base = f"{control_plane.url}/apis"
    for path in definitions:
        body = YAML(typ="safe").load(path.read_text())
        if body["spec"]["names"]["plural"] in ("resourceflavors", "clusterqueues", "localqueues"):
            body["spec"].pop("conversion", None)  # Its webhook does not run here.
            url = f"{base}/apiextensions.k8s.io/v1/customresourcedefinitions"
            async with control_plane.http.post(url, json=body) as answer:
                assert answer.status == 201, await answer.text()
    plurals = {"ResourceFlavor": "resourceflavors", "ClusterQueue": "clusterqueues"}
    for document in recipe("kueue"):
        version, kind = document["apiVersion"], document["kind"]
        path_of = plurals.get(kind) or f"namespaces/{document['metadata']['namespace']}/localqueues"
        url = f"{base}/{version}/{path_of}?fieldValidation=Strict"

        async def what_is_missing(url: str = url, document: JsonObject = document) -> str:
            async with control_plane.http.post(url, json=document) as answer:
                assert answer.status in (201, 404, 429), await answer.text()
                return "" if answer.status == 201 else "the definition is served"

        await until(what_is_missing, f"{kind} is created")


class TestAutoscaling:
    @staticmethod
    async def scale(scheduling: Scheduling, replicas: int) -> None:
        """What the command of the page does with the figure."""
        patch = Patch(PatchKind.MERGE, {"spec": {"replicas": replicas}})
        await scheduling.client.patch(DEPLOYMENTS, "gcu-nodes", patch, namespace="kube-system")

    @staticmethod
    def placeholders(scheduling: Scheduling) -> list[JsonObject]:
        return [pod for key, pod in scheduling.pods.objects.items() if key.startswith("kube-system/gcu-nodes-")]

    async def test_a_scaler_that_follows_the_count_adds_the_node_that_a_sum_hides(self, scheduling: Scheduling) -> None:
        await scheduling.create_nodes([node("node-1", 16, 16)])
        await scheduling.create_pods([pod("holder-1", 10), pod("holder-2", 10)])
        await scheduling.until_bound("holder-1", "holder-2")
        assert {card_of(scheduling.pod(name)) for name in ("holder-1", "holder-2")} == {(0,), (1,)}
        await scheduling.create_pods([pod("waits", 8)])
        await scheduling.until_said("waits", "FailedScheduling", text="insufficient GCU Memory in one gcu device")
        free = parse_count(scheduling.nodes.objects["node-1"]["status"]["allocatable"][ENFLAME.memory_resource]) - 20
        assert free >= 8, "an autoscaler that adds up takes the pod for one that fits"
        found = await ask_needed(scheduling)
        assert (found["nodes"], found["present"], found["wanted"]) == (1, 1, 2)

        await apply(scheduling.control_plane, recipe("placeholders")[0])
        await self.scale(scheduling, found["wanted"])
        await scheduling.pods.until(
            lambda: (
                sorted(
                    node_of(each) or condition_of(each, "PodScheduled").get("reason", "")
                    for each in self.placeholders(scheduling)
                )
                == ["Unschedulable", "node-1"]
            ),
            "one placeholder is on the node, and one asks for another",
        )
        await scheduling.create_nodes([node("node-2", 16, 16)])  # what an autoscaler does for it
        await scheduling.until_bound("waits")
        await scheduling.pods.until(lambda: all(map(node_of, self.placeholders(scheduling))), "placeholders are bound")
        assert node_of(scheduling.pod("waits")) == "node-2"
        found = await ask_needed(scheduling)
        assert (found["nodes"], found["wanted"]) == (0, 2)
        await scheduling.client.delete(PODS, "waits", namespace="default", grace_s=0)

        async def what_is_missing() -> str:
            found = await ask_needed(scheduling)
            return "" if found["wanted"] == 1 else str(found)

        await until(what_is_missing, "one node is enough")
        await scheduling.client.delete(DEPLOYMENTS, "gcu-nodes", namespace="kube-system")
