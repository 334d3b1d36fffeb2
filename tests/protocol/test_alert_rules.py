"""The alert rules as Prometheus itself evaluates them: each fires when it should, says what it should, and else not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.charts import Object
from tests.monitoring import RULE_FILES, alerts, needs_promtool, run_promtool
from tests.protocol.alert_cases import CASES, Case, Series

_LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
_VALUE = re.compile(r"\{\{ \$value[^}]*\}\}")


def rule_of(alert: str) -> Object:
    (rule,) = [rule for rule in alerts() if rule["alert"] == alert]
    return rule


def minutes_of(rule: Object) -> int:
    """How long the rule waits before it fires."""
    text = str(rule.get("for", "0m"))
    return int(text[:-1]) * {"m": 1, "h": 60}[text[-1]]


def expected(case: Case, rule: Object) -> Object:
    """The alert as it must look, its annotations filled in."""

    def fill(text: str) -> str:
        return _VALUE.sub(case.value, _LABEL.sub(lambda found: case.labels[found[1]], text))

    return {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {name: fill(text) for name, text in rule["annotations"].items()},
    }


def complaints(folder: Path, tests: Sequence[tuple[str, list[Object]]]) -> str:
    """Test the rules of alerts, each evaluated alone: together they take ten times as long.

    What promtool complains of; empty where everything is as expected.
    """
    files = []
    for number, (alert, cases) in enumerate(tests):
        # JSON is YAML.
        rules, file = folder / f"{number}.rules.yaml", folder / f"{number}.tests.yaml"
        rules.write_text(json.dumps({"groups": [{"name": "one", "rules": [rule_of(alert)]}]}))
        file.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": cases}))
        files.append(file)
    return run_promtool("test", *files)


def a_test(series: Series, alert: str, moments: dict[int, list[Object]]) -> Object:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": found} for minute, found in moments.items()
        ],
    }


# It takes five seconds of a processor.
@pytest.mark.slow
@needs_promtool
def test_each_alert_fires_after_its_time_says_what_it_should_and_is_quiet_otherwise(tmp_path: Path) -> None:
    tests = []
    for case in CASES:
        rule = rule_of(case.alert)
        moments = {case.at: [expected(case, rule)]}
        if waits := minutes_of(rule):
            moments[waits - 1] = []
        quiet = a_test(case.quiet, case.alert, {case.at: []})
        tests.append((case.alert, [a_test(case.fires, case.alert, moments), quiet]))
    assert complaints(tmp_path, tests) == ""


@needs_promtool
def test_promtool_reads_every_file() -> None:
    assert run_promtool("check", *RULE_FILES) == ""


def test_every_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} == {rule["alert"] for rule in alerts()}
