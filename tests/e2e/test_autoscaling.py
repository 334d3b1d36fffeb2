"""What Cluster Autoscaler reads of nodes with cards: the extender's writes on the Nodes of a real API server."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import PODS
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import KEPT_MARK, SCALE_DOWN_DISABLED, STARTUP_TAINT
from gcushare_playground.picture import NODE_OBJECTS
from tests.e2e.objects import JsonObject, node, pod
from tests.e2e.scheduling import Scheduling

OURS = {SCALE_DOWN_DISABLED: "true", KEPT_MARK: "enflame"}


def noted(scheduling: Scheduling, name: str) -> Mapping[str, str]:
    """What of the two annotations a node has."""
    annotations = scheduling.nodes.objects[name]["metadata"].get("annotations", {})
    return {key: annotations[key] for key in OURS if key in annotations}


async def until_noted(scheduling: Scheduling, name: str, wanted: Mapping[str, str]) -> None:
    await scheduling.nodes.until(
        lambda: noted(scheduling, name) == wanted, f"{name} has {wanted}", shown=lambda: str(noted(scheduling, name))
    )


async def change(scheduling: Scheduling, name: str, body: JsonObject, subresource: str | None = None) -> None:
    await scheduling.client.patch(NODE_OBJECTS, name, Patch(PatchKind.MERGE, body), subresource=subresource)


async def test_a_node_is_kept_from_scale_down_as_long_as_a_pod_holds_its_cards(scheduling: Scheduling) -> None:
    await scheduling.create_nodes([node("busy", 16)])
    await scheduling.create_pods([pod("first", 10)])
    await scheduling.until_bound("first")
    await scheduling.create_nodes([node("idle", 8)])
    await until_noted(scheduling, "busy", OURS)
    await scheduling.extender.kill()
    await scheduling.client.delete(PODS, "first", namespace="default", grace_s=0)
    await scheduling.start_extender()
    await until_noted(scheduling, "busy", {})
    assert noted(scheduling, "idle") == {}


async def test_a_node_that_is_not_ready_is_left_to_the_autoscaler(scheduling: Scheduling) -> None:
    await scheduling.create_nodes([node("node-1", 16)])
    await scheduling.create_pods([pod("first", 10)])
    await until_noted(scheduling, "node-1", OURS)
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    await change(scheduling, "node-1", {"status": {"conditions": [silent]}}, "status")
    await until_noted(scheduling, "node-1", {})


async def test_the_annotation_of_an_admin_stays_whatever_it_says(scheduling: Scheduling) -> None:
    nodes = [node(name, 16) for name in ("pinned", "movable")]
    for each, value in zip(nodes, ("true", "false"), strict=True):
        each["metadata"]["annotations"][SCALE_DOWN_DISABLED] = value
    await scheduling.create_nodes([*nodes, node("taken-over", 16)])
    await scheduling.create_pods([pod(f"pod-{number}", 16) for number in range(3)])
    await scheduling.until_all_bound(3)
    await until_noted(scheduling, "taken-over", OURS)
    await change(scheduling, "taken-over", {"metadata": {"annotations": {SCALE_DOWN_DISABLED: "false"}}})
    await until_noted(scheduling, "taken-over", {SCALE_DOWN_DISABLED: "false"})
    await scheduling.delete_pods()
    await scheduling.create_nodes([node("last", 16)])
    await scheduling.create_pods([pod("later", 16, nodeSelector={"kubernetes.io/hostname": "last"})])
    await until_noted(scheduling, "last", OURS)
    assert noted(scheduling, "pinned") == {SCALE_DOWN_DISABLED: "true"}
    assert noted(scheduling, "movable") == {SCALE_DOWN_DISABLED: "false"}


async def test_the_startup_taint_goes_when_the_cards_are_offered_and_other_taints_stay(scheduling: Scheduling) -> None:
    whole = node("new", 16)
    other = {"key": "example.com/other", "value": "x", "effect": "PreferNoSchedule"}
    bare = node("new")
    del bare["metadata"]["annotations"]
    bare["spec"] = {"taints": [other, {"key": STARTUP_TAINT, "effect": "NoSchedule"}]}
    await scheduling.create_nodes([bare])
    await scheduling.create_pods([pod("waits", 10)])
    inventory = {"metadata": {"annotations": whole["metadata"]["annotations"]}}
    await change(scheduling, "new", inventory)
    await scheduling.until_said("waits", "FailedScheduling")
    assert len(scheduling.nodes.objects["new"]["spec"]["taints"]) == 2, "the kubelet does not count the cards yet"
    resources = {key: whole["status"][key] for key in ("capacity", "allocatable")}
    assert ENFLAME.memory_resource in resources["allocatable"]
    await change(scheduling, "new", {"status": resources}, "status")
    await scheduling.until_bound("waits")
    assert scheduling.nodes.objects["new"]["spec"]["taints"] == [other]
