"""Groups of nodes in one release: a DaemonSet for each, and each node gets exactly one of them, with its settings."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gcushare.device_plugin.command_line import PROGRAM
from gcushare.runtime.settings.loading import load_settings
from gcushare.wire.contracts import COMPONENT_LABEL, DEVICE_PLUGIN, MPS_COMPONENT, NODE_GROUP_LABEL, VENDOR_LABEL
from tests.charts import PLUGIN_CHART, Object, attempt, in_one_worker, needs_helm, of_kind, one, render

pytestmark = [needs_helm, in_one_worker]

VALUES = """
vendor: both
memoryUnit: GiB
nvml: {hostPath: /usr/lib/nvml.so}
nodeSelector: {pool: shared}
nodeGroups:
  fine: {memoryUnit: MiB, cards: {reserve: 5%}, deviceListStrategy: [cdi], nvml: {hostPath: ""}, bursts: ignore}
  whole: {mode: whole, cards: {unifiedMemory: auto}, kubelet: {rootDir: /data/kubelet}}
"""
AFFINITY = """
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions: [{key: zone, operator: In, values: [a]}]
        - matchExpressions: [{key: zone, operator: In, values: [b]}]
"""


def daemon_sets(values: str) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in of_kind(render(PLUGIN_CHART, values=values), "DaemonSet")}


def admits(spec: Object, labels: dict[str, str]) -> bool:
    """Whether nodeSelector and affinity of a DaemonSet's pod let it run on a node with these labels."""

    def holds(rule: dict[str, Any]) -> bool:
        if rule["operator"] == "In":
            return labels.get(rule["key"]) in rule["values"]
        assert rule["operator"] == "NotIn"
        return labels.get(rule["key"]) not in rule["values"]

    affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = affinity["nodeSelectorTerms"] if affinity is not None else [{"matchExpressions": []}]
    is_selected = all(labels.get(key) == value for key, value in spec["nodeSelector"].items())
    return is_selected and any(all(map(holds, term["matchExpressions"])) for term in terms)


@pytest.mark.parametrize("more", ["", AFFINITY, "claims: {enabled: true}"], ids=["as it comes", "affinity", "claims"])
def test_every_node_meets_the_plugin_of_its_group_and_no_other(more: str) -> None:
    found = daemon_sets(VALUES + more)
    assert len(found) == 6
    for vendor, group, zone in itertools.product(
        ("gpushare", "enflame.com/gcushare"), ("fine", "whole", "x", None), "ab"
    ):
        labels = {vendor: "true", "kubernetes.io/os": "linux", "pool": "shared", "zone": zone}
        labels |= {NODE_GROUP_LABEL: group} if group is not None else {}
        running = [name for name, each in found.items() if admits(each["spec"]["template"]["spec"], labels)]
        suffix = f"-group-{group}" if group in ("fine", "whole") else ""
        assert running == [f"{DEVICE_PLUGIN}{'-aliyun' if vendor == 'gpushare' else ''}{suffix}"], labels
        assert not any(admits(each["spec"]["template"]["spec"], labels | {"pool": "other"}) for each in found.values())


def test_a_group_has_its_own_settings_and_all_others_of_the_chart() -> None:
    found = daemon_sets(VALUES)

    def flags(name: str) -> Any:
        container = found[f"{DEVICE_PLUGIN}-aliyun{name}"]["spec"]["template"]["spec"]["containers"][0]
        return load_settings(PROGRAM, container["args"], {"NODE_NAME": "n"})

    rest, fine, whole = flags(""), flags("-group-fine"), flags("-group-whole")
    assert [each.kubelet.node_group for each in (rest, fine, whole)] == [None, "fine", "whole"]
    assert [each.cards.memory_unit for each in (rest, fine, whole)] == ["GiB", "MiB", "GiB"]
    assert [each.cards.mode.value for each in (rest, fine, whole)] == ["memory", "memory", "whole"]
    assert [each.cards.reserve.percent for each in (rest, fine, whole)] == [0, 5, 0]
    assert [each.cards.card_library for each in (rest, fine)] == [("nvml=/usr/lib/nvml.so",), ()], "empty is a setting"
    assert [str(each.kubelet.kubelet_dir) for each in (fine, whole)] == ["/var/lib/kubelet", "/data/kubelet"]
    for name, each in found.items():
        selector = each["spec"]["selector"]["matchLabels"]
        assert selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
        assert selector.get(NODE_GROUP_LABEL, "") == name.partition("-group-")[2]


def test_the_mps_daemon_runs_where_mps_limits_memory_and_no_upgrade_replaces_it() -> None:
    groups = "nodeGroups: {a: {memoryLimit: mps}, b: {memoryLimit: driver, limitFallback: mps}, c: {privileged: true}}"
    found = daemon_sets(f"vendor: both\n{groups}")
    daemons = {name: each for name, each in found.items() if "-mps" in name}
    assert daemons.keys() == {f"{DEVICE_PLUGIN}-aliyun-mps-group-{group}" for group in "ab"}
    for name, daemon in daemons.items():
        plugin = found[name.replace("-mps", "")]
        assert plugin["spec"]["updateStrategy"]["type"] == "RollingUpdate"
        assert daemon["spec"]["updateStrategy"] == {"type": "OnDelete"}
        pods = [each["spec"]["template"]["spec"] for each in (daemon, plugin)]
        for placed in ("nodeSelector", "affinity", "tolerations", "priorityClassName", "serviceAccountName"):
            assert pods[0][placed] == pods[1][placed], placed
        assert (pods[0]["hostPID"], pods[0]["automountServiceAccountToken"]) == (True, False)
        assert "hostPID" not in pods[1], "only use per pod needs it there"
        selectors = [each["spec"]["selector"]["matchLabels"] for each in (daemon, plugin)]
        labels = daemon["spec"]["template"]["metadata"]["labels"]
        assert labels[COMPONENT_LABEL] == MPS_COMPONENT
        assert [selector.items() <= labels.items() for selector in selectors] == [True, False]
        assert labels[VENDOR_LABEL] == "aliyun", "so it may see the cards, by our own policy"


def test_what_belongs_to_the_cluster_follows_from_every_group() -> None:
    """A limit of the driver in one group needs the policy; one group that grants memory is what `helm test` tries."""
    values = "vendor: aliyun\nmode: whole\nnodeGroups: {a: {memoryLimit: driver}, b: {mode: memory}}"
    objects = render(PLUGIN_CHART, values=values)
    policy = one(objects, "ValidatingAdmissionPolicy", f"{DEVICE_PLUGIN}-pod-variables")
    assert "NVIDIA_GPU_MEMORY_LIMIT" in str(policy)
    one(objects, "Pod", f"{DEVICE_PLUGIN}-test-aliyun")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ("nodeGroups: {a: {vendor: both}}", "nodeGroups.a: Additional property vendor is not allowed"),
        ("nodeGroups: {a: {cards: {source: nvml}}}", "nodeGroups.a.cards: Additional property source is not allowed"),
        ("nodeGroups: {a: {memoryUnit: 3}}", "nodeGroups.a.memoryUnit"),
        ("nodeGroups: {A: {}}", 'Property name of "A" does not match'),
        ("nodeGroups: {a: {memoryLimit: mps}}", "nodeGroups.a: memoryLimit=mps limits memory of NVIDIA cards"),
        (
            "nodeGroups: {a: {}}\nnodeSelector: {gcushare.io/node-group: b}",
            "take gcushare.io/node-group out of nodeSelector",
        ),
    ],
)
def test_a_wrong_group_is_refused_by_its_name(values: str, why: str) -> None:
    done = attempt(PLUGIN_CHART, values=values)
    assert done.returncode != 0
    assert why in done.stderr


def test_the_clean_up_of_a_release_leaves_the_nodes_of_another_alone() -> None:
    job = one(render(PLUGIN_CHART, values=VALUES), "Job", f"{DEVICE_PLUGIN}-cleanup")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert "--nodes=pool=shared" in container["args"]
