"""The dashboards: what is committed is what scripts/grafana writes, and Grafana can lay it out and ask for it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.grafana.__main__ import FILES
from scripts.grafana.model import GRID_WIDTH

from tests.charts import Object
from tests.documents import ROOT
from tests.monitoring import DASHBOARDS, panels_of, read_dashboard

every_dashboard = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def cells(panel: Object) -> set[tuple[int, int]]:
    place = panel["gridPos"]
    columns = range(place["x"], place["x"] + place["w"])
    return set(itertools.product(columns, range(place["y"], place["y"] + place["h"])))


def test_the_committed_files_are_what_the_script_writes() -> None:
    assert set(DASHBOARDS) == set(FILES)
    words = (sys.executable, "-m", "scripts.grafana", "--check")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")


@every_dashboard
def test_no_two_panels_share_a_number_or_a_place(path: Path) -> None:
    panels = read_dashboard(path)["panels"]
    numbers = [panel["id"] for panel in panels]
    assert len(set(numbers)) == len(numbers)
    for one, other in itertools.combinations(panels, 2):
        assert not cells(one) & cells(other), (one["title"], other["title"])
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= GRID_WIDTH for panel in panels)


@every_dashboard
def test_every_panel_says_what_it_shows_and_in_which_unit(path: Path) -> None:
    panels = panels_of(read_dashboard(path))
    assert len(panels) > 15
    for panel in panels:
        defaults = panel["fieldConfig"]["defaults"]
        assert len(panel["description"]) > 20, panel["title"]
        assert defaults["unit"]
        assert defaults["thresholds"]["steps"][0]["value"] is None, panel["title"]


def test_a_months_table_keeps_to_its_month_whatever_time_the_dashboard_shows() -> None:
    """As Grafana reads them: from the first of this month on; shifted by a month, to its end."""
    panels = [panel for path in DASHBOARDS for panel in panels_of(read_dashboard(path))]
    spans = {panel["title"]: (panel["timeFrom"], panel.get("timeShift")) for panel in panels if "timeFrom" in panel}
    assert spans == {"GiB-hours this month": ("now/M", None), "GiB-hours last month": ("now/M", "1M/M")}
