"""Findings about nodes that serve claims: each is made to happen, and nothing else is found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gcushare.core.cards import SERVES_CLAIMS, Inventory
from gcushare.core.units import parse_memory_unit
from gcushare.device_plugin.claims.slice_plan import SlicePlan
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import CLAIMS_ENABLED, CLAIMS_LABEL, DEVICE_PLUGIN, SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.dra.slices import new_slice
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.objects import ObjectMeta
from gcushare_playground.apiserver.objects import JsonObject
from tests.api_objects import an_object
from tests.builders import cards
from tests.protocol import doctor_troubles as when
from tests.protocol.doctor_rig import (
    ALL_RIGHTS,
    EXTENDER,
    NODE,
    PLUGIN,
    SERVICE,
    SYSTEM,
    DoctorRig,
    examine_with,
    program_pod,
    status,
)

NAMES = ENFLAME.claims
DRIVER, SLICE, POLICY = "plugin-x", "slice-0", "gcushare-claims-enflame"
INVENTORY = Inventory(unit=parse_memory_unit("1"), cards=(*cards(16, 16),), modes=(SERVES_CLAIMS,))


def device_class(name: str, resource: str = "") -> JsonObject:
    spec = {"extendedResourceName": resource} if resource else {}
    return an_object("DeviceClass", name, spec=spec)


def serve_claims(rig: DoctorRig) -> None:
    """Have the node serve claims in place of resources; nothing is wrong then."""

    def change(node: JsonObject) -> None:
        node["metadata"]["labels"][SERVE_LABEL] = SERVE_CLAIMS
        node["metadata"]["annotations"][ENFLAME.inventory_annotation] = encode_inventory(INVENTORY)
        for part in ("capacity", "allocatable"):
            node["status"][part] = {"cpu": "64"}

    rig.change_node(change)
    rig.delete("pods", PLUGIN, SYSTEM)
    rig.delete("pods", EXTENDER, SYSTEM)
    rig.put_pod(program_pod(EXTENDER, SERVICE, rig.extender.port, "--claims", "--verbs=off", node="master"))
    rig.plugin.pages["/status"] = status(modes=[SERVES_CLAIMS])
    rig.put_pod(program_pod(DRIVER, DEVICE_PLUGIN, rig.plugin.port, "--vendor=enflame", node=NODE))
    spec = SlicePlan(ENFLAME, NODE).build(INVENTORY, (0, 1))
    rig.put(msgspec.to_builtins(new_slice(ObjectMeta(name=SLICE), spec)))
    rig.put(device_class(NAMES.memory_class))
    rig.put(device_class(NAMES.whole_class, ENFLAME.whole_card_resource))
    mutations = [f"gcushare-{NAMES.template_prefix}"]
    rig.put(an_object("MutatingAdmissionPolicy", POLICY, spec={"mutations": mutations}))
    rig.put(an_object("MutatingAdmissionPolicyBinding", POLICY, spec={"policyName": POLICY}))


SLICES, CLASSES = "resourceslices.resource.k8s.io", "deviceclasses.resource.k8s.io"
CLAIMS = (
    ("list", "resourceslices", "resource.k8s.io"),
    ("list", "deviceclasses", "resource.k8s.io"),
    ("list", "mutatingadmissionpolicies", "admissionregistration.k8s.io"),
    ("list", "mutatingadmissionpolicybindings", "admissionregistration.k8s.io"),
    ("list", "namespaces", ""),
    ("list", "resourcequotas", ""),
    ("list", "limitranges", ""),
)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[DoctorRig]:
    async with DoctorRig(tmp_path) as running:
        serve_claims(running)
        yield running


async def test_a_cluster_that_serves_claims_is_in_order(rig: DoctorRig) -> None:
    assert (await rig.examine()).kinds == set()


def slice_with_less_memory(rig: DoctorRig) -> None:
    def change(found: JsonObject) -> None:
        found["spec"]["devices"][1]["capacity"]["memory"]["value"] = "8Gi"

    rig.change(SLICES, SLICE, change)


def slice_without_sharing(rig: DoctorRig) -> None:
    rig.change(SLICES, SLICE, lambda found: found["spec"]["devices"][0].pop("allowMultipleAllocations"))


def class_of_another_resource(rig: DoctorRig) -> None:
    rig.change(CLASSES, NAMES.whole_class, lambda found: found["spec"].update(extendedResourceName="x/y"))


def limit_range_with_a_minimum(rig: DoctorRig) -> None:
    rig.change("namespaces", "default", lambda found: found["metadata"].update(labels={CLAIMS_LABEL: CLAIMS_ENABLED}))
    limits = [{"type": "Container", "min": {ENFLAME.memory_resource: "1"}}]
    rig.put(an_object("LimitRange", "l", spec={"limits": limits}))


def extender_without_claims(rig: DoctorRig) -> None:
    rig.delete("pods", EXTENDER, SYSTEM)
    rig.put_pod(program_pod(EXTENDER, SERVICE, rig.extender.port, "--verbs=off", node="master"))


def old_kubelet(rig: DoctorRig) -> None:
    rig.change_node(lambda node: node["status"]["nodeInfo"].update(kubeletVersion="v1.35.4"))


def quota_on_memory(rig: DoctorRig) -> None:
    rig.change("namespaces", "default", lambda found: found["metadata"].update(labels={CLAIMS_LABEL: CLAIMS_ENABLED}))
    put_quota(rig, "default", f"requests.{ENFLAME.memory_resource}")
    put_quota(rig, "default", "requests.cpu")
    put_quota(rig, "default", f"requests.{ENFLAME.memory_resource}", f"requests.{NAMES.extender_resource}")
    put_quota(rig, SYSTEM, f"requests.{ENFLAME.memory_resource}")


def put_quota(rig: DoctorRig, namespace: str, *resources: str) -> None:
    name = f"of-{len(resources)}-{len(resources[0])}"
    rig.put(an_object("ResourceQuota", name, namespace, spec={"hard": dict.fromkeys(resources, "8")}))


@when.troubles(
    (when.without("pods", DRIVER, SYSTEM), "error node-without-plugin", "enflame.com/gcushare=true"),
    (slice_with_less_memory, "error claims-slices-differ", "card-1 has 8Gi there and 16Gi here"),
    (when.without(SLICES, SLICE), "error claims-slices-differ", "card-0 has no slice there"),
    (slice_without_sharing, "error claims-gate-off", "allowMultipleAllocations of card-0"),
    (when.without(CLASSES, NAMES.memory_class), "error device-class-missing", "there is no such DeviceClass"),
    (class_of_another_resource, "error device-class-missing", f"x/y, not for {ENFLAME.whole_card_resource}"),
    (
        lambda rig: rig.put(device_class("another.example.com", ENFLAME.whole_card_resource)),
        "error device-class-rival",
        f"as {NAMES.whole_class} does",
    ),
    (limit_range_with_a_minimum, "error limit-range", f"a min of {ENFLAME.memory_resource} for each Container"),
    (
        when.without("mutatingadmissionpolicybindings.admissionregistration.k8s.io", POLICY),
        "warning claims-policy-missing",
        f"policy {POLICY} has no binding",
    ),
    (extender_without_claims, "error extender-without-claims", "with --claims"),
    (old_kubelet, "error claims-kubernetes-too-old", "its kubelet is v1.35.4"),
    (
        lambda rig: rig.put_asking("asks", 4),
        "warning pod-never-fits",
        f"label its namespace {CLAIMS_LABEL}={CLAIMS_ENABLED}",
    ),
    (quota_on_memory, "warning quota-counts-nothing", f"bounds requests.{ENFLAME.memory_resource}, and pods of"),
)
async def test_each_trouble_of_claims_is_found_and_nothing_else(
    rig: DoctorRig, scenario: when.Scenario, kind: str, words: str
) -> None:
    scenario(rig)
    (await rig.examine()).assert_only(kind, words)


async def test_the_rights_that_are_named_are_enough_for_claims(rig: DoctorRig) -> None:
    assert (await examine_with(rig, *ALL_RIGHTS, *CLAIMS)).kinds == set()
    assert rig.api.requests.refused("looker") == []
