"""Claims in the charts: off by default, in the names of the vendors, and refused where claims cannot share a card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gcushare.core.claim_names import MAX_UNITS
from gcushare.runtime.settings.declare import list_specs
from gcushare.scheduler_extender.claims.node_order import MAX_LEVEL
from gcushare.scheduler_extender.extender_settings import PROGRAM
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS, Vendor
from gcushare.wire import annotations as keys
from gcushare.wire.contracts import (
    CLAIMS_ENABLED,
    CLAIMS_LABEL,
    CLAIMS_ORDER_LABEL,
    DEVICE_PLUGIN,
    EXTENDER,
)
from tests.charts import (
    EXTENDER_CHART,
    PLUGIN_CHART,
    UMBRELLA_CHART,
    Object,
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
    names = {each["metadata"]["name"] for each in rendered(UMBRELLA_CHART, "global.claims.enabled=true")}
    assert {DEVICE_PLUGIN, EXTENDER, ENFLAME.claims.memory_class} <= names


@pytest.mark.parametrize(
    ("chart", "sets"),
    [
        (PLUGIN_CHART, {"claims.enabled": "true"}),
        (EXTENDER_CHART, {"claims.enabled": "true"}),
        (UMBRELLA_CHART, {"global.claims.enabled": "true"}),
    ],
    ids=["plugin", "extender", "all"],
)
def test_a_cluster_whose_claims_cannot_share_a_card_is_refused(chart: Path, sets: dict[str, str]) -> None:
    refused = attempt(chart, Rendering(sets=sets, version="v1.35.4"))
    assert refused.returncode != 0
    assert "1.36" in refused.stderr


@pytest.mark.parametrize(("name", "vendors"), [("enflame", (ENFLAME,)), ("aliyun", (ALIYUN,)), ("both", VENDORS)])
def test_classes_and_policies_have_the_vendors_names(name: str, vendors: tuple[Vendor, ...]) -> None:
    objects = claiming(f"vendor={name}")
    classes = {each["metadata"]["name"]: each["spec"] for each in of_kind(objects, "DeviceClass")}
    assert set(classes) == {word for each in vendors for word in (each.claims.memory_class, each.claims.whole_class)}
    for vendor in vendors:
        assert classes[vendor.claims.whole_class]["extendedResourceName"] == vendor.whole_card_resource
        assert "extendedResourceName" not in classes[vendor.claims.memory_class]
        policy = str(one(objects, "MutatingAdmissionPolicy", f"gcushare-claims-{vendor.name}"))
        assert f"'{vendor.claims.template_prefix}-'" in policy
        assert vendor.memory_resource in policy


def test_the_policies_use_the_keys_and_limits_of_the_programs() -> None:
    objects = claiming()
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
    assert '"Object.' not in expression, "a value in quotes is a text, and breaks every pod"
    for key in (keys.CLAIMED_RESOURCE, keys.CLAIMED_UNITS):
        assert key.replace("/", "~1") in expression


@pytest.mark.parametrize("value", ["claims.packNodes=false", "claims.callExtender=true"])
def test_a_policy_without_packing_leaves_affinity_alone_and_no_one_may_label_nodes(value: str) -> None:
    objects = claiming(value)
    policies = str(of_kind(objects, "MutatingAdmissionPolicy"))
    assert "affinity" not in policies
    assert (ENFLAME.claims.extender_resource.replace("/", "~1") in policies) is (value == "claims.callExtender=true")
    rules = one(objects, "ClusterRole", EXTENDER)["rules"]
    assert "nodes/status" not in {resource for rule in rules for resource in rule["resources"]}
    assert "--no-claims-node-order" in arguments(objects)


def test_without_admission_there_are_no_policies_for_pods() -> None:
    objects = claiming("claims.convertPods=false")
    assert not of_kind(objects, "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")


def test_the_extender_is_given_flags_that_it_has() -> None:
    known = {spec.name for spec in list_specs(PROGRAM.settings)}
    found = arguments(claiming("claims.packNodes=false", "claims.memoryUnit=MiB"))
    for word in found:
        assert word.partition("=")[0].removeprefix("--").removeprefix("no-") in known, word
    assert {"--claims", "--claims-memory-unit=MiB"} <= set(found)


def test_rights_grow_only_where_claims_are_on() -> None:
    def writes(*values: str) -> set[tuple[str, str]]:
        return {
            (resource, verb)
            for rule in one(rendered(EXTENDER_CHART, *values), "ClusterRole", EXTENDER)["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            if verb not in ("get", "list", "watch")
        }

    off = ("scheduler.mode=none", "scheduler.verbs=off", "dashboard.access=off")
    assert writes(*off) == set()
    assert writes(*off, "claims.enabled=true") == {
        ("resourceclaimtemplates", "create"),
        ("resourceclaimtemplates", "delete"),
        ("events", "create"),
        ("events", "patch"),
        ("nodes/status", "patch"),
    }
    assert "--claims" not in arguments(rendered(EXTENDER_CHART))


def test_claims_without_the_extender_are_refused() -> None:
    sets = {"global.claims.enabled": "true", "schedulerExtender.enabled": "false"}
    assert "the extender makes the templates" in attempt(UMBRELLA_CHART, Rendering(sets=sets)).stderr


def claiming(*values: str) -> tuple[Object, ...]:
    return rendered(EXTENDER_CHART, "claims.enabled=true", *values)


def arguments(objects: Sequence[Object]) -> list[str]:
    """The flags of the extender."""
    found = {each["name"]: each["args"] for each in containers(pod_specs(objects)[f"Deployment/{EXTENDER}"])}
    return list(found[EXTENDER])
