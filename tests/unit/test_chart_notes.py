"""What helm says after an installation: how pods come to the extender, by either chart and in every mode."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.charts import EXTENDER_CHART, NEWEST, UMBRELLA_CHART, helm, in_one_worker, load_objects, needs_helm, one

pytestmark = [needs_helm, in_one_worker]

STEPS = {
    "config-manager": "kubectl get configmap gcushare-config-manager",
    "second-scheduler": "schedulerName: gcushare-scheduler",
    "none": "gcushare-config-manager apply --unit",
}
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


@pytest.mark.parametrize("chart", [EXTENDER_CHART, UMBRELLA_CHART], ids=lambda chart: chart.name)
@pytest.mark.parametrize("mode", STEPS)
def test_the_notes_say_how_pods_come_to_the_extender(chart: Path, mode: str, tmp_path: Path) -> None:
    text = notes(chart, tmp_path, f"scheduler.mode={mode}", "vendor=aliyun")
    assert [step for step in STEPS.values() if step in text] == [STEPS[mode]]
    assert "\n\n\n" not in text
    if mode == "none":
        vendor = "enflame" if chart == UMBRELLA_CHART else "aliyun"  # global.vendor overrules
        assert f"--vendor {vendor} \\\n" in text
        assert "--extender-service cards/gcushare-scheduler-extender \\\n" in text


@pytest.mark.parametrize("chart", [EXTENDER_CHART, UMBRELLA_CHART], ids=lambda chart: chart.name)
def test_no_scheduler_is_to_call_an_extender_that_answers_none(chart: Path, tmp_path: Path) -> None:
    text = notes(chart, tmp_path, "scheduler.mode=none", "scheduler.verbs=off")
    assert not [step for step in STEPS.values() if step in text]
