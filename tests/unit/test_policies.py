"""A placement policy is one entry of ``gcushare.core.placement``; everything else follows from it or is generated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gcushare.core.placement import POLICIES, WHOLE_CARD_POLICIES
from tests.charts import EXTENDER_CHART, ROOT, Rendering, attempt, needs_helm

LAST = 'Policy("spread", _emptiest_node, _emptiest_card, "takes the emptiest", "the emptiest"),\n'
THIRD = '        Policy("third", _emptiest_node, _fullest_card, "prefers the third", "the third"),\n'
"""What a developer would add to the table; here only to a copy of the package."""

USES = """
from gcushare.cli.simulate.simulate_settings import POLICIES as SIMULATED
from gcushare.core.cards import Card, InventoryCard
from gcushare.core.fit_index import ChangeLog, FitIndexes, Shape
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import PodRef
from gcushare.core.placement import POLICIES
from gcushare.core.requests import CardRequest
from gcushare.core.units import parse_memory_unit
from gcushare.wire.pods import pod_options

options = pod_options({f"gcushare.io/{key}-policy": "third" for key in ("node", "card")})
ledger = Ledger()
indexes = FitIndexes(ledger.nodes, ChangeLog(ledger))
card = InventoryCard(index=0, uuid="", memory_bytes=0, units=16)
ledger.set_node("node-1", [card], parse_memory_unit("GiB"))
index = indexes.get(Shape(CardRequest(4), options.node_policy))
assert index.best({"node-1"}, 1) == ["node-1"]
assert index.scores(["node-1"]) == [10]
ledger.reserve(PodRef("uid", "default", "p"), "node-1", CardRequest(4), POLICIES[options.card_policy].rank_card)
assert "third" in dict(SIMULATED)
"""


@pytest.mark.parametrize("name", ["user-guide.md", "api-reference.md", "zh/user-guide.md", "zh/api-reference.md"])
@pytest.mark.parametrize(
    ("key", "names"),
    [("node-policy", POLICIES), ("card-policy", POLICIES), ("whole-card-policy", WHOLE_CARD_POLICIES)],
)
def test_the_documents_name_every_policy(name: str, key: str, names: Mapping[str, object]) -> None:
    items = re.findall(rf"(?m)^- `gcushare.io/{key}`.*(?:\n {{2}}.*)*", (ROOT / "docs" / name).read_text())
    assert items
    for item in items:
        assert [each for each in names if f"`{each}`" not in item] == [], f"add them to docs/{name}"


@pytest.mark.slow
@needs_helm
def test_a_third_policy_is_one_entry(tmp_path: Path) -> None:
    """Settings, help, annotations, placement, simulate and the generated chart know it; nothing else was edited."""
    shutil.copytree(ROOT / "src/gcushare", tmp_path / "gcushare", ignore=shutil.ignore_patterns("__pycache__"))
    deploy = shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    chart = deploy / EXTENDER_CHART.relative_to(ROOT / "deploy")
    placement = tmp_path / "gcushare/core/placement.py"
    text = placement.read_text()
    assert LAST in text
    placement.write_text(text.replace(LAST, LAST + THIRD))

    def python(*words: str) -> str:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path}:{ROOT}", "COLUMNS": "200"}
        done = subprocess.run((sys.executable, *words), env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    extender = ("-m", "gcushare.scheduler_extender")
    help_text = python(*extender, "--help")
    assert "third prefers the third." in help_text
    assert "third the third." in help_text
    assert "third" in python(*extender, "--node-policy", "third", "--card-policy", "third", "--print-config")
    assert "third" in python("-m", "gcushare", "simulate", "--help")
    python("-c", USES)

    sets = {"placement.nodePolicy": "third", "placement.cardPolicy": "third", "admission.pods.refuseMalformed": "true"}
    wanted = Rendering(sets=sets)
    assert attempt(chart, wanted).returncode != 0
    python("-m", "scripts.vendors", str(deploy))
    done = attempt(chart, wanted)
    assert done.returncode == 0, done.stderr
    assert "--node-policy=third" in done.stdout
    names = [*POLICIES, "third"]
    assert str(names) in done.stdout
    assert f"must be {' or '.join(names)}" in done.stdout
