"""What the charts make of dashboards and rules: objects that Grafana's sidecar and Prometheus' operator take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.charts import EXTENDER_CHART, PLUGIN_CHART, attempt, in_one_worker, needs_helm, of_kind, one, rendered
from tests.monitoring import DASHBOARDS, rules

pytestmark = [needs_helm, in_one_worker]
NAME = "gcushare-scheduler-extender"


def test_the_dashboards_come_as_they_are_with_the_label_that_the_sidecar_looks_for() -> None:
    found = one(rendered(EXTENDER_CHART, "dashboards.enabled=true"), "ConfigMap", f"{NAME}-dashboards")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in found["data"].items()} == {
        path.name: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS
    }


def rule_groups(*values: str) -> list[Any]:
    (found,) = of_kind(rendered(EXTENDER_CHART, "prometheusRule.enabled=true", *values), "PrometheusRule")
    groups: list[Any] = found["spec"]["groups"]
    return groups


def test_every_rule_is_in_the_rule_object_with_its_templates_untouched() -> None:
    groups = rule_groups()
    assert len({group["name"] for group in groups}) == len(groups)
    assert [rule for group in groups for rule in group["rules"]] == rules()


@pytest.mark.parametrize(
    ("key", "served"),
    [
        ("example.com/costCenter", "label_example_com_cost_center"),
        ("app.kubernetes.io/name", "label_app_kubernetes_io_name"),
        ("", "label_"),
    ],
)
def test_gib_hours_are_counted_by_the_label_as_kube_state_metrics_calls_it(key: str, served: str) -> None:
    (usage,) = [group for group in rule_groups(f"prometheusRule.podLabel={key}") if group["name"] == "gcushare.usage"]
    (label,) = [rule for rule in usage["rules"] if rule["record"] == "pod:gcushare_label:info"]
    assert f'{{{served}!=""}}' in label["expr"]
    assert "label_team" not in json.dumps(usage)


def test_a_label_that_no_pod_can_have_is_refused_with_what_is_accepted() -> None:
    refused = attempt(EXTENDER_CHART, values="prometheusRule: {enabled: true, podLabel: 'a b'}")
    assert 'prometheusRule.podLabel is "a b", but it must be the key of one label' in refused.stderr
    assert "such as team or example.com/team" in refused.stderr


def test_the_jobs_have_the_names_that_the_alerts_look_for() -> None:
    """Prometheus' operator calls a job after the Service that its ServiceMonitor finds."""
    for chart, name in ((EXTENDER_CHART, NAME), (PLUGIN_CHART, "gcushare-device-plugin")):
        found = rendered(chart, "serviceMonitor.enabled=true")
        (monitor,) = of_kind(found, "ServiceMonitor")
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        services = [s for s in of_kind(found, "Service") if wanted <= s["metadata"]["labels"].items()]
        assert [service["metadata"]["name"] for service in services] == [f"{name}-metrics"]


def test_the_plugins_series_are_distinguished_by_node_also_when_the_plugin_is_down() -> None:
    (monitor,) = of_kind(rendered(PLUGIN_CHART, "serviceMonitor.enabled=true"), "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}]
