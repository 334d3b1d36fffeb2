"""Every alert leads to what to do, in both languages, and the runbook has no section that nothing leads to."""

from __future__ import annotations

import pytest

from tests.charts import Object
from tests.documents import ROOT, Document, guide
from tests.monitoring import alerts

ALERTS = [pytest.param(rule, id=rule["alert"]) for rule in alerts()]


@pytest.mark.parametrize("chinese", [False, True], ids=["English", "Chinese"])
def test_every_alert_has_a_section_and_every_section_an_alert(chinese: bool) -> None:
    sections = [heading.title for heading in guide("runbook.md", chinese=chinese).headings() if heading.level == 2]
    assert sections == list(dict.fromkeys(sections))
    assert sorted(sections) == sorted(rule["alert"] for rule in alerts())


@pytest.mark.parametrize("rule", ALERTS)
def test_an_alert_says_how_urgent_it_is_what_is_wrong_and_where_to_read_on(rule: Object) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["annotations"]["summary"].endswith(".")
    assert len(rule["annotations"]["description"]) > 60
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    titles = {heading.anchor: heading.title for heading in Document.read(ROOT / path).headings()}
    assert titles[anchor] == rule["alert"]


@pytest.mark.parametrize("chinese", [False, True], ids=["English", "Chinese"])
def test_every_section_has_numbered_steps(chinese: bool) -> None:
    _, *sections = guide("runbook.md", chinese=chinese).text.split("\n## ")
    assert [section.split("\n")[0] for section in sections if "\n1. " not in section] == []
