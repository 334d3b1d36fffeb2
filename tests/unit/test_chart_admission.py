"""The admission policies reserve exactly the keys that the programs write, for exactly their accounts."""

from __future__ import annotations

import json
import re

import pytest

from gcushare.core.errors import RemoteContractError
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS, Vendor
from gcushare.wire.annotations import CARDS, IDLE_SINCE, MEMORY_LIMIT, OVER_USE, record_keys
from gcushare.wire.pod_options import pod_options
from gcushare.wire.pods import MACHINE_UID, MIRROR
from tests.charts import EXTENDER_CHART, UMBRELLA_CHART, Object, in_one_worker, needs_helm, of_kind, one, rendered

pytestmark = [needs_helm, in_one_worker]

POLICY = "ValidatingAdmissionPolicy"
BINDING = "ValidatingAdmissionPolicyBinding"
PREFIX = "gcushare-scheduler-extender-"
ACCOUNT = "system:serviceaccount:kube-system:"
BY_VENDOR = {"enflame": (ENFLAME,), "aliyun": (ALIYUN,), "both": VENDORS}


def policy(name: str, *pairs: str) -> Object:
    return one(rendered(EXTENDER_CHART, *pairs), POLICY, PREFIX + name)


def quoted(expression: str) -> set[str]:
    """The quoted words of a CEL expression."""
    return set(re.findall(r"'([^']*)'", expression))


def variable(found: Object, name: str) -> str:
    return str(next(each["expression"] for each in found["spec"]["variables"] if each["name"] == name))


def is_read(key: str, text: str) -> bool:
    """Whether the extender accepts the value of an annotation."""
    try:
        pod_options({key: text})
    except RemoteContractError:
        return False
    return True


@pytest.mark.parametrize(
    "text", ["1", "007", "10000000", "00000001", "0", "00", "", "-1", "+1", "1.5", "10000001", "99999999", "010000000"]
)
def test_a_memory_limit_is_accepted_at_creation_exactly_if_it_is_later(text: str) -> None:
    rules = policy("requests", "admission.pods.refuseMalformed=true")["spec"]["validations"]
    rule = next(each["expression"] for each in rules if MEMORY_LIMIT in each["expression"])
    pattern, longest = re.findall(r"matches\('(.*)'\).*<= ([0-9]+)", rule, re.DOTALL)[0]
    assert (re.search(pattern, text) is not None and len(text) <= int(longest)) == is_read(MEMORY_LIMIT, text)


@pytest.mark.parametrize("text", ["1", "16", "02", "09", "00", "0", "", "17", "016", "1 ", "-2", "+2", "2.0", "２"])
def test_a_number_of_cards_is_accepted_at_creation_exactly_if_it_is_later(text: str) -> None:
    """That of the claims policies too: their template has the number in its name."""
    values = ["admission.pods.refuseMalformed=true", "claims.enabled=true"]
    found = json.dumps(rendered(EXTENDER_CHART, *values))
    patterns = set(re.findall(r"variables.options\['gcushare.io/cards'\].matches\('(.*?)'\)", found))
    assert {re.search(each, text) is not None for each in patterns} == {is_read(CARDS, text)}


@pytest.mark.parametrize("name", BY_VENDOR)
def test_the_reserved_keys_of_pods_are_those_of_the_vendors_in_use(name: str) -> None:
    vendors = BY_VENDOR[name]
    wanted = {key for vendor in vendors for key in record_keys(vendor)} | {OVER_USE, IDLE_SINCE}
    assert quoted(variable(policy("pod-records", f"vendor={name}"), "changed")) == wanted
    assert quoted(variable(policy("bindings", f"vendor={name}"), "recorded")) == wanted
    assert quoted(variable(policy("plugin-pods", f"vendor={name}"), "own")) == wanted


def test_mirrors_are_for_nodes_and_for_those_who_may_repair_records() -> None:
    found = policy("mirrors", "admission.exemptUsers={repairs}")
    assert quoted(variable(found, "changed")) == {"CREATE", MIRROR, MACHINE_UID}
    (rule,) = found["spec"]["validations"]
    assert quoted(rule["expression"]) == {"system:node:", "system:nodes", "repairs"}


@pytest.mark.parametrize("name", BY_VENDOR)
def test_the_reserved_keys_of_nodes_are_those_of_the_vendors_in_use(name: str) -> None:
    vendors: tuple[Vendor, ...] = BY_VENDOR[name]
    inventories = {vendor.inventory_annotation for vendor in vendors}
    assert quoted(variable(policy("inventories", f"vendor={name}"), "changed")) == inventories
    own = policy("plugin-nodes", f"vendor={name}")
    assert quoted(variable(own, "own")) == inventories
    assert quoted(variable(own, "counted")) == {vendor.count_resource for vendor in vendors}


@pytest.mark.parametrize(
    ("name", "accounts"),
    [
        ("pod-records", {"gcushare-device-plugin"}),
        ("bindings", {"gcushare-scheduler-extender"}),
        ("inventories", {"gcushare-device-plugin", "gcushare-device-plugin-cleanup"}),
    ],
)
def test_only_our_accounts_write_and_they_are_the_charts_own(name: str, accounts: set[str]) -> None:
    validation = policy(name)["spec"]["validations"][0]
    users = {word for word in quoted(validation["expression"]) if word.startswith("system:")}
    assert users == {ACCOUNT + account for account in accounts}
    installed = rendered(UMBRELLA_CHART, "global.claims.enabled=true")
    there = {each["metadata"]["name"] for each in of_kind(installed, "ServiceAccount")}
    assert accounts <= there


@pytest.mark.parametrize(
    ("pairs", "accounts"),
    [((), ("gcushare-device-plugin",)), (("admission.devicePlugin.serviceAccount={one,two}",), ("one", "two"))],
    ids=["one release", "two"],
)
def test_the_plugins_token_is_held_to_its_own_node(pairs: tuple[str, ...], accounts: tuple[str, ...]) -> None:
    for name in ("plugin-pods", "plugin-nodes", "plugin-events"):
        found = policy(name, *pairs)
        assert quoted(found["spec"]["matchConditions"][0]["expression"]) == {ACCOUNT + each for each in accounts}
        assert "authentication.kubernetes.io/node-name" in variable(found, "node")
        assert "variables.node" in found["spec"]["validations"][0]["expression"]


def test_every_policy_fails_closed_and_is_bound_once() -> None:
    objects = rendered(
        EXTENDER_CHART, "admission.namespaces.exclude={default}", "admission.pods.refuseMalformed=true", "vendor=both"
    )
    policies = {each["metadata"]["name"] for each in of_kind(objects, POLICY)}
    assert len(policies) == 13
    assert {each["spec"]["failurePolicy"] for each in of_kind(objects, POLICY)} == {"Fail"}
    bound = [each["spec"]["policyName"] for each in of_kind(objects, BINDING)]
    assert sorted(bound) == sorted(policies)
    assert {tuple(each["spec"]["validationActions"]) for each in of_kind(objects, BINDING)} == {("Deny",)}


@pytest.mark.parametrize(
    ("version", "enabled", "count"),
    [
        pytest.param("v1.29.9", "auto", 0, id="too-old"),
        pytest.param("v1.30.0", "auto", 11, id="first"),
        pytest.param("v1.30.4-eks-1", "auto", 11, id="managed"),
        pytest.param("v1.36.2", "false", 0, id="off"),
        pytest.param("v1.28.0", "true", 11, id="forced"),
    ],
)
def test_policies_are_installed_if_the_cluster_has_them(version: str, enabled: str, count: int) -> None:
    objects = rendered(EXTENDER_CHART, f"admission.enabled={enabled}", version=version)
    assert len(of_kind(objects, POLICY)) == count


def test_who_may_use_cards_is_asked_of_every_pod_that_the_extender_decides_on() -> None:
    for whole, wanted in ((False, {ENFLAME.memory_resource}), (True, {"enflame.com/gcu-memory", "enflame.com/gcu"})):
        found = policy("namespaces", f"wholeCards={str(whole).lower()}", "admission.namespaces.exclude={default}")
        assert quoted(found["spec"]["matchConditions"][0]["expression"]) == wanted
