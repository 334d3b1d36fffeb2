"""What the charts make of dashboards and rules: objects that Grafana's sidecar and Prometheus' operator take."""

from __future__ import annotations

import json

from tests.charts import (
    EXTENDER_CHART,
    PLUGIN_CHART,
    in_one_worker,
    needs_helm,
    of_kind,
    one,
    rendered,
)
from tests.monitoring import DASHBOARDS, alerts

pytestmark = [needs_helm, in_one_worker]
NAME = "gcushare-scheduler-extender"


def test_the_dashboards_come_as_they_are_with_the_label_that_the_sidecar_looks_for() -> None:
    found = one(rendered(EXTENDER_CHART, "dashboards.enabled=true"), "ConfigMap", f"{NAME}-dashboards")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in found["data"].items()} == {
        path.name: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS
    }


def test_every_alert_is_in_the_rule_object_with_its_templates_untouched() -> None:
    (found,) = of_kind(rendered(EXTENDER_CHART, "prometheusRule.enabled=true"), "PrometheusRule")
    groups = found["spec"]["groups"]
    assert len({group["name"] for group in groups}) == len(groups)
    assert [rule for group in groups for rule in group["rules"]] == alerts()


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
