"""Claims in the charts: off by default, in the names of the vendors, with the rights and folders that they need."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gcushare.device_plugin.command_line import PROGRAM
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.runtime.settings.loading import load_settings
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS, Vendor
from gcushare.wire.contracts import DEVICE_PLUGIN, EXTENDER
from tests.charts import (
    EXTENDER_CHART,
    PLUGIN_CHART,
    UMBRELLA_CHART,
    Object,
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

ON = "claims.enabled=true"
OWN_SLICES = f"{DEVICE_PLUGIN}-own-slices"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugin", "extender", "is_refused"),
    [("0.1", "", True), ("auto", "", True), ("1", "MiB", True), ("1", "GiB", False), ("0.01", "0.01", False)],
)
@pytest.mark.parametrize("key", ["memoryUnit", "claims.memoryUnit"])
def test_both_halves_mean_the_same_by_1_of_the_resource(plugin: str, extender: str, is_refused: bool, key: str) -> None:
    sets = {"gcushare-device-plugin-chart.memoryUnit": plugin}
    sets[f"gcushare-scheduler-extender-chart.{key}"] = extender
    done = attempt(UMBRELLA_CHART, sets={"global.claims.enabled": "true", **sets})
    assert (f"memoryUnit is {plugin}, but claims are made of {extender or '1'}" in done.stderr) is is_refused
    assert (done.returncode != 0) is is_refused
    assert attempt(UMBRELLA_CHART, sets=sets).returncode == 0


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


@pytest.mark.parametrize("value", ["claims.packNodes=false", "claims.callExtender=true"])
def test_a_policy_without_packing_leaves_affinity_alone_and_no_one_may_label_nodes(value: str) -> None:
    objects = claiming(value)
    policies = str(of_kind(objects, "MutatingAdmissionPolicy"))
    assert "affinity" not in policies
    assert (ENFLAME.claims.extender_resource.replace("/", "~1") in policies) is (value == "claims.callExtender=true")
    assert "claims-order" not in str(one(objects, "ValidatingAdmissionPolicy", f"{EXTENDER}-extender-nodes"))
    assert "--no-claims-node-order" in arguments(objects)


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
    always = {("nodes/status", "patch")}
    assert writes(*off) == always
    assert writes(*off, "autoscaling.startupTaint=true", "admission.enabled=true") == always | {("nodes", "patch")}
    templates = {("resourceclaimtemplates", verb) for verb in ("create", "delete")}
    events = {("events", verb) for verb in ("create", "patch")}
    assert writes(*off, "claims.enabled=true") == always | templates | events
    assert "--claims" not in arguments(rendered(EXTENDER_CHART))


def claiming(*values: str) -> tuple[Object, ...]:
    return rendered(EXTENDER_CHART, "claims.enabled=true", *values)


def arguments(objects: Sequence[Object]) -> list[str]:
    """The flags of the extender."""
    found = {each["name"]: each["args"] for each in containers(pod_specs(objects)[f"Deployment/{EXTENDER}"])}
    return list(found[EXTENDER])


def spec_of(*values: str, name: str = DEVICE_PLUGIN) -> Object:
    found: Object = one(rendered(PLUGIN_CHART, *values), "DaemonSet", name)["spec"]["template"]["spec"]
    return found


def settings_of(*values: str) -> PluginSettings:
    """What the rendered flags are to the program."""
    (container,) = containers(spec_of(*values))

    return load_settings(PROGRAM, container["args"], {"NODE_NAME": "n"})


def test_the_plugin_runs_on_the_nodes_that_serve_claims_where_claims_are_on() -> None:
    required = spec_of()["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "gcushare.io/serve", "operator": "NotIn", "values": ["claims"]}]
    for vendor in VENDORS:
        spec = spec_of("vendor=both", ON, name=f"{DEVICE_PLUGIN}{vendor.name_suffix}")
        assert "affinity" not in spec
        assert spec["nodeSelector"] == {vendor.label_key: "true", "kubernetes.io/os": "linux"}


def test_the_kubelets_folders_stand_at_the_hosts_own_paths() -> None:
    """The kubelet is given the path of the driver's socket, so it must be the same inside and outside.

    Not so for device plugins, which name a file of a folder that is a constant of the kubelet's build.
    """
    values = (ON, "kubelet.rootDir=/data/kubelet")
    spec = spec_of(*values)
    outside = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
    (container,) = containers(spec)
    inside = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    for name in ("driver", "plugins-registry", "pod-resources", "cdi"):
        assert inside[name] == outside[name]
    assert inside["device-plugins"] == "/data/kubelet/device-plugins"
    assert outside["device-plugins"] == "/var/lib/kubelet/device-plugins"
    assert outside["driver"] == f"/data/kubelet/plugins/{ENFLAME.claims.driver}", "not what other drivers mount there"
    assert str(settings_of(*values).kubelet.kubelet_dir) == "/data/kubelet"


def test_folders_and_rights_come_with_claims_alone() -> None:
    def rules(*values: str) -> dict[str, list[str]]:
        role = one(rendered(PLUGIN_CHART, *values), "ClusterRole", DEVICE_PLUGIN)
        return {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}

    assert rules()["resourceslices"] == ["list"]
    assert "resourceclaims" not in rules()
    assert rules(ON)["resourceslices"] == ["list", "watch", "create", "patch", "delete"]
    assert rules(ON)["resourceclaims"] == ["get", "list"]
    assert not {"driver", "plugins-registry", "cdi"} & {each["name"] for each in spec_of()["volumes"]}
    assert not any(each["metadata"]["name"] == OWN_SLICES for each in rendered(PLUGIN_CHART))
    policy = one(rendered(PLUGIN_CHART, ON), "ValidatingAdmissionPolicy", OWN_SLICES)
    (condition,) = policy["spec"]["matchConditions"]
    assert "system:serviceaccount:kube-system:gcushare-device-plugin" in condition["expression"]
