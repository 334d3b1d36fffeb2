"""The dashboards: what is committed is what scripts/grafana writes, and Grafana can lay it out and ask for it."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scripts.grafana.__main__ import FILES
from scripts.grafana.cluster import CLUSTER
from scripts.grafana.model import GRID_WIDTH, Kind, Panel, Query, Row
from scripts.grafana.node import NODE
from scripts.grafana.rendering import render

from tests.charts import Object
from tests.documents import ROOT
from tests.monitoring import DASHBOARDS, VARIABLES, panels_of, read_dashboard

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
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


@every_dashboard
def test_every_question_goes_to_the_source_that_is_chosen_at_the_top(path: Path) -> None:
    dashboard = read_dashboard(path)
    variables = dashboard["templating"]["list"]
    assert (variables[0]["name"], variables[0]["type"]) == ("datasource", "datasource")
    asked = [variable["datasource"] for variable in variables[1:]]
    for panel in panels_of(dashboard):
        asked += [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert all(source == SOURCE for source in asked)


@every_dashboard
def test_every_variable_that_is_used_is_one_of_the_dashboards_or_of_grafana(path: Path) -> None:
    dashboard = read_dashboard(path)
    own = {f"${variable['name']}" for variable in dashboard["templating"]["list"]}
    used = {
        name
        for panel in panels_of(dashboard)
        for target in panel["targets"]
        for name in re.findall(r"\$\w+", target["expr"])
    }
    assert used - own - {"$__rate_interval", "$__range"} == set()
    assert used <= set(VARIABLES)


def test_the_dashboards_lead_to_each_other() -> None:
    uids = {path: read_dashboard(path)["uid"] for path in DASHBOARDS}
    links = {path: {link["url"] for link in read_dashboard(path)["links"]} for path in DASHBOARDS}
    for path, uid in uids.items():
        others = {f"/d/{other}" for other in uids.values() if other != uid}
        assert links[path] == others
    nodes = next(panel for panel in panels_of(render(CLUSTER)) if panel["title"] == "Nodes")
    (link,) = [
        each["value"][0]["url"]
        for override in nodes["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "links"
    ]
    assert link.startswith(f"/d/{NODE.uid}?")
    variables = {variable.name for variable in NODE.variables}
    assert set(re.findall(r"var-(\w+)=", link)) == variables


@every_dashboard
def test_every_column_that_is_set_up_is_one_of_the_table(path: Path) -> None:
    for panel in panels_of(read_dashboard(path)):
        named = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
        if panel["type"] != "table":
            assert not named
            continue
        (organize,) = [step["options"] for step in panel["transformations"] if step["id"] == "organize"]
        labels = set(organize["indexByName"]) - set(organize["renameByName"])
        assert named <= labels | set(organize["renameByName"].values())
        assert len(organize["renameByName"]) == len(panel["targets"])


def test_panels_flow_into_the_next_line_below_the_tallest() -> None:
    def panel(width: int, height: int) -> Panel:
        return Panel(kind=Kind.STAT, title="x", about="x", queries=(Query("up"),), width=width, height=height)

    rows = (Row("first", (panel(12, 4), panel(12, 6), panel(8, 3))), Row("second", (panel(24, 2),)))
    found = render(replace(CLUSTER, rows=rows))["panels"]
    assert [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in found] == [
        *((0, 0), (0, 1), (12, 1), (0, 7)),
        *((0, 10), (0, 11)),
    ]
