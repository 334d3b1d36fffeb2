"""The plugin's chart where claims are on: its flags, folders, rights, and the policy that limits these to its node."""

from __future__ import annotations

from gcushare.device_plugin.command_line import PROGRAM
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.runtime.settings.loading import load_settings
from gcushare.vendors import ENFLAME, VENDORS
from gcushare.wire.contracts import DEVICE_PLUGIN
from tests.charts import PLUGIN_CHART, Object, containers, in_one_worker, needs_helm, one, rendered

pytestmark = [needs_helm, in_one_worker]

ON = "claims.enabled=true"
OWN_SLICES = f"{DEVICE_PLUGIN}-own-slices"


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
    """The kubelet is given the path of the driver's socket, so it must be the same inside and outside."""
    values = (ON, "kubelet.rootDir=/data/kubelet")
    spec = spec_of(*values)
    outside = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
    (container,) = containers(spec)
    inside = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    for name in ("driver", "plugins-registry", "pod-resources", "device-plugins", "cdi"):
        assert inside[name] == outside[name]
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
