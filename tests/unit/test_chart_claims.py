"""The claims chart: off by default, in the names of the vendors, and refused where claims cannot share a card."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcushare.claims_controller.claims_controller_settings import PROGRAM
from gcushare.claims_controller.node_order import MAX_LEVEL
from gcushare.core.claim_names import MAX_UNITS
from gcushare.runtime.settings.declare import list_specs
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS, Vendor
from gcushare.wire import annotations as keys
from gcushare.wire.contracts import (
    CLAIMS_CONTROLLER,
    CLAIMS_CONTROLLER_PORT,
    CLAIMS_ENABLED,
    CLAIMS_LABEL,
    CLAIMS_ORDER_LABEL,
)
from tests.charts import (
    CLAIMS_CHART,
    UMBRELLA_CHART,
    Rendering,
    attempt,
    containers,
    in_one_worker,
    needs_helm,
    of_kind,
    one,
    pod_specs,
    rendered,
)

pytestmark = [needs_helm, in_one_worker]


def test_nothing_of_it_is_installed_by_default() -> None:
    assert not [each for each in rendered(UMBRELLA_CHART) if "claims" in each["metadata"]["name"]]


def test_the_umbrella_renders_it_with_the_others() -> None:
    names = {each["metadata"]["name"] for each in rendered(UMBRELLA_CHART, "claims.enabled=true")}
    assert {CLAIMS_CONTROLLER, "gcushare-scheduler-extender", ENFLAME.claims.memory_class} <= names


@pytest.mark.parametrize(
    ("chart", "sets"),
    [(CLAIMS_CHART, {}), (UMBRELLA_CHART, {"claims.enabled": "true"})],
    ids=["alone", "with gcushare"],
)
def test_a_cluster_whose_claims_cannot_share_a_card_is_refused(chart: Path, sets: dict[str, str]) -> None:
    refused = attempt(chart, Rendering(sets=sets, version="v1.35.4"))
    assert refused.returncode != 0
    assert "1.36" in refused.stderr


@pytest.mark.parametrize(("name", "vendors"), [("enflame", (ENFLAME,)), ("aliyun", (ALIYUN,)), ("both", VENDORS)])
def test_classes_and_policies_have_the_vendors_names(name: str, vendors: tuple[Vendor, ...]) -> None:
    objects = rendered(CLAIMS_CHART, f"vendor={name}")
    classes = {each["metadata"]["name"]: each["spec"] for each in of_kind(objects, "DeviceClass")}
    assert set(classes) == {word for each in vendors for word in (each.claims.memory_class, each.claims.whole_class)}
    for vendor in vendors:
        assert classes[vendor.claims.whole_class]["extendedResourceName"] == vendor.whole_card_resource
        assert "extendedResourceName" not in classes[vendor.claims.memory_class]
        policy = str(one(objects, "MutatingAdmissionPolicy", f"gcushare-claims-{vendor.name}"))
        assert f"'{vendor.claims.template_prefix}-'" in policy
        assert vendor.memory_resource in policy


def test_the_policies_use_the_keys_and_limits_of_the_programs() -> None:
    objects = rendered(CLAIMS_CHART)
    for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"):
        policy = one(objects, kind, "gcushare-claims-enflame")
        selected = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
        assert selected == {CLAIMS_LABEL: CLAIMS_ENABLED}
        for word in (str(MAX_UNITS), keys.CARDS, keys.USE_CARDS, keys.AVOID_CARDS, keys.NODE_POLICY, keys.CARD_POLICY):
            assert word in str(policy["spec"]["variables"]), word
    patch = one(objects, "MutatingAdmissionPolicy", "gcushare-claims-enflame")["spec"]["mutations"][0]
    expression = patch["jsonPatch"]["expression"]
    for word in (CLAIMS_ORDER_LABEL, *(f"'{level}'" for level in range(1, MAX_LEVEL + 1))):
        assert word in expression, word
    for key in (keys.CLAIMED_RESOURCE, keys.CLAIMED_UNITS):
        assert key.replace("/", "~1") in expression


@pytest.mark.parametrize("value", ["admission.packNodes=false", "admission.callExtender=true"])
def test_a_policy_without_packing_leaves_affinity_alone_and_no_one_may_label_nodes(value: str) -> None:
    objects = rendered(CLAIMS_CHART, value)
    policies = str(of_kind(objects, "MutatingAdmissionPolicy"))
    assert "affinity" not in policies
    assert (ENFLAME.claims.extender_resource.replace("/", "~1") in policies) is (value == "admission.callExtender=true")
    rules = one(objects, "ClusterRole", CLAIMS_CONTROLLER)["rules"]
    assert "nodes" not in {resource for rule in rules for resource in rule["resources"]}
    (container,) = containers(pod_specs(objects)[f"Deployment/{CLAIMS_CONTROLLER}"])
    assert "--no-node-order" in container["args"]


def test_without_admission_there_are_no_policies_for_pods() -> None:
    objects = rendered(CLAIMS_CHART, "admission.enabled=false")
    assert not of_kind(objects, "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")


def test_the_controller_is_given_flags_that_it_has() -> None:
    known = {spec.name for spec in list_specs(PROGRAM.settings)}
    objects = rendered(CLAIMS_CHART, "admission.packNodes=false", "memoryUnit=MiB")
    (container,) = containers(pod_specs(objects)[f"Deployment/{CLAIMS_CONTROLLER}"])
    for word in container["args"]:
        assert word.partition("=")[0].removeprefix("--").removeprefix("no-") in known, word
    assert {f"--listen-port={CLAIMS_CONTROLLER_PORT}", "--memory-unit=MiB"} <= set(container["args"])
