"""Findings about nodes, plugins, inventories and pods: each is made to happen, and nothing else is found."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.core.cards import (
    BOTH_MODES,
    SERVES_CLAIMS,
    SERVES_MEMORY,
    Health,
    Inventory,
    InventoryCard,
    UnrecordedHolder,
)
from gcushare.core.units import parse_memory_unit
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL, STARTUP_TAINT
from gcushare.wire.documents.plugin_status import PodOnNode
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.pods import MACHINE_UID, MIRROR
from gcushare_playground.apiserver.objects import JsonObject
from tests.builders import card, cards
from tests.extender_objects import inventory_text, pod_document
from tests.neighbours import read_objects
from tests.protocol import doctor_troubles as when
from tests.protocol.doctor_rig import LABEL, NODE, PLUGIN, SCHEDULER, SYSTEM, DoctorRig, node_object, record

INVENTORY = ENFLAME.inventory_annotation
MEMORY, COUNT = ENFLAME.memory_resource, ENFLAME.count_resource
WHOLE = ENFLAME.whole_card_resource
PLUGIN_GONE = when.without("pods", PLUGIN, SYSTEM)
OTHER = "n2"


def set_inventory(rig: DoctorRig, offered: list[InventoryCard]) -> None:
    text = inventory_text(offered)
    rig.change_node(lambda node: node["metadata"]["annotations"].update({INVENTORY: text}))


# Plugins


def plugin_that_crashes(rig: DoctorRig) -> None:
    crashed = [{"name": "gcushare-device-plugin", "restartCount": 17}]
    state = {"phase": "Pending", "reason": "CrashLoopBackOff", "containerStatuses": crashed}
    rig.change("pods", PLUGIN, lambda pod: pod["status"].update(state), SYSTEM)


def plugin_of_a_node_that_is_away(rig: DoctorRig) -> None:
    rig.plugin.pages.clear()
    rig.change_node(lambda node: node["status"].update(conditions=[{"type": "Ready", "status": "Unknown"}]))


# Inventories


def sick_card(rig: DoctorRig) -> None:
    sick = msgspec.structs.replace(card(1), health=Health.UNHEALTHY, reason="double-bit ECC error")
    set_inventory(rig, [card(0), sick])
    rig.set_units("16", "allocatable")


def lost_card(rig: DoctorRig) -> None:
    set_inventory(rig, [card(0)])


@pytest.mark.parametrize("scenario", [sick_card, lost_card])
async def test_what_pods_hold_of_a_card_in_trouble_is_counted_by_the_kubelet(
    rig: DoctorRig, scenario: when.Scenario
) -> None:
    scenario(rig)
    before = (await rig.examine()).kinds
    holder = PodOnNode(
        pod="default/holder", uid="uid-holder", units=10, recorded_cards=(1,), assigned=True,
        held_by_card={1: 10}, containers={"main": {1: 10}}, unconfirmed=(),
    )  # fmt: skip
    rig.set_status(pods=[msgspec.to_builtins(holder, str_keys=True)])
    rig.set_units("32" if scenario is sick_card else "26")
    rig.set_units("26", "allocatable")
    assert (await rig.examine()).kinds == before - {"error inventory-capacity"}


def holder_without_a_record(rig: DoctorRig) -> None:
    holders = (UnrecordedHolder(pod="default/odd", units={1: 12}),)
    inventory = Inventory(unit=parse_memory_unit("1"), cards=(card(0), card(1)), unrecorded=holders)
    text = encode_inventory(inventory)
    rig.change_node(lambda node: node["metadata"]["annotations"].update({INVENTORY: text}))


def node_no_longer_shared(rig: DoctorRig) -> None:
    """Another node keeps its inventory and its capacity after label and plugin went."""
    rig.put(node_object(OTHER, cards(16), zone="a"))
    rig.change_node(lambda node: node["status"]["capacity"].pop(COUNT), OTHER)
    rig.change_node(lambda node: node["status"]["capacity"].update({MEMORY: "16"}), OTHER)


# Neighbours


def node_with_enflames_gcushare(rig: DoctorRig) -> None:
    node, *_ = read_objects("enflame-gcushare")
    rig.change_node(lambda found: found["status"]["capacity"].update({"enflame.com/shared-gcu": "12"}))
    rig.change_node(lambda found: found["metadata"]["annotations"].update(node["metadata"]["annotations"]))


def waiting_for(rig: DoctorRig, name: str, *, is_tried: bool, age_s: float = 600.0, units: str = "4") -> None:
    pod = pod_document("sent-elsewhere", units)
    pod["spec"]["schedulerName"] = name
    tried = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    rig.put_pod(pod, age_s=age_s, phase="Pending", conditions=tried if is_tried else [])


def node_that_keeps_its_startup_taint(rig: DoctorRig) -> None:
    rig.change_node(lambda node: node["metadata"].update(creationTimestamp="2026-01-01T00:00:00Z"))
    rig.change_node(
        lambda node: node.setdefault("spec", {}).update(taints=[{"key": STARTUP_TAINT, "effect": "NoSchedule"}])
    )


def node_of_the_go_gcushare(rig: DoctorRig) -> None:
    PLUGIN_GONE(rig)
    rig.change_node(lambda node: node["metadata"].update(annotations={}, labels={}))


def serve(rig: DoctorRig, *modes: str, counted: str = "2") -> None:
    """The node's plugin serves this; the kubelet counts so many whole cards."""
    text = inventory_text(cards(16, 16), modes=modes)
    rig.change_node(lambda node: node["metadata"]["annotations"].update({INVENTORY: text}))
    rig.change_node(lambda node: node["status"]["capacity"].update({WHOLE: counted}))
    if SERVES_MEMORY not in modes:
        rig.set_units(None)
        rig.set_units(None, "allocatable")


def of_two_plugins(rig: DoctorRig) -> None:
    serve(rig, *BOTH_MODES, counted="4")


WITH_A_POD = when.at_once(
    node_no_longer_shared, lambda rig: rig.put_asking("holder", 4, node=OTHER, record=record(0, 4))
)
WITHOUT_A_RECORD = when.at_once(
    lambda rig: serve(rig, *BOTH_MODES), lambda rig: rig.put_asking("owner", None, node=NODE, whole=1)
)


@when.troubles(
    (PLUGIN_GONE, "error node-without-plugin", "enflame.com/gcushare=true"),
    (plugin_that_crashes, "error plugin-not-running", "CrashLoopBackOff; restarts: 17"),
    (lambda rig: rig.plugin.pages.clear(), "error plugin-unreachable", "404"),
    (plugin_of_a_node_that_is_away, "warning plugin-unreachable", "the node is not ready"),
    (lambda rig: rig.plugin.pages.update({"/status": "<html>"}), "error plugin-unreachable", "cannot be read"),
    (when.saying(registration="unknown resource"), "error plugin-not-registered", "unknown resource"),
    (when.saying(cards="libefml.so was not found"), "error plugin-problem", "libefml.so"),
    (when.saying(node="it could not be written: forbidden"), "warning plugin-problem", "forbidden"),
    (when.counting(None), "error plugin-not-registered", "32 units"),
    (when.counting("0", "0"), "error units-zero", "32 units"),
    (when.annotated(INVENTORY, '{"version": 2, "unit": "1", "cards": []}'), "error inventory-unreadable", "version 2"),
    (when.counting("24", "24"), "error inventory-capacity", "the kubelet counts 24"),
    (when.counting("32", "9"), "error inventory-capacity", "9 of them allocatable"),
    (sick_card, "warning sick-card", "double-bit ECC error; its 16 units"),
    (holder_without_a_record, "warning unrecorded-holder", "default/odd was given 12 units and 0 whole cards"),
    (when.annotated(ENFLAME.cordon_annotation, "7"), "warning cordon-unknown-card", "names 7"),
    (when.labelled("gcushare.io/serve", "claim"), "warning unread-key", "only 'claims' has an effect"),
    (when.labelled("gcushare.io/node-group", "a10"), "warning node-group", "those of the nodes of no group"),
    (
        when.labelled("cloud.google.com/gke-accelerator", "x"),
        "warning autoscaler-gpu-label",
        "/gke-accelerator and offers no",
    ),
    (node_that_keeps_its_startup_taint, "error startup-taint-stays", "no pod is placed there"),
    (node_no_longer_shared, "warning stale-inventory", INVENTORY),
    (WITH_A_POD, "warning stale-inventory", "records of 1 pod are still here, such as d"),
    (node_with_enflames_gcushare, "error other-sharing-system", "Enflame's gcushare 3.6"),
    (lambda rig: rig.put_pod(read_objects("hami-enflame")[-1]), "error other-scheduler", "for hami-scheduler"),
    (node_of_the_go_gcushare, "warning other-sharing-system", "32 enflame.com/gcu-memory and no inventory"),
    (of_two_plugins, "error whole-card-count", "serves 2 whole cards, the kubelet counts 4"),
    (WITHOUT_A_RECORD, "warning unrecorded-pod", "asks for 1 enflame.com/gcu"),
)
async def test_each_trouble_is_found_and_nothing_else(
    rig: DoctorRig, scenario: when.Scenario, kind: str, words: str
) -> None:
    scenario(rig)
    (await rig.examine()).assert_only(kind, words)


async def test_a_static_pod_that_holds_units_is_no_trouble_and_a_false_mirror_neither(rig: DoctorRig) -> None:
    for name in ("odd", "false"):
        rig.put_asking(name, 12, node=NODE, annotations={MIRROR: "x", MACHINE_UID: "x"})
    holder_without_a_record(rig)
    assert (await rig.examine()).kinds == set()


@pytest.mark.parametrize(
    ("name", "is_tried", "age_s", "found"),
    [
        pytest.param("volcano", True, 600, "waits for volcano", id="that of another system"),
        pytest.param("defualt-scheduler", False, 600, "no scheduler of that name has tried them", id="misspelt"),
        pytest.param("defualt-scheduler", False, 5, "", id="too young to be tried"),
        pytest.param("batch", True, 600, "", id="one that may call us"),
        pytest.param("default-scheduler", False, 600, "", id="the cluster's own"),
    ],
)
async def test_pods_that_wait_for_a_scheduler_that_does_not_place_them_are_found(
    rig: DoctorRig, name: str, is_tried: bool, age_s: float, found: str
) -> None:
    waiting_for(rig, name, is_tried=is_tried, age_s=age_s)
    if found:
        (await rig.examine()).assert_only("error other-scheduler", found)
    else:
        assert (await rig.examine()).kinds == set()


async def test_a_cluster_of_nodes_with_one_card_needs_no_extender_unless_a_scheduler_calls_one(rig: DoctorRig) -> None:
    set_inventory(rig, cards(16))
    for part in ("capacity", "allocatable"):
        rig.set_units("16", part)
    when.NO_EXTENDER(rig)
    missing = "error extender-missing"
    assert missing in (await rig.examine()).kinds, "the scheduler's configuration names one"
    rig.change("pods", SCHEDULER, lambda pod: pod["spec"]["containers"][0].update(args=[]), SYSTEM)
    assert not any(kind.startswith("error") for kind in (await rig.examine()).kinds)
    set_inventory(rig, cards(16, 16))
    assert missing in (await rig.examine()).kinds


async def test_a_node_that_serves_claims_needs_no_plugin_and_a_cluster_of_them_no_extender(rig: DoctorRig) -> None:
    serve(rig, SERVES_CLAIMS, counted="0")
    rig.delete("pods", PLUGIN, SYSTEM)
    assert "error node-without-plugin" in (await rig.examine()).kinds, "its label says resources"
    rig.change_node(lambda node: node["metadata"]["labels"].update({SERVE_LABEL: SERVE_CLAIMS}))
    assert "error extender-missing" not in (await rig.examine()).kinds
    when.NO_EXTENDER(rig)
    assert "error extender-missing" not in (await rig.examine()).kinds


async def test_a_node_is_examined_alone(rig: DoctorRig) -> None:
    rig.put(node_object(OTHER, cards(16), **LABEL))
    rig.put_asking("elsewhere", 4, node=OTHER)
    whole = await rig.examine()
    assert {each["subject"] for each in whole.document["findings"]} == {"node n2", "pod default/elsewhere"}
    assert (await rig.examine("--node", NODE)).kinds == set()
    assert (await rig.examine("--node", OTHER)).kinds == whole.kinds
    missing = await rig.examine("--node", "n9")
    assert (missing.code, "n9" in missing.err) == (1, True)


async def test_the_vendor_of_a_plugin_is_the_one_that_its_own_status_says(rig: DoctorRig) -> None:
    def without_flags(pod: JsonObject) -> None:
        pod["spec"]["containers"][0]["args"] = []

    rig.change("pods", PLUGIN, without_flags, SYSTEM)
    rig.delete("nodes", NODE)
    rig.put(node_object(NODE, [], gpushare="true"))
    rig.set_status(vendor=ALIYUN.name, unit="GiB")
    assert "error node-without-plugin" not in (await rig.examine()).kinds
    rig.set_status(vendor=ENFLAME.name)
    assert "error node-without-plugin" in (await rig.examine()).kinds


@pytest.mark.parametrize(
    ("version", "sizes", "kinds"),
    [
        pytest.param("v1.18.20", (16, 16), {"error kubelet-too-old"}, id="several cards"),
        pytest.param("v1.18.20", (16,), set(), id="one card"),
        pytest.param("v1.19.0", (16, 16), set(), id="new enough"),
        pytest.param("v1.35.9", (8000, 8000), set(), id="many units, quick"),
        pytest.param("v1.36.2", (8000, 8000), {"warning many-units"}, id="many units, slow"),
    ],
)
async def test_a_kubelet_that_mixes_the_units_of_several_cards_or_is_slow_with_so_many_is_named(
    rig: DoctorRig, version: str, sizes: tuple[int, ...], kinds: set[str]
) -> None:
    node = node_object(offered=cards(*sizes))
    node["status"]["nodeInfo"]["kubeletVersion"] = version
    rig.delete("nodes", NODE)
    rig.put(node)
    assert (await rig.examine()).kinds == kinds


async def test_each_kind_of_trace_of_another_system_is_found(rig: DoctorRig) -> None:
    """KAI shows in its pods only, NVIDIA's DRA driver in its slices."""
    rig.change_node(lambda node: node["metadata"].update(labels={"gpushare": "true"}))
    for name in ("kai", "nvidia-dra"):
        for found in read_objects(name)[1:]:
            if found["kind"] == "Namespace":
                rig.put(found)
            elif found["kind"] == "ResourceSlice":
                rig.put(found | {"spec": found["spec"] | {"nodeName": NODE}})
            elif found["kind"] == "Pod" and name == "kai":
                rig.put_pod(found | {"spec": found["spec"] | {"nodeName": NODE}})
    problems = " ".join(finding["problem"] for finding in (await rig.examine()).document["findings"])
    assert "KAI-Scheduler hands out the same cards: pods that share cards; 1 pod holds them" in problems
    assert "NVIDIA's DRA driver hands out the same cards: ResourceSlices of gpu.nvidia.com" in problems


async def test_nvidias_own_plugin_on_a_node_of_ours_is_named_with_the_way_out(rig: DoctorRig) -> None:
    theirs, *_, pod = read_objects("nvidia-device-plugin")
    node = node_object(offered=None) | {"status": theirs["status"]}
    node["metadata"]["labels"] = {"gpushare": "true"}
    rig.delete("nodes", NODE)
    rig.put(node)
    rig.put_pod(pod | {"spec": pod["spec"] | {"nodeName": NODE}})
    rig.set_status(vendor=ALIYUN.name, unit="GiB")
    (finding,) = (each for each in (await rig.examine()).document["findings"] if each["id"] == "other-sharing-system")
    assert finding["problem"] == (
        "NVIDIA's device plugin or GPU Operator hands out the same cards: nvidia.com/gpu 2; 1 pod holds them, such as "
        "default/train"
    )
    assert "kubectl label node NODE nvidia.com/gpu.deploy.device-plugin=false --overwrite" in finding["remedy"]


async def test_pods_that_ask_for_none_of_our_memory_may_wait_for_any_scheduler(rig: DoctorRig) -> None:
    waiting_for(rig, "volcano", is_tried=True, units="0")
    assert (await rig.examine()).kinds == set()


async def test_a_node_that_has_just_joined_without_cards_and_without_the_startup_taint_is_named(rig: DoctorRig) -> None:
    joined = node_object(OTHER, cards(16), zone="a")
    del joined["metadata"]["annotations"][INVENTORY]
    joined["metadata"]["labels"][ENFLAME.label_key] = "true"
    rig.put(joined)
    assert "info startup-taint-missing" in (await rig.examine()).kinds
    rig.change_node(
        lambda node: node["spec"].update({"taints": [{"key": STARTUP_TAINT, "effect": "NoSchedule"}]}), OTHER
    )
    assert "info startup-taint-missing" not in (await rig.examine()).kinds
