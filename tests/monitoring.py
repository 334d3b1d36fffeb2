"""The chart's dashboards and alert rules as tests see them: their expressions, and which labels a result has."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import promql_parser as promql
import pytest

from tests.charts import EXTENDER_CHART, ROOT, Object, load_yaml

DASHBOARDS = tuple(sorted((EXTENDER_CHART / "dashboards").glob("*.json")))
RULE_FILES = tuple(sorted((EXTENDER_CHART / "dashboards/rules").glob("*.yaml")))

TARGET_LABELS = frozenset({"job", "instance", "namespace", "pod"})
"""What Prometheus itself puts on every series of a pod that a ServiceMonitor names."""

OF_PROMETHEUS: Mapping[str, frozenset[str]] = {
    "up": TARGET_LABELS | {"node"},  # the plugin chart's ServiceMonitor sets it: tests/unit/test_chart_monitoring.py
    **{  # kube-state-metrics
        f"kube_daemonset_status_{name}": frozenset({"namespace", "daemonset"})
        for name in ("number_unavailable", "updated_number_scheduled")
    },
    "kube_pod_labels": frozenset({"namespace", "pod", "uid", "label_team"}),
    "ALERTS": frozenset({"alertname", "alertstate", "severity"}),
}
"""Series that no program of ours serves."""

VARIABLES = {"$__rate_interval": "5m", "$__range": "6h", "$vendor": ".*", "$node": "node-1"}
"""What Grafana puts in; every variable of the dashboards stands here."""

_LEGEND_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_ALERT_LABEL = re.compile(r"\$labels\.(\w+)")


def find_promtool() -> str:
    """Find promtool: $PROMTOOL, PATH, or what .ci/run unpacks below .cache; empty when there is none."""
    cached = ROOT / ".cache/prometheus/usr/bin/promtool"
    return os.environ.get("PROMTOOL") or shutil.which("promtool") or (str(cached) if cached.exists() else "")


PROMTOOL = find_promtool()
needs_promtool = pytest.mark.skipif(
    not PROMTOOL,
    reason="no promtool: put one on PATH, or unpack Debian's package prometheus below .cache as .ci/run does",
)


def run_promtool(verb: str, *files: Path) -> str:
    """What ``promtool VERB rules`` complains of in these files; empty where all is as expected."""
    words = [PROMTOOL, verb, "rules", *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    return done.stdout + done.stderr if done.returncode else ""


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression where it stands; ``shown`` are the labels that the text next to it names."""

    where: str
    text: str
    shown: frozenset[str] = frozenset()

    def parse(self) -> promql.Expr:
        """Parse it with Grafana's variables put in; raises ValueError for what is no PromQL."""
        text = self.text
        for name, value in VARIABLES.items():
            text = text.replace(name, value)
        return promql.parse(text)


def read_dashboard(path: Path) -> Object:
    found: Object = json.loads(path.read_text(encoding="utf-8"))
    return found


def panels_of(dashboard: Object) -> list[Object]:
    """The panels that show something: rows are headings."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def rules() -> list[Object]:
    """Every rule of every file."""
    groups = [group for path in RULE_FILES for group in load_yaml(path.read_text(encoding="utf-8"))["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[Object]:
    return [rule for rule in rules() if "alert" in rule]


def records() -> list[Object]:
    """The rules that record series, in the order in which one may read the other."""
    return [rule for rule in rules() if "record" in rule]


def expressions() -> Iterator[Expression]:
    """Every expression of the dashboards' panels and of the rules."""
    for path in DASHBOARDS:
        for panel in panels_of(read_dashboard(path)):
            for target in panel["targets"]:
                where = f"{path.stem}: {panel['title']}: {target['refId']}"
                yield Expression(where, target["expr"], frozenset(_LEGEND_LABEL.findall(target["legendFormat"])))
    for rule in alerts():
        texts = " ".join([*rule["annotations"].values(), *rule["labels"].values()])
        yield Expression(rule["alert"], rule["expr"], frozenset(_ALERT_LABEL.findall(texts)))
    for rule in records():
        yield Expression(rule["record"], rule["expr"])


def variable_queries() -> Iterator[tuple[str, str]]:
    """The queries that find the variables' values: where they stand, and the text."""
    for path in DASHBOARDS:
        for variable in read_dashboard(path)["templating"]["list"]:
            if variable["type"] == "query":
                yield f"{path.stem}: ${variable['name']}", variable["query"]["query"]


def selectors_of(expr: promql.Expr) -> list[promql.VectorSelector]:
    """Every place in an expression that names a series."""
    found: list[promql.VectorSelector] = []

    def visit(part: promql.Expr) -> bool:
        if isinstance(part, promql.VectorSelector):
            found.append(part)
        elif isinstance(part, promql.MatrixSelector):
            found.append(part.vector_selector)
        return True

    promql.walk(expr, visit)
    return found


class LabelError(Exception):
    """An expression uses a label that its series do not have."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Works out which labels the result of an expression can have; ``of_series`` by series name."""

    of_series: Mapping[str, frozenset[str]]

    def of(self, expr: promql.Expr) -> frozenset[str]:
        """The labels of the result; none for numbers and text.

        Raises:
            LabelError: something in it groups, matches or joins by a label that is not there.
        """
        match expr:
            case promql.VectorSelector():
                known = self._of_name(expr.name)
                self._need((matcher.name for matcher in expr.matchers.matchers), known, expr)
                return known
            case promql.MatrixSelector():
                return self.of(expr.vector_selector)
            case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
                return self.of(expr.expr)
            case promql.AggregateExpr():
                return self._of_aggregate(expr)
            case promql.BinaryExpr():
                return self._of_binary(expr)
            case promql.Call():
                return self._of_call(expr)
            case _:
                return frozenset()

    def with_records(self) -> Labels:
        """Those, and the series that rules record."""
        found = self
        for rule in records():
            labels = found.of(Expression(rule["record"], rule["expr"]).parse())
            found = Labels({**found.of_series, rule["record"]: labels})
        return found

    def _of_name(self, name: str | None) -> frozenset[str]:
        if name is None or name not in self.of_series:
            raise LabelError(f"nothing serves {name}")
        return self.of_series[name]

    def _of_aggregate(self, expr: promql.AggregateExpr) -> frozenset[str]:
        inner = self.of(expr.expr)
        if expr.modifier is None:
            return frozenset()
        if expr.modifier.type != promql.AggModifierType.By:
            raise LabelError("say by which labels, so that a new label of a metric changes nothing")
        named = self._need(expr.modifier.labels, inner, expr)
        return inner if str(expr.op) in ("topk", "bottomk") else named

    def _of_binary(self, expr: promql.BinaryExpr) -> frozenset[str]:
        left, right = self.of(expr.lhs), self.of(expr.rhs)
        modifier = expr.modifier
        if modifier is None or modifier.matching is None:
            return left or right
        on = modifier.matching.labels
        self._need(on, left, expr)
        self._need(on, right, expr)
        if modifier.card == promql.VectorMatchCardinality.ManyToOne:
            return left | self._need(modifier.group_labels or (), right, expr)
        is_set = str(expr.op) in ("and", "or", "unless")
        return left if is_set or modifier.card == promql.VectorMatchCardinality.ManyToMany else frozenset(on)

    def _of_call(self, expr: promql.Call) -> frozenset[str]:
        inner = frozenset().union(*map(self.of, expr.args))
        if expr.func.name == "absent":
            return frozenset()
        if expr.func.name == "label_replace":
            added, source = str(expr.args[1].val), str(expr.args[3].val)
            self._need((source,), inner, expr)
            return inner | {added}
        if expr.func.name == "histogram_quantile":
            self._need(("le",), inner, expr)
            return inner - {"le"}
        return inner

    @staticmethod
    def _need(
        wanted: Iterator[str] | list[str] | tuple[str, ...], known: frozenset[str], expr: promql.Expr
    ) -> frozenset[str]:
        names = frozenset(wanted)
        if names - known:
            raise LabelError(f"{sorted(names - known)} in {expr.prettify()}; there are {sorted(known)}")
        return names
