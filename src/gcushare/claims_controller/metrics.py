"""What /metrics shows, read from the program's own counters at a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gcushare.claims_controller.order_writer import OrderCounters
from gcushare.claims_controller.template_keeper import TemplateCounters
from gcushare.kube.reflector import Reflector


class ControllerCollector(Collector):
    """Templates, labels of nodes, leadership and the age of watches."""

    def __init__(
        self,
        templates: TemplateCounters,
        order: OrderCounters,
        count_templates: Callable[[], int],
        is_leader: Callable[[], bool],
        watches: Mapping[str, Reflector[Any]],
    ) -> None:
        self._templates = templates
        self._order = order
        self._count_templates = count_templates
        self._is_leader = is_leader
        self._watches = watches

    def collect(self) -> Iterator[Metric]:
        """Make the figures."""
        yield GaugeMetricFamily("gcushare_leader", "1 if this replica does the work.", value=float(self._is_leader()))
        yield GaugeMetricFamily(
            "gcushare_claims_templates", "Templates of gcushare that exist.", value=float(self._count_templates())
        )
        writes = CounterMetricFamily(
            "gcushare_claims_writes", "Writes to the API server, by what was done.", labels=("what",)
        )
        writes.add_metric(("template-created",), self._templates.created)
        writes.add_metric(("template-deleted",), self._templates.deleted)
        writes.add_metric(("node-order",), self._order.written)
        yield writes
        failures = CounterMetricFamily(
            "gcushare_claims_write_failures", "Writes that failed and are tried again.", labels=("what",)
        )
        failures.add_metric(("template",), self._templates.failed)
        failures.add_metric(("node-order",), self._order.failed)
        yield failures
        ages = GaugeMetricFamily(
            "gcushare_watch_age_seconds",
            "Time since the API server last proved the watch current; no series before the first list.",
            labels=("resource",),
        )
        for name, watch in self._watches.items():
            if watch.age_s is not None:
                ages.add_metric((name,), watch.age_s)
        yield ages
