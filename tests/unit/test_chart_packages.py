"""The packages hold what the manual says, in step with each other and the project; helm's notes say how to go on."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gcushare._version import __version__
from gcushare.vendors import VENDORS, Vendor
from tests.charts import (
    CHARTS,
    DEPLOY,
    EXTENDER_CHART,
    HELM,
    NEWEST,
    PLUGIN_CHART,
    UMBRELLA_CHART,
    helm,
    in_one_worker,
    load_objects,
    load_yaml,
    needs_helm,
    one,
    rendered,
)

# Chapter 2.5 of the manual.
MANUAL_FILES = {
    PLUGIN_CHART: "Chart.yaml values.yaml templates/clusterrolebinding.yaml templates/clusterrole.yaml "
    "templates/daemonset.yaml templates/serviceaccount.yaml",
    EXTENDER_CHART: "Chart.yaml values.yaml templates/clusterrolebinding.yaml templates/clusterrole.yaml "
    "templates/daemonset-config-manager.yaml templates/deployment.yaml templates/serviceaccount.yaml "
    "templates/service.yaml",
}
WRITTEN_BY_HAND = {*DEPLOY.glob("manifests/gpushare/config/scheduler-*"), *DEPLOY.glob("manifests/gpushare/samples/*")}


@pytest.mark.parametrize("chart", MANUAL_FILES, ids=lambda chart: chart.name)
def test_the_chart_has_the_files_of_the_manual(chart: Path) -> None:
    assert [name for name in MANUAL_FILES[chart].split() if not (chart / name).is_file()] == []


def uncommented(values: Path) -> list[str]:
    """Keys without a comment above them, above a key that they are below, or at the top of their paragraph."""
    found, above = [], [(-1, "", False)]
    is_described = False
    for line in values.read_text().splitlines():
        text = line.strip()
        is_described = bool(text) and (is_described or text.startswith("#"))
        if (key := re.match(r" *([\w-]+):", line)) is None:
            continue
        depth = len(line) - len(line.lstrip())
        while above[-1][0] >= depth:
            above.pop()
        above.append((depth, key[1], is_described))
        if not any(has_comment for _, _, has_comment in above):
            found.append(".".join(name for _, name, _ in above[1:]))
    return found


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_every_value_of_a_chart_is_described_and_the_chart_itself(chart: Path) -> None:
    assert uncommented(chart / "values.yaml") == []
    about = load_yaml((chart / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"], bool(about["maintainers"])) == (__version__, __version__, True)
    assert (chart / "README.md").read_text().startswith(f"# {chart.name}\n")


def enums_of(schema: object) -> list[list[object]]:
    """Every list of accepted values in a schema."""
    if isinstance(schema, list):
        return [enum for each in schema for enum in enums_of(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema["enum"]] if isinstance(schema.get("enum"), list) else []
    return own + [enum for each in schema.values() for enum in enums_of(each)]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_no_list_of_accepted_values_has_a_number_and_its_text(chart: Path) -> None:
    # Helm 4 takes 1 and "1" for equal, and refuses a schema whose enum has both.
    for enum in enums_of(json.loads((chart / "values.schema.json").read_text())):
        assert len({str(each) for each in enum}) == len(enum), enum


def test_the_umbrella_holds_the_charts_themselves() -> None:
    about = load_yaml((UMBRELLA_CHART / "Chart.yaml").read_text())
    linked = {path.name: path.resolve() for path in (UMBRELLA_CHART / "charts").iterdir()}
    assert linked == {chart.name: chart for chart in (PLUGIN_CHART, EXTENDER_CHART)}
    for each in about["dependencies"]:
        where = UMBRELLA_CHART / each["repository"].removeprefix("file://")
        assert (where.resolve(), each["version"]) == (linked[each["name"]], __version__)


@needs_helm
@in_one_worker
def test_the_umbrella_renders_what_the_two_charts_render() -> None:
    alone = [*rendered(PLUGIN_CHART, "vendor=both"), *rendered(EXTENDER_CHART, "vendor=both")]
    together = rendered(UMBRELLA_CHART, "global.vendor=both")
    assert sorted(map(json.dumps, together)) == sorted(map(json.dumps, alone))


@needs_helm
@in_one_worker
@pytest.mark.parametrize("half", ["devicePlugin", "schedulerExtender"])
def test_one_half_can_be_left_out(half: str) -> None:
    charts = {"devicePlugin": EXTENDER_CHART, "schedulerExtender": PLUGIN_CHART}
    assert rendered(UMBRELLA_CHART, f"{half}.enabled=false") == rendered(charts[half])


@pytest.mark.slow
@needs_helm
@in_one_worker
def test_the_plain_manifests_are_what_the_charts_render(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HELM": HELM, "HOME": "/nonexistent", "GOGC": "400"}
    subprocess.run([DEPLOY / "manifests/render.sh", tmp_path], env=environment, check=True, timeout=240)
    rendered = [path for path in DEPLOY.glob("manifests/**/*.yaml") if path not in WRITTEN_BY_HAND]
    committed = {path.relative_to(DEPLOY / "manifests"): path.read_text() for path in rendered}
    fresh = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.yaml")}
    assert fresh == committed, "run deploy/manifests/render.sh"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl on PATH")
@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
@pytest.mark.parametrize("names", [("gcushare.yaml", "admission.yaml"), ("claims.yaml",)], ids="+".join)
def test_kustomize_takes_the_plain_manifests(vendor: Vendor, names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        shutil.copy(DEPLOY / "manifests" / vendor.name / name, tmp_path)
    labels = [{"pairs": {"team": "a"}, "includeTemplates": True}]
    (tmp_path / "kustomization.yaml").write_text(json.dumps({"resources": names, "labels": labels}))
    done = subprocess.run(["kubectl", "kustomize", tmp_path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert {each["metadata"]["labels"]["team"] for each in load_objects(done.stdout)} == {"a"}


def test_the_plain_manifests_hold_nothing_that_only_helm_reads() -> None:
    for path in DEPLOY.glob("manifests/**/*.yaml"):
        text = path.read_text()
        assert "helm" not in text.lower(), path
        assert load_objects(text), path


STEPS = {
    ("scheduler.mode=config-manager",): "kubectl get configmap gcushare-config-manager",
    ("scheduler.mode=second-scheduler",): "schedulerName: gcushare-scheduler",
    ("scheduler.mode=none",): "gcushare-config-manager apply --unit",
    ("scheduler.mode=none", "scheduler.verbs=off"): "",
}
"""How pods come to the extender; no scheduler is to call one that answers none."""

NOTES = """\
kind: ConfigMap
metadata: {name: notes}
data:
  notes: |
{{ include (print $.Template.BasePath "/NOTES.txt") . | indent 4 }}
"""


def notes(chart: Path, folder: Path, *sets: str) -> str:
    """The notes, by way of an object: ``helm template`` prints objects alone."""
    copy = Path(shutil.copytree(chart, folder / "chart"))
    (copy / "templates" / "notes.yaml").write_text(NOTES)
    path = "gcushare-scheduler-extender-chart." if chart == UMBRELLA_CHART else ""
    given = [word for each in sets for word in ("--set", path + each)]
    done = helm("template", "test", str(copy), "-n", "cards", "--kube-version", NEWEST, *given)
    assert done.returncode == 0, done.stderr
    text: str = one(load_objects(done.stdout), "ConfigMap", "notes")["data"]["notes"]
    return text


@needs_helm
@in_one_worker
@pytest.mark.parametrize("chart", [EXTENDER_CHART, UMBRELLA_CHART], ids=lambda chart: chart.name)
@pytest.mark.parametrize("values", STEPS, ids="+".join)
def test_the_notes_say_how_pods_come_to_the_extender(chart: Path, values: tuple[str, ...], tmp_path: Path) -> None:
    text = notes(chart, tmp_path, *values, "vendor=aliyun")
    assert "".join(step for step in STEPS.values() if step in text) == STEPS[values]
    assert "\n\n\n" not in text
    if values == ("scheduler.mode=none",):
        vendor = "enflame" if chart == UMBRELLA_CHART else "aliyun"  # global.vendor overrules
        assert f"--vendor {vendor} \\\n" in text
        assert "--extender-service cards/gcushare-scheduler-extender \\\n" in text
