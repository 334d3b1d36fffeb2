"""What holds for every object that the charts can render and for the plain manifests: placement, names, images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gcushare.wire.contracts import LEADS_LABEL
from tests.charts import (
    CHARTS,
    DEPLOY,
    EVERYTHING,
    EXTENDER_CHART,
    NAMESPACE,
    NEWEST,
    UMBRELLA_CHART,
    Object,
    attempt,
    containers,
    helm,
    in_one_worker,
    load_objects,
    needs_helm,
    of_kind,
    pod_specs,
    render_everything,
    rendered,
)

pytestmark = [needs_helm, in_one_worker]

PLUGIN, EXTENDER = "gcushare-device-plugin-chart.", "gcushare-scheduler-extender-chart."
ALL = sorted(EVERYTHING)
MANIFESTS = sorted(
    path
    for path in DEPLOY.glob("manifests/**/*.yaml")
    if path.parent.name != "samples" and "scheduler-" not in path.name
)

# Where a pod is to run, by the values that decide it.
PLACES = {
    PLUGIN: (
        "DaemonSet/gcushare-device-plugin",
        "DaemonSet/gcushare-device-plugin-aliyun",
        "DaemonSet/gcushare-device-plugin-aliyun-mps",
    ),
    f"{PLUGIN}jobs.": (
        "Job/gcushare-device-plugin-cleanup",
        "Pod/gcushare-device-plugin-test-enflame",
        "Pod/gcushare-device-plugin-test-aliyun",
    ),
    EXTENDER: (
        "Deployment/gcushare-scheduler-extender",
        "Deployment/gcushare-scheduler",
        "Job/gcushare-config-manager-uninstall",
        "Pod/gcushare-scheduler-extender-test",
    ),
    f"{EXTENDER}configManager.": ("DaemonSet/gcushare-config-manager",),
}
TAINTS_OF_OTHERS = (
    {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    {"key": "os", "value": "windows", "effect": "NoSchedule"},
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
)


def tolerates(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    """Kubernetes' rule: an empty effect or key means every one."""
    return (
        toleration.get("effect", "") in ("", taint["effect"])
        and toleration.get("key", "") in ("", taint["key"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
    )


def sources() -> Iterator[tuple[str, Sequence[Object]]]:
    yield from render_everything().items()
    for path in MANIFESTS:
        yield str(path), load_objects(path.read_text())


def test_every_pod_runs_on_linux_and_those_of_no_particular_node_stay_off_dead_ones() -> None:
    seen = set()
    for source, objects in sources():
        for name, spec in pod_specs(objects).items():
            seen.add(name)
            assert spec["nodeSelector"]["kubernetes.io/os"] == "linux", (source, name)
            if not name.startswith("DaemonSet/"):
                accepted = [
                    (t, taint) for t in spec.get("tolerations", ()) for taint in TAINTS_OF_OTHERS if tolerates(t, taint)
                ]
                assert accepted == [], (source, name)
                assert any(t["key"].endswith("/control-plane") for t in spec["tolerations"]), (source, name)
    assert {name for names in PLACES.values() for name in names} <= seen


def test_the_values_decide_where_every_pod_runs() -> None:
    affinity = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    pairs = [
        pair
        for number, path in enumerate(PLACES)
        for pair in (
            f"{path}nodeSelector.kubernetes\\.io/arch=arch{number}",
            f"{path}nodeSelector.kubernetes\\.io/os=linux",
            f"{path}tolerations[0].key=key{number}",
            f"{path}{affinity}.matchFields[0].key=field{number}",
        )
    ]
    found = {name: spec for objects in render_everything(*pairs).values() for name, spec in pod_specs(objects).items()}
    assert set(found) == {name for names in PLACES.values() for name in names}
    for number, names in enumerate(PLACES.values()):
        for name in names:
            spec = found[name]
            assert spec["nodeSelector"]["kubernetes.io/arch"] == f"arch{number}", name
            assert [each["key"] for each in spec["tolerations"][:1]] == [f"key{number}"], name
            assert f"'field{number}'" in str(spec["affinity"]), name


def test_every_container_names_what_a_quota_of_its_namespace_may_count() -> None:
    own = ("", "configManager.", "secondScheduler.")
    amounts = ("requests.cpu=1", "requests.memory=1Gi", "limits.cpu=1", "limits.memory=1Gi")
    paths = (PLUGIN, f"{PLUGIN}mps.", *(f"{EXTENDER}{path}" for path in own))
    found = render_everything(*(f"{path}resources.{each}" for path in paths for each in amounts))
    for name, spec in ((name, spec) for objects in found.values() for name, spec in pod_specs(objects).items()):
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            given = container["resources"]
            assert {"cpu", "memory"} <= given["limits"].keys() & given["requests"].keys(), (name, container["name"])


def scalars(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar of a document by its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from scalars(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from scalars(inner, f"{path}[{index}]")
    else:
        yield path, value


NAMES = {
    **{f"{PLUGIN}{key}": word for key, word in (("deployName", "null"), ("fullnameOverride", "true"))},
    **{f"{EXTENDER}{key}": word for key, word in (("deployName", "false"), ("fullnameOverride", "yes"))},
    **{f"{chart}nameOverride": word for chart, word in ((PLUGIN, "1e3"), (EXTENDER, "12"))},
    **{f"{chart}serviceAccount.name": word for chart, word in ((PLUGIN, "0x1f"), (EXTENDER, "1e3"))},
    **{f"{EXTENDER}{key}": word for key, word in (("configManager.name", "on"), ("secondScheduler.name", "07"))},
    **{
        f"{EXTENDER}{key}": "1e3" for key in ("priorityClassName", "verbsTls.secretName", "prometheusRule.devicePlugin")
    },
    **{f"{PLUGIN}{key}": "null" for key in ("priorityClassName", "runtimeClassName")},
}
"""All that a value can name, and a name for it that YAML takes for something else; Services begin with a letter."""


@cache
def called(name: str, release: str, namespace: str, before: str) -> tuple[Object, ...]:
    """Everything with these names of the release, its namespace, and ``NAMES`` with something before them."""
    sets = [word for pair in EVERYTHING[name] for word in ("--set", pair)]
    strings = [word for path, odd in NAMES.items() for word in ("--set-string", f"{path}={before}{odd}")]
    place = ("--namespace", namespace, "--kube-version", NEWEST)
    done = helm("template", release, str(UMBRELLA_CHART), *place, *sets, *strings)
    assert done.returncode == 0, done.stderr
    return tuple(load_objects(done.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("word", ["null", "1e3"])
@pytest.mark.parametrize("name", ALL)
def test_a_name_that_yaml_takes_for_something_else_stays_a_name(word: str, name: str) -> None:
    usual, odd = called(name, "release", "space", "a"), called(name, word, word, "")
    kinds = [
        sorted(str([(path, type(value)) for path, value in scalars(each)]) for each in found) for found in (usual, odd)
    ]
    assert kinds[1] == kinds[0]
    assert not [path for each in odd for path, value in scalars(each) if value is None]


CLASH = "are both"
NODE_PORT = f"{EXTENDER}service.type=NodePort,{EXTENDER}"
REFUSED = {
    f"{PLUGIN}podLabels.app\\.kubernetes\\.io/component=gpu": "the chart itself sets it",
    f"{EXTENDER}podLabels.gcushare\\.io/leads=x": "the replica that leads gives its own pod: take it out of podLabels",
    f"{EXTENDER}nodeSelector.kubernetes\\.io/os=windows": "the chart itself sets it",
    f"{PLUGIN}extraEnv[0].name=A,{PLUGIN}extraEnv[1].name=A": "sets A twice",
    f"{EXTENDER}extraEnv[0].name=A,{EXTENDER}extraEnv[0].value=1": "extraEnv.0.value: Invalid type",
    f"{PLUGIN}fullnameOverride=cards,{EXTENDER}deployName=cards": CLASH,
    f"{PLUGIN}serviceAccount.name=cards,{EXTENDER}serviceAccount.name=cards": CLASH,
    f"{PLUGIN}serviceAccount.name=gcushare-device-plugin-cleanup": CLASH,
    f"{EXTENDER}configManager.name=a,{EXTENDER}deployName=a-uninstall": CLASH,
    f"{EXTENDER}serviceAccount.name=gcushare-dashboard": CLASH,
    f"{EXTENDER}scheduler.mode=second-scheduler,{EXTENDER}secondScheduler.name=gcushare-scheduler-extender": CLASH,
    **{
        f"{chart}networkPolicy.enabled=true": "would let everyone in: name who may call" for chart in (PLUGIN, EXTENDER)
    },
    f"{EXTENDER}configManager.filesDir=/etc/kubernetes/manifests": "use another directory",
    f"{EXTENDER}service.verbsPort=32766": "service.port and service.verbsPort are both 32766",
    f"{NODE_PORT}configManager.port=32766": "configManager.port and service.nodePort are both 32766",
    **{
        f"global.vendor=aliyun,{PLUGIN}memoryLimit=mps,{PLUGIN}mps.root={root}": f"mps.root is {root}, but"
        for root in ("/tmp", "/dev/mps", "/var/./run", "/var/lib/kubelet")
    },
}
"""Values that make objects which Kubernetes refuses, or one object in place of another; and what the chart says."""


@pytest.mark.parametrize(
    "values", [pytest.param(each, marks=pytest.mark.slow if "mps.root=/var" in each else ()) for each in REFUSED]
)
def test_objects_that_kubernetes_would_not_take_are_refused_by_the_value_that_names_them(values: str) -> None:
    done = attempt(UMBRELLA_CHART, sets=dict(pair.split("=", 1) for pair in values.split(",")))
    assert done.returncode != 0
    assert REFUSED[values] in done.stderr


@pytest.mark.parametrize(
    ("verbs", "leads"), [("auto", "gcushare-scheduler-extender"), ("off", None)], ids=["scheduler", "claims alone"]
)
def test_replicas_roll_and_drain_one_by_one_and_the_services_select_who_leads_where_it_may_say_so(
    verbs: str, leads: str | None
) -> None:
    mode = f"{EXTENDER}scheduler.mode=none,{EXTENDER}scheduler.verbs={verbs},{EXTENDER}replicaCount=2"
    objects = rendered(UMBRELLA_CHART, *mode.split(","))
    for each in of_kind(objects, "Service"):
        if "metrics" not in each["metadata"]["name"]:
            assert each["spec"]["selector"].get(LEADS_LABEL) == leads
    (deployment,) = (each["spec"] for each in of_kind(objects, "Deployment"))
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (container,) = deployment["template"]["spec"]["containers"]
    assert ("POD_NAME" in str(container.get("env"))) is (leads is not None)
    roles = {each["metadata"]["name"]: each["rules"] for each in of_kind(objects, "ClusterRole")}
    may_label = any("pods/status" in rule["resources"] for rule in roles["gcushare-scheduler-extender"])
    assert may_label is (leads is not None)
    (budget,) = of_kind(objects, "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return bool(selector.get("matchLabels", selector).items() <= labels.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_charts_that_are_called_the_same_select_their_own_pods_and_mount_nothing_twice(name: str) -> None:
    paths = ("/srv/a", "/srv/a", "/etc/kubernetes/manifests", "/etc/kubernetes/gcushare")
    pairs = [f"{EXTENDER}configManager.readOnlyPaths[{at}]={path}" for at, path in enumerate(paths)]
    called = [f"{chart}nameOverride=gcushare" for chart in (PLUGIN, EXTENDER)]
    objects = rendered(UMBRELLA_CHART, *EVERYTHING[name], *pairs, *called)
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in of_kind(objects, "DaemonSet", "Deployment", "Job")
    }
    labels["gcushare-scheduler-extender"][LEADS_LABEL] = "gcushare-scheduler-extender"  # as the replica that leads
    for each in of_kind(objects, "DaemonSet", "Deployment"):
        own = each["metadata"]["name"]
        assert [other for other in labels if selects(each["spec"]["selector"], labels[other])] == [own]
    for each in of_kind(objects, "Service", "NetworkPolicy", "PodDisruptionBudget"):
        owners = {
            other.removesuffix("-aliyun")
            for other in labels
            if selects(each["spec"].get("selector") or each["spec"]["podSelector"], labels[other])
        }
        assert owners == {each["metadata"]["name"].removesuffix("-metrics").removesuffix("-page")}
    services = [each["metadata"] for each in of_kind(objects, "Service")]
    for each in of_kind(objects, "ServiceMonitor"):
        found = [about["name"] for about in services if selects(each["spec"]["selector"], about["labels"])]
        assert found == [f"{each['metadata']['name']}-metrics"]
    for spec in pod_specs(objects).values():
        for container in containers(spec):
            places = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
            assert len(set(places)) == len(places)


@pytest.mark.parametrize(("version", "is_mounted"), [("v1.19.16", False), ("v1.20.2", True)])
def test_before_its_certificate_was_in_every_namespace_the_token_comes_as_usual(version: str, is_mounted: bool) -> None:
    spec = pod_specs(rendered(EXTENDER_CHART, version=version))["Deployment/gcushare-scheduler-extender"]
    assert spec["automountServiceAccountToken"] is not is_mounted
    assert ("kube-root-ca.crt" in str(spec)) is is_mounted


def test_labels_of_ones_own_are_on_every_object_and_pod() -> None:
    for objects in render_everything(
        "global.commonLabels.team=cards", "global.commonLabels.acme\\.com/cost=a-1"
    ).values():
        for each in objects:
            metadata = [each["metadata"], each.get("spec", {}).get("template", {}).get("metadata", each["metadata"])]
            for labels in (about["labels"] for about in metadata):
                assert labels.items() >= {"team": "cards", "acme.com/cost": "a-1"}.items(), each["metadata"]["name"]
            assert "team" not in each.get("spec", {}).get("selector", {}).get("matchLabels", {})


def test_security_contexts_are_added_to_and_fields_of_the_charts_own_replaced() -> None:
    pairs = [f"{chart}podSecurityContext.seLinuxOptions.type=spc_t" for chart in (PLUGIN, EXTENDER)]
    pairs += [f"{chart}securityContext.seLinuxOptions.level=s0" for chart in (PLUGIN, EXTENDER)]
    pairs += [f"{EXTENDER}securityContext.runAsUser=1000800000"]
    for objects in render_everything(*pairs).values():
        specs = pod_specs(objects)
        for name, spec in specs.items():
            assert spec["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}, name
        own = {each["name"]: each["securityContext"] for spec in specs.values() for each in spec["containers"]}
        for name, user in (("gcushare-device-plugin", 0), ("gcushare-scheduler-extender", 1000800000)):
            assert own[name]["seLinuxOptions"] == {"level": "s0"}
            assert (own[name]["runAsUser"], own[name]["readOnlyRootFilesystem"]) == (user, True)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
@pytest.mark.parametrize("key", ["imageRegistery", "image.registry", "claims.enable", "commonLabels.helm\\.sh/chart"])
def test_a_value_below_global_that_no_chart_reads_is_refused(chart: Path, key: str) -> None:
    """Unless our chart is part of another one, which has values of its own there: the test above."""
    done = attempt(chart, sets={f"global.{key}": "x"})
    assert done.returncode != 0
    assert key.split(".")[0] in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chart", "enabled"),
    [*((chart, True) for chart in CHARTS), (UMBRELLA_CHART, False)],
    ids=["plugin", "extender", "both", "neither"],
)
def test_a_chart_may_depend_on_ours_under_a_condition(chart: Any, enabled: bool, tmp_path: Any) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / chart.name).symlink_to(chart)
    name = chart.name
    (tmp_path / "Chart.yaml").write_text(
        f"apiVersion: v2\nname: platform\nversion: 1.0.0\ndependencies:\n"
        f"  - {{name: {name}, version: 0.1.0, repository: 'file://x', condition: {name}.enabled, tags: [cards]}}\n"
    )
    switched = f"{{enabled: {str(enabled).lower()}, tags: {{cards: true}}}}"
    (tmp_path / "values.yaml").write_text(
        f"{name}: {switched}\nglobal: {{storageClass: fast}}\ntags: {{cards: true}}\n"
    )
    place = ("--namespace", NAMESPACE, "--kube-version", NEWEST)
    done = helm("template", "test", str(tmp_path), *place)
    assert done.returncode == 0, done.stderr
    assert tuple(load_objects(done.stdout)) == (rendered(chart) if enabled else ())
    misspelt = helm("template", "test", str(tmp_path), *place, "--set", f"{name}.enabled=true,{name}.enable=true")
    assert "Additional property enable is not allowed" in misspelt.stderr
    assert "- enabled: " in attempt(chart, sets={"enabled": "false"}).stderr


def test_another_namespace_reaches_everything() -> None:
    """What stays in kube-system is what Kubernetes has there, and namespaces that are exempt."""
    for name, values in EVERYTHING.items():
        sets = [word for pair in values for word in ("--set", pair)]
        done = helm("template", "test", str(UMBRELLA_CHART), "--namespace", "cards", "--kube-version", NEWEST, *sets)
        for each in load_objects(done.stdout):
            left = [path for path, value in scalars(each) if "kube-system" in str(value)]
            if each["kind"] == "DaemonSet":
                assert all("--over-use-exempt=" in dict(scalars(each))[path] for path in left), (name, left)
            elif each["metadata"]["name"].endswith("-pod-variables"):
                assert all("request.namespace in" in dict(scalars(each))[path] for path in left), (name, left)
            elif left:
                assert (each["kind"], left) in (
                    ("Role", [".metadata.namespace"]),
                    ("RoleBinding", [".metadata.namespace"]),
                ), name
                assert each["metadata"]["name"].endswith(("-mirror-pods", "-authentication-reader"))
