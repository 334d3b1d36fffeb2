"""Every documented value does something, and a wrong one is refused by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.charts import (
    CHARTS,
    EXTENDER_CHART,
    NEWEST,
    PLUGIN_CHART,
    UMBRELLA_CHART,
    Object,
    attempt,
    helm,
    in_one_worker,
    load_yaml,
    needs_helm,
)

pytestmark = [needs_helm, in_one_worker]

NOT_READ: dict[Path, dict[str, str]] = {
    PLUGIN_CHART: {
        "replicaCount": "accepted for old values files, and only as 1",
        **dict.fromkeys(("efml.hostPath", "nvml.hostPath"), "read by the name of the vendor's library"),
    },
    EXTENDER_CHART: dict.fromkeys(
        ("admission.pods.maxUnits.enflame", "admission.pods.maxUnits.aliyun"), "read by the vendor's name"
    ),
}


def leaves(values: Object, path: str = "") -> Iterator[str]:
    """The dotted paths of a values file; a list or an empty map is a leaf."""
    for key, value in values.items():
        here = f"{path}.{key}" if path else key
        is_free = here in ("resources", "updateStrategy", "dashboards.labels") or here.endswith(".resources")
        if isinstance(value, dict) and value and not is_free:
            yield from leaves(value, here)
        else:
            yield here


REFERENCE = re.compile(r"(?:\.Values|\$values)((?:\.\w+)+)")


@pytest.mark.parametrize("chart", NOT_READ, ids=lambda chart: chart.name)
def test_the_templates_read_every_documented_value_and_no_other(chart: Path) -> None:
    """What is read as a whole, such as ``.Values.image``, has each of its keys in some template."""
    text = "".join(path.read_text() for path in (chart / "templates").rglob("*.*"))
    read = {found[1:] for found in REFERENCE.findall(text)}
    documented = set(leaves(load_yaml((chart / "values.yaml").read_text())))
    groups = {path for path in read if any(each.startswith(f"{path}.") for each in documented)}
    by_group = {
        path
        for path in documented
        for group in groups
        if path.startswith(f"{group}.") and re.search(rf"\.{path.rpartition('.')[2]}\b", text)
    }
    assert documented - read - by_group - NOT_READ[chart].keys() == set()
    below = {path for path in read if any(path.startswith(f"{each}.") for each in documented)}
    assert read - documented - groups - below - {"global"} == set()


WRONG = {
    PLUGIN_CHART: {
        "memoryUnit": "0.2",
        "vendor": "amd",
        "replicaCount": "2",
        "cards.source": "guess",
        "cards.polInterval": "5s",
        "deviceListStrategy": "{env,magic}",
        "efml.hostPath": "lib/libefml.so",
        "image.pullPolicy": "Sometimes",
        "image.digest": "sha256:12",
        "extraArgs": "{verbose}",
        "global.vendor": "intel",
    },
    EXTENDER_CHART: {
        "replicaCount": "0",
        "scheduler.mode": "static",
        "placement.nodePolicy": "random",
        "wholeCards": "nvidia.com/gpu",
        "service.type": "LoadBalancer",
        "service.clusterIP": "None",
        "configManager.name": "m" * 54,
        "configManager.schedulerNamespace": "control",
        "admission.pods.maxUnits.nvidia": "3",
        "logLevel": "debug",
    },
    UMBRELLA_CHART: {"global.vendor": "intel", "devicePlugin.enable": "true", "gcushare-device-plugin-chart.port": "0"},
}
INNER = "gcushare-device-plugin-chart."


@pytest.mark.parametrize("chart", WRONG, ids=lambda chart: chart.name)
def test_every_wrong_value_is_refused_by_name(chart: Path) -> None:
    done = attempt(chart, sets=WRONG[chart])
    assert done.returncode != 0
    complaints = [line[2:] for line in done.stderr.splitlines() if line.startswith("- ")]
    missing = [
        path for path in WRONG[chart] if not any(is_about(path.removeprefix(INNER), each) for each in complaints)
    ]
    assert missing == []


def is_about(path: str, complaint: str) -> bool:
    """Whether helm complains of the value at this path, or of its being there at all."""
    where, _, why = complaint.partition(": ")
    above, _, name = path.rpartition(".")
    return f"{where}.".startswith(f"{path}.") or (where == (above or "(root)") and name in why)


# What the API server would refuse, or the program at its start.
WRONG_FOR_BOTH = """
tolerations:
  - {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: "30"}
  - {key: a, operator: Exist}
  - {key: a, operator: Exists, value: b}
  - {effect: NoSchedule}
  - {key: a, tolerationSeconds: 30}
resources: {cpu: 1}
nodeSelector: {a: true}
podLabels: {a: not a label}
podAnnotations: {a: 1}
affinity: {nodeSelector: {}}
imagePullSecrets: [{secret: a}]
extraEnv: [{name: A B}, {name: A, value: a, valueFrom: {}}, {name: B, vallue: a}]
priorityClassName: Very High
serviceMonitor: {interval: 1.5m}
networkPolicy: {ingressFrom: [{cidr: 10.0.0.0/8}]}
logs: {hostPath: /var/../log}
"""
WRONG_FOR_ONE = {
    PLUGIN_CHART: """
jobs: {tolerations: [{key: a, effekt: NoSchedule}]}
mps: {resources: {limits: {memory: 1GiB}}}
updateStrategy: {rollingUpdate: {maxUnavailable: all, maxSurge: 1}}
kubeletMessageLimit: 65Mi
driverDirs: [/usr/../lib]
""",
    EXTENDER_CHART: """
configManager: {tolerations: [{key: a, effekt: NoSchedule}], filesDir: /etc/kubernetes/../gcushare}
secondScheduler: {resources: {requests: {cpu: [1]}}}
topologySpreadConstraints: [{maxSkew: 1}]
""",
}
COMPLAINTS = {
    *("tolerations.0.tolerationSeconds", "tolerations.1.operator", "tolerations.2.value", "tolerations.3"),
    *("tolerations.4", "resources", "nodeSelector.a", "podLabels.a", "podAnnotations.a", "affinity"),
    *("imagePullSecrets.0", "extraEnv.0.name", "extraEnv.1", "extraEnv.2", "priorityClassName"),
    *("serviceMonitor.interval", "networkPolicy.ingressFrom.0", "logs.hostPath"),
}
COMPLAINTS_OF_ONE = {
    PLUGIN_CHART: {
        *("jobs.tolerations.0", "mps.resources.limits.memory", "updateStrategy.rollingUpdate.maxUnavailable"),
        *("kubeletMessageLimit", "driverDirs.0", "updateStrategy.rollingUpdate"),
    },
    EXTENDER_CHART: {
        *("configManager.tolerations.0", "configManager.filesDir", "secondScheduler.resources.requests.cpu"),
        "topologySpreadConstraints.0",
    },
}
RIGHT_FOR_BOTH = """
tolerations: [{operator: Exists}, {key: a, value: b, effect: NoSchedule}, {key: a, operator: Exists}]
resources: {requests: {cpu: 0.5, memory: 1.5e9}, limits: {cpu: 1, memory: "1.5Gi", nvidia.com/gpu: "1"}}
nodeSelector: {gpu.example.com/Kind_1: "true", empty: ""}
podAnnotations: {example.com/note: "any: text"}
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}
imagePullSecrets: [{name: a.b}]
extraEnv: [{name: A_1.b-c, value: ""}, {name: B, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
priorityClassName: high.example
serviceMonitor: {enabled: true, interval: 1m30s}
networkPolicy: {enabled: true, ingressFrom: [{ipBlock: {cidr: "fd00::/8"}}, {podSelector: {}, namespaceSelector: {}}]}
logs: {hostPath: /var/log/..data}
"""


@pytest.mark.parametrize("chart", WRONG_FOR_ONE, ids=lambda chart: chart.name)
def test_what_kubernetes_would_refuse_is_refused_by_name_and_all_else_taken(chart: Path) -> None:
    refused = attempt(chart, values=WRONG_FOR_BOTH + WRONG_FOR_ONE[chart])
    expected = COMPLAINTS | COMPLAINTS_OF_ONE[chart]
    assert {path for path in expected if f"- {path}: " not in refused.stderr} == set()
    taken = attempt(chart, values=RIGHT_FOR_BOTH)
    assert taken.returncode == 0, taken.stderr


def test_the_schemas_mean_the_same_by_the_same_words() -> None:
    charts = (PLUGIN_CHART, EXTENDER_CHART)
    plugin, extender = (json.loads((chart / "values.schema.json").read_text())["definitions"] for chart in charts)
    assert {name for name in plugin.keys() & extender.keys() if plugin[name] != extender[name]} == set()


@pytest.mark.parametrize(
    ("chart", "sets", "bounds"),
    [
        (PLUGIN_CHART, {"cards.pollInterval": "0.19s"}, "0.2s to 1h"),
        (PLUGIN_CHART, {"idle.after": "0s", "podUse": "true"}, "1s to 744h"),
        (PLUGIN_CHART, {"idle.leastAge": "745h", "podUse": "true"}, "0s to 744h"),
        (EXTENDER_CHART, {"scheduler.timeout": "1m1ms"}, "0.1s to 60s"),
        (EXTENDER_CHART, {"scheduler.timeout": "90s", "scheduler.mode": "second-scheduler"}, "0.1s to 60s"),
        (EXTENDER_CHART, {"scheduler.timeout": "99ms", "scheduler.mode": "none"}, "0.1s to 60s"),
        (EXTENDER_CHART, {"configManager.interval": "49ms"}, "50ms to 1h"),
        (EXTENDER_CHART, {"configManager.waitTimeout": "999ms"}, "1s to 1h"),
        (EXTENDER_CHART, {"configManager.uninstallTimeout": "60m1s"}, "1s to 1h"),
    ],
    ids=str,
)
def test_a_duration_beyond_what_the_program_takes_is_refused(chart: Path, sets: dict[str, str], bounds: str) -> None:
    path, value = next(iter(sets.items()))
    assert f"{path} is {value}, but it must be from {bounds}" in attempt(chart, sets=sets).stderr


def test_a_large_number_is_written_in_full() -> None:
    assert (
        "terminationGracePeriodSeconds: 1000000\n"
        in attempt(PLUGIN_CHART, values="terminationGracePeriodSeconds: 1000000").stdout
    )


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_a_cluster_is_refused_whose_kubelets_do_not_ask_which_ids_to_give_or_whose_claims_share_no_card(
    chart: Path,
) -> None:
    done = attempt(chart, version="v1.18.20")
    assert "chart requires kubeVersion: >=1.19.0-0 which is incompatible with Kubernetes v1.18.20" in done.stderr
    scope = "global." if chart == UMBRELLA_CHART else ""
    refused = attempt(chart, sets={f"{scope}claims.enabled": "true"}, version="v1.35.4")
    assert (refused.returncode != 0, "1.36" in refused.stderr) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_a_value_of_null_is_left_out_or_refused_by_its_name(chart: Path) -> None:
    """Helm takes the default away: the group or value is then gone, for the templates too."""
    values = {
        key: value for key, value in load_yaml((chart / "values.yaml").read_text()).items() if key[:8] != "gcushare"
    }
    ends = set(leaves(values))
    groups = {path.rpartition(".")[0] for path in ends if "." in path}
    for paths in (ends, *({path for path in groups if path.count(".") == depth} for depth in range(3))):
        done = attempt(chart, sets=dict.fromkeys(paths, "null"))
        complaints = [line[2:] for line in done.stderr.splitlines() if line.startswith("- ")]
        refused = {path for path in paths if any(is_about(path, each) and "is required" in each for each in complaints)}
        rest = attempt(chart, sets=dict.fromkeys(paths - refused, "null")) if refused else done
        assert rest.returncode == 0, rest.stderr
        assert not [line for line in rest.stdout.splitlines() if "<nil>" in line or "%!" in line]
        assert not [
            line
            for line in rest.stdout.splitlines()
            if re.search(r"(- --|: )[a-z-]+=$", line) and "log-dir" not in line
        ]


@pytest.mark.parametrize("mode", ["config-manager", "second-scheduler", "none"])
def test_an_upgrade_that_cannot_look_into_a_cluster_renders_as_an_installation(mode: str) -> None:
    arguments = ("template", "test", str(EXTENDER_CHART), "--kube-version", NEWEST, "--set", f"scheduler.mode={mode}")
    first, again = helm(*arguments), helm(*arguments, "--is-upgrade")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == first.stdout


def test_a_cluster_has_one_unit_whatever_value_says_it() -> None:
    for values in (("memoryUnit",), ("claims.memoryUnit",), ("memoryUnit", "claims.memoryUnit")):
        text = attempt(EXTENDER_CHART, sets=dict.fromkeys(values, "MiB") | {"claims.enabled": "true"}).stdout
        assert "--memory-unit=MiB" in text
        assert "'gcushare.io/memory-unit': ['MiB']" in text, "a claim keeps no other unit than that of all"
    assert "--memory-unit" not in attempt(EXTENDER_CHART).stdout
    done = attempt(EXTENDER_CHART, sets={"memoryUnit": "MiB", "claims.memoryUnit": "GiB"})
    assert "memoryUnit is MiB and claims.memoryUnit GiB: a cluster has one unit" in done.stderr
