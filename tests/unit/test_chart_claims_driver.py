"""The claims chart's DaemonSet, its rights, and the policy that limits them to its own node."""

from __future__ import annotations

import pytest

from gcushare.claims_driver.claims_driver_settings import CARD_POLICIES, PROGRAM, ClaimsDriverSettings
from gcushare.node.node_settings import OtherSystems, Strategy
from gcushare.node.over_use.over_use_settings import Action, OverUseSettings
from gcushare.runtime.settings.loading import load_settings
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS
from gcushare.wire.contracts import CLAIMS_DRIVER, CLAIMS_DRIVER_PORT, DEVICE_PLUGIN
from tests.charts import CLAIMS_CHART, PLUGIN_CHART, containers, in_one_worker, needs_helm, one, rendered

pytestmark = [needs_helm, in_one_worker]


def settings_of(*values: str, name: str = CLAIMS_DRIVER) -> ClaimsDriverSettings:
    """What the rendered flags are to the program."""
    (container,) = containers(one(rendered(CLAIMS_CHART, *values), "DaemonSet", name)["spec"]["template"]["spec"])

    assert container["command"] == [CLAIMS_DRIVER]
    return load_settings(PROGRAM, container["args"], {"NODE_NAME": "n"})


def test_the_program_reads_the_rendered_flags() -> None:
    found = settings_of()
    assert found.serve.listen_port == CLAIMS_DRIVER_PORT
    assert found.cards.card_policy == "binpack"
    assert found.node.device_list_strategy == (Strategy.ENV,)
    assert found.cards.memory_unit == "1"


@pytest.mark.parametrize("policy", CARD_POLICIES)
def test_the_chart_takes_every_policy_of_the_program(policy: str) -> None:
    assert settings_of(f"driver.cardPolicy={policy}").cards.card_policy == policy


@pytest.mark.parametrize("choice", OtherSystems)
def test_the_chart_passes_what_follows_with_other_systems(choice: OtherSystems) -> None:
    assert settings_of(f"driver.otherSystems={choice.value}").cards.other_systems is choice


def test_each_vendor_has_a_daemon_set_on_the_nodes_that_serve_claims() -> None:
    for vendor in VENDORS:
        name = f"{CLAIMS_DRIVER}{vendor.name_suffix}"
        assert settings_of("vendor=both", name=name).cards.vendor is vendor
        spec = one(rendered(CLAIMS_CHART, "vendor=both"), "DaemonSet", name)["spec"]["template"]["spec"]
        labels = {vendor.label_key: "true", "gcushare.io/serve": "claims", "kubernetes.io/os": "linux"}
        assert spec["nodeSelector"] == labels


def test_the_plugin_leaves_those_nodes_out() -> None:
    spec = one(rendered(PLUGIN_CHART), "DaemonSet", "gcushare-device-plugin")["spec"]["template"]["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "gcushare.io/serve", "operator": "NotIn", "values": ["claims"]}]


def test_the_kubelets_folders_stand_at_the_hosts_own_paths() -> None:
    """The kubelet is given the path of the driver's socket, so it must be the same inside and outside."""
    values = ("driver.kubelet.rootDir=/data/kubelet",)
    spec = one(rendered(CLAIMS_CHART, *values), "DaemonSet", CLAIMS_DRIVER)["spec"]["template"]["spec"]
    outside = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
    (container,) = containers(spec)
    inside = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    for name in ("plugin", "plugins-registry", "pod-resources", "cdi"):
        assert inside[name] == outside[name]
    assert outside["plugin"] == f"/data/kubelet/plugins/{ENFLAME.claims.driver}", "not what other drivers mount there"
    assert str(settings_of(*values).node.kubelet_dir) == "/data/kubelet"


def test_simulated_cards_reach_the_driver_by_a_config_map() -> None:
    values = ("driver.cards.source=simulated",)
    assert settings_of(*values).cards.cards == "simulated:/etc/gcushare/cards.yaml"
    assert one(rendered(CLAIMS_CHART, *values), "ConfigMap", f"{CLAIMS_DRIVER}-cards")["data"]["cards.yaml"]


USE = ("driver.podUse=true", "driver.overUse.action=evict", "driver.overUse.exempt={kube-system,ops/*}")


def test_the_program_reads_what_pods_use_if_the_chart_says_so() -> None:
    found = settings_of(*USE)
    assert found.cards.pod_use
    assert found.over_use.over_use is Action.EVICT
    assert found.over_use.over_use_exempt == ("kube-system", "ops/*")
    defaults = settings_of("driver.podUse=true").over_use
    assert defaults == OverUseSettings(), "the chart's values are the program's defaults"
    spec = one(rendered(CLAIMS_CHART, *USE), "DaemonSet", CLAIMS_DRIVER)["spec"]["template"]["spec"]
    assert spec["hostPID"] is True


def test_rights_on_pods_come_with_pod_use_alone() -> None:
    def rules(*values: str) -> dict[str, list[str]]:
        role = one(rendered(CLAIMS_CHART, *values), "ClusterRole", CLAIMS_DRIVER)
        return {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}

    assert not {"pods", "pods/eviction"} & rules().keys()
    assert rules("driver.podUse=true")["pods"] == ["list", "watch"]
    assert rules("driver.podUse=true")["pods/status"] == ["patch"]
    assert "pods/eviction" not in rules("driver.podUse=true")
    assert rules(*USE)["pods/eviction"] == ["create"]
    assert "pods/eviction" not in rules(*USE, "driver.overUse.dryRun=true")
    policies = {each["metadata"]["name"] for each in rendered(CLAIMS_CHART, *USE) if "Policy" in each["kind"]}
    assert "gcushare-claims-own-pods" in policies


def test_mps_runs_in_a_container_of_its_own_on_the_nodes_of_nvidia_cards() -> None:
    values = ("vendor=both", "driver.memoryLimit=mps")
    daemon_sets = [each for each in rendered(CLAIMS_CHART, *values) if each["kind"] == "DaemonSet"]
    found = {each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"] for each in daemon_sets}
    assert [len(found[f"{CLAIMS_DRIVER}{vendor.name_suffix}"]) for vendor in (ENFLAME, ALIYUN)] == [1, 2]
    driver, daemon = found[f"{CLAIMS_DRIVER}{ALIYUN.name_suffix}"]
    assert "--memory-limit=mps" in driver["args"]
    assert (daemon["command"], daemon["args"][0]) == ([DEVICE_PLUGIN], "--run-mps-daemon")
