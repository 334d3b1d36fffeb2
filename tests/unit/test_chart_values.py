"""Every documented value does something, and a wrong one is refused by its name."""

from __future__ import annotations

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
    Rendering,
    attempt,
    helm,
    in_one_worker,
    load_yaml,
    needs_helm,
    render_variants,
)

pytestmark = [needs_helm, in_one_worker]

CONTAINER_TOLERATION = "[{key: accelerator, operator: Exists}]"
SELECTOR = "{ipBlock: {cidr: 10.0.0.0/8}}"

PLUGIN_VALUES: dict[str, tuple[str, str]] = {
    # path: another value than the default, and the other values that it needs to have an effect
    "image.repository": ("registry.local/x", ""),
    "image.name": ("plugin", ""),
    "image.pullPolicy": ("Always", ""),
    "image.tag": ("v2", ""),
    "image.digest": ("sha256:" + "a" * 64, ""),
    "imagePullSecrets": ("[{name: registry}]", ""),
    "nameOverride": ("other", ""),
    "fullnameOverride": ("other", ""),
    "deployName": ("other", ""),
    "memoryUnit": ("0.1", ""),
    "cardCount": ("exact", ""),
    "mode": ("whole", ""),
    "vendor": ("aliyun", ""),
    "claims.enabled": ("true", ""),
    "claims.cardPolicy": ("spread", "claims: {enabled: true}"),
    "cards.source": ("efml", ""),
    "cards.simulated": ("[{memory: 32GiB}]", "cards: {source: simulated, simulated: [{memory: 16GiB}]}"),
    "cards.reserve": ("5%", ""),
    "cards.pollInterval": ("1s", ""),
    "podUse": ("true", ""),
    "bursts": ("ignore", ""),
    "memoryLimit": ("mps", "vendor: aliyun"),
    "mps.root": ("/data/mps", "{vendor: aliyun, memoryLimit: mps}"),
    "limitFallback": ("unlimited", "{vendor: aliyun, memoryLimit: driver}"),
    "mps.resources": ("{limits: {memory: 1Gi}}", "{vendor: aliyun, memoryLimit: mps}"),
    "overUse.action": ("evict", "podUse: true"),
    "overUse.dryRun": ("true", "{podUse: true, overUse: {action: evict}}"),
    "overUse.when": ("always", "podUse: true"),
    "overUse.tolerancePercent": ("10", "podUse: true"),
    "overUse.looks": ("3", "podUse: true"),
    "overUse.exempt": ("[team-a/*]", "podUse: true"),
    "deviceListStrategy": ("[devices, cdi]", ""),
    "driverDirs": ("[/usr/local/nvidia]", ""),
    "efml.hostPath": ("/opt/libefml.so", ""),
    "nvml.hostPath": ("/opt/libnvidia-ml.so.1", "vendor: aliyun"),
    "runtimeClassName": ("nvidia", ""),
    "privileged": ("true", ""),
    "kubelet.rootDir": ("/data/kubelet", ""),
    "otherSystems": ("allow", ""),
    "kubeletMessageLimit": ("16Mi", ""),
    "logs.hostPath": ('""', ""),
    "logs.level": ("debug", ""),
    "logs.format": ("json", ""),
    "port": ("40000", ""),
    "serviceAccount.create": ("false", ""),
    "serviceAccount.name": ("account", ""),
    "serviceAccount.annotations": ("{a: b}", ""),
    "rbac.create": ("false", ""),
    "nodeSelector": ("{pool: cards}", ""),
    "tolerations": (CONTAINER_TOLERATION, ""),
    "affinity": ("{nodeAffinity: {}}", ""),
    "priorityClassName": ("high", ""),
    "resources": ("{limits: {memory: 3Gi}}", ""),
    "updateStrategy": ("{type: OnDelete, rollingUpdate: null}", ""),
    "terminationGracePeriodSeconds": ("30", ""),
    "podAnnotations": ("{a: b}", ""),
    "podLabels": ("{a: b}", ""),
    "extraArgs": ("[--log-level=debug]", ""),
    "extraEnv": ("[{name: A, value: b}]", ""),
    "networkPolicy.enabled": ("true", ""),
    "networkPolicy.ingressFrom": (f"[{SELECTOR}]", "networkPolicy: {enabled: true}"),
    "networkPolicy.apiServerPorts": ("[16443]", "networkPolicy: {enabled: true}"),
    "serviceMonitor.enabled": ("true", ""),
    "serviceMonitor.interval": ("1m", "serviceMonitor: {enabled: true}"),
    "serviceMonitor.labels": ("{release: prometheus}", "serviceMonitor: {enabled: true}"),
    "jobs.nodeSelector": ("{pool: control}", ""),
    "jobs.tolerations": (CONTAINER_TOLERATION, ""),
    "jobs.affinity": ("{nodeAffinity: {}}", ""),
    "cleanup.enabled": ("false", ""),
    "cleanup.removeNodeLabel": ("true", ""),
}
SHARED = frozenset(
    {"image", "imagePullSecrets", "nameOverride", "fullnameOverride", "deployName", "vendor", "logs", "serviceAccount"}
    | {"rbac", "nodeSelector", "tolerations", "affinity", "priorityClassName", "resources", "podAnnotations"}
    | {"podLabels", "extraArgs", "extraEnv", "networkPolicy", "serviceMonitor"}
)
CERT_MANAGER = "tls: {mode: cert-manager, issuer: {name: authority}}"
VERBS_CERT_MANAGER = "verbsTls: {mode: cert-manager, issuer: {name: authority}}"
SECOND = "scheduler: {mode: second-scheduler}"
CLAIMS_ON = "claims: {enabled: true}"
EXTENDER_VALUES: dict[str, tuple[str, str]] = {
    **{path: PLUGIN_VALUES[path] for path in PLUGIN_VALUES if path.split(".")[0] in SHARED},
    "replicaCount": ("3", ""),
    "scheduler.mode": ("none", ""),
    "scheduler.verbs": ("both", ""),
    "scheduler.weight": ("5", ""),
    "scheduler.timeout": ("2s", ""),
    "scheduler.ignorable": ("true", ""),
    "placement.nodePolicy": ("spread", ""),
    "placement.cardPolicy": ("spread", ""),
    "placement.wholeCardPolicy": ("loose", ""),
    "placement.filterAnswer": ("all", ""),
    "dashboard.access": ("open", ""),
    "wholeCards": ("true", ""),
    "claims.enabled": ("true", ""),
    "claims.memoryUnit": ("MiB", CLAIMS_ON),
    "claims.convertPods": ("false", CLAIMS_ON),
    "claims.packNodes": ("false", CLAIMS_ON),
    "claims.callExtender": ("true", CLAIMS_ON),
    "service.type": ("NodePort", ""),
    "service.port": ("80", ""),
    "service.nodePort": ("30001", "service: {type: NodePort}"),
    "service.verbsPort": ("81", ""),
    "service.verbsNodePort": ("30002", "service: {type: NodePort}"),
    "verbsTls.mode": ("secret", "verbsTls: {secretName: given, clientSecretName: given-too}"),
    "verbsTls.secretName": ("given", ""),
    "verbsTls.clientSecretName": ("given", VERBS_CERT_MANAGER),
    "verbsTls.clientName": ("scheduler.example.com", VERBS_CERT_MANAGER),
    "verbsTls.issuer.name": ("other", VERBS_CERT_MANAGER),
    "verbsTls.issuer.kind": ("ClusterIssuer", VERBS_CERT_MANAGER),
    "verbsTls.issuer.group": ("example.com", VERBS_CERT_MANAGER),
    "service.clusterIP": ("10.96.1.37", ""),
    "service.annotations": ("{a: b}", ""),
    "tls.mode": ("secret", "tls: {secretName: given}"),
    "tls.secretName": ("given", CERT_MANAGER),
    "tls.issuer.name": ("other", CERT_MANAGER),
    "tls.issuer.kind": ("ClusterIssuer", CERT_MANAGER),
    "tls.issuer.group": ("example.com", CERT_MANAGER),
    "topologySpreadConstraints": ("[{maxSkew: 2}]", ""),
    "podDisruptionBudget.enabled": ("false", "replicaCount: 2"),
    "configManager.name": ("manager", ""),
    "configManager.mode": ("recover", ""),
    "configManager.kubernetesDir": ("/var/lib/control", ""),
    "configManager.filesDir": ("/var/lib/gcushare", ""),
    "configManager.readOnlyPaths": ("[/etc/kubernetes/scheduler]", ""),
    "configManager.manifest": ("/etc/kubernetes/manifests/s.yaml", ""),
    "configManager.schedulerVersion": ("v1.28.3", ""),
    "configManager.interval": ("30s", ""),
    "configManager.waitTimeout": ("5m", ""),
    "configManager.uninstallTimeout": ("20m", ""),
    "configManager.port": ("40001", ""),
    "configManager.nodeSelector": ("{pool: control}", ""),
    "configManager.affinity": ("{nodeAffinity: {}}", ""),
    "configManager.tolerations": (CONTAINER_TOLERATION, ""),
    "configManager.priorityClassName": ("high", ""),
    "configManager.resources": ("{limits: {memory: 3Gi}}", ""),
    "configManager.extraArgs": ("[--log-level=debug]", ""),
    "secondScheduler.name": ("other-scheduler", SECOND),
    "secondScheduler.replicaCount": ("2", SECOND),
    "secondScheduler.image.repository": ("registry.local/kube-scheduler", SECOND),
    "secondScheduler.image.tag": ("v1.36.0", SECOND),
    "secondScheduler.resources": ("{limits: {memory: 3Gi}}", SECOND),
    "secondScheduler.extraArgs": ("[--v=4]", SECOND),
    "admission.enabled": ("false", ""),
    "admission.protectRecords": ("false", ""),
    "admission.devicePlugin.serviceAccount": ("other", ""),
    "admission.devicePlugin.cleanupServiceAccount": ("other", ""),
    "admission.exemptUsers": ("[admin]", ""),
    "admission.namespaces.exclude": ("[default]", ""),
    "admission.namespaces.requireLabels": ("{gcushare.io/enabled: 'true'}", ""),
    "admission.pods.maxUnits.enflame": ("16", ""),
    "admission.pods.maxUnits.aliyun": ("24", ""),
    "admission.pods.refuseMalformed": ("true", ""),
    "prometheusRule.enabled": ("true", ""),
    "prometheusRule.labels": ("{release: prometheus}", "prometheusRule: {enabled: true}"),
    "prometheusRule.devicePlugin": ("other", "prometheusRule: {enabled: true}"),
    "dashboards.enabled": ("true", ""),
    "dashboards.labels": ("{grafana_folder: cards}", "dashboards: {enabled: true}"),
}
NOT_RENDERED = {
    PLUGIN_CHART: {"replicaCount": "accepted for old values files, and only as 1", "global": "the umbrella chart's"},
    EXTENDER_CHART: {"global": "the umbrella chart's"},
}
TABLES = {PLUGIN_CHART: PLUGIN_VALUES, EXTENDER_CHART: EXTENDER_VALUES}
CASES = [
    pytest.param(chart, path, id=f"{chart.name.split('-')[1]}-{path}") for chart in TABLES for path in TABLES[chart]
]


def leaves(values: Object, path: str = "") -> Iterator[str]:
    """The dotted paths of a values file; a list or an empty map is a leaf."""
    for key, value in values.items():
        here = f"{path}.{key}" if path else key
        is_free = here in ("resources", "updateStrategy", "dashboards.labels") or here.endswith(".resources")
        if isinstance(value, dict) and value and not is_free:
            yield from leaves(value, here)
        else:
            yield here


def values_of(*documents: str) -> Object:
    """Merge YAML maps, the later ones over the earlier."""

    def merge(base: Object, over: Object) -> Object:
        both = {**base, **over}
        for key in base.keys() & over.keys():
            if isinstance(base[key], dict) and isinstance(over[key], dict):
                both[key] = merge(base[key], over[key])
        return both

    whole: Object = {}
    for document in documents:
        whole = merge(whole, load_yaml(document))
    return whole


def nested(path: str, value: str) -> str:
    """Write ``a.b`` as a YAML flow map."""
    keys = path.split(".")
    return "".join(f"{{{key}: " for key in keys) + value + "}" * len(keys)


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Path, str], tuple[str, str]]:
    """What each documented value renders, by chart and path: without it, and with it."""
    found: dict[tuple[Path, str], tuple[str, str]] = {}
    for chart, table in TABLES.items():
        without = {others: values_of(others or "{}") for _, others in table.values()}
        given = [values_of(others or "{}", nested(path, value)) for path, (value, others) in table.items()]
        texts = render_variants(chart, [*without.values(), *given], tmp_path_factory.mktemp("variants") / "all")
        before = dict(zip(without, texts[: len(without)], strict=True))
        after = dict(zip(table, texts[len(without) :], strict=True))
        found |= {(chart, path): (before[table[path][1]], after[path]) for path in table}
    return found


# Helm takes long over some two hundred variants of a chart.
@pytest.mark.slow
@pytest.mark.parametrize(("chart", "path"), CASES)
def test_a_documented_value_changes_what_is_rendered(
    chart: Path, path: str, variants: dict[tuple[Path, str], tuple[str, str]]
) -> None:
    before, after = variants[chart, path]
    assert "kind: " in before
    assert after != before


@pytest.mark.parametrize("chart", TABLES, ids=lambda chart: chart.name)
def test_every_value_of_the_values_file_is_tested(chart: Path) -> None:
    documented = set(leaves(load_yaml((chart / "values.yaml").read_text())))
    assert documented - NOT_RENDERED[chart].keys() == TABLES[chart].keys()


WRONG = {
    PLUGIN_CHART: {
        "memoryUnit": "0.2",
        "cardCount": "many",
        "vendor": "amd",
        "mode": "shared",
        "replicaCount": "2",
        "cards.source": "guess",
        "cards.reserve": "a lot",
        "cards.polInterval": "5s",
        "deviceListStrategy": "{env,magic}",
        "efml.hostPath": "lib/libefml.so",
        "port": "70000",
        "image.pullPolicy": "Sometimes",
        "image.digest": "sha256:12",
        "extraArgs": "{verbose}",
        "global.vendor": "intel",
    },
    EXTENDER_CHART: {
        "replicaCount": "0",
        "scheduler.mode": "static",
        "scheduler.weight": "0",
        "placement.nodePolicy": "random",
        "placement.filterAnswer": "best",
        "placement.wholeCardPolicy": "binpack",
        "wholeCards": "nvidia.com/gpu",
        "service.type": "LoadBalancer",
        "service.clusterIP": "None",
        "tls.mode": "maybe",
        "configManager.name": "m" * 54,
        "configManager.kubernetesDir": "etc",
        "configManager.schedulerVersion": "2.0",
        "configManager.schedulerNamespace": "control",
        "admission.enabled": "sometimes",
        "admission.pods.maxUnits.nvidia": "3",
        "logLevel": "debug",
    },
    UMBRELLA_CHART: {
        "global.vendor": "intel",
        "devicePlugin.enable": "true",
        "gcushare-device-plugin-chart.port": "0",
    },
}
INNER = "gcushare-device-plugin-chart."


@pytest.mark.parametrize("chart", WRONG, ids=lambda chart: chart.name)
def test_every_wrong_value_is_refused_by_name(chart: Path) -> None:
    done = attempt(chart, Rendering(sets=WRONG[chart]))
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


@pytest.mark.parametrize("chart", [PLUGIN_CHART, EXTENDER_CHART, UMBRELLA_CHART], ids=lambda chart: chart.name)
def test_a_cluster_is_refused_whose_kubelets_do_not_ask_which_ids_to_give(chart: Path) -> None:
    done = attempt(chart, Rendering(version="v1.18.20"))
    assert "chart requires kubeVersion: >=1.19.0-0 which is incompatible with Kubernetes v1.18.20" in done.stderr


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_a_value_of_null_is_left_out_or_refused_by_its_name(chart: Path) -> None:
    """Helm takes the default away: the group or value is then gone, for the templates too."""
    values = {
        key: value for key, value in load_yaml((chart / "values.yaml").read_text()).items() if key[:8] != "gcushare"
    }
    ends = set(leaves(values))
    groups = {path.rpartition(".")[0] for path in ends if "." in path}
    for paths in (ends, *({path for path in groups if path.count(".") == depth} for depth in range(3))):
        done = attempt(chart, Rendering(sets=dict.fromkeys(paths, "null")))
        complaints = [line[2:] for line in done.stderr.splitlines() if line.startswith("- ")]
        refused = {path for path in paths if any(is_about(path, each) and "is required" in each for each in complaints)}
        rest = attempt(chart, Rendering(sets=dict.fromkeys(paths - refused, "null")))
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
