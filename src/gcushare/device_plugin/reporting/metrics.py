"""The plugin's metrics: a collector that reads the plugin's state at each scrape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import Metric

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.device_plugin.kubelet.registration import Endpoint
from gcushare.device_plugin.kubelet.server import CALLS
from gcushare.device_plugin.node.agent import NodeAgent
from gcushare.device_plugin.node.publisher import CardsPublisher
from gcushare.device_plugin.pods.reconciler import AllocationReconciler
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.card_and_pod_metrics import NodeMetrics, ObservedCards
from gcushare.runtime.metrics import counter, gauge

_REGISTRATION = {SERVES_MEMORY: "registration", SERVES_WHOLE: "wholeRegistration"}
POD_RECORDS = "podRecords"
"""The name of the problem that concerns single pods, not the whole node."""
WATCH_STALE_S = 150.0
"""Twice the silence after which a watch counts as dead. By then it is open again, if the API server answers."""
_LATENCY_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedResources(ObservedCards):
    """The components whose state is shown; ``endpoints`` are by mode.

    ``watch_age_s`` is the time since the last answer of the API server that confirmed the view of the pods; None before
    the first list.
    """

    agent: NodeAgent
    store: PodStore
    reconciler: AllocationReconciler
    endpoints: Mapping[str, Endpoint]
    publisher: CardsPublisher
    watch_age_s: Callable[[], float | None]

    def problems(self) -> dict[str, str]:
        """All present problems, by component; empty if there are none."""
        age_s, watch = self.watch_age_s(), ""
        if age_s is None:
            watch = "this node's pods were not listed yet; see the log for the API server's answer"
        elif age_s > WATCH_STALE_S:
            watch = f"no answer from the API server for {age_s:.0f}s; known pods are still served"
        parts: Mapping[str, str] = {
            "cards": self.agent.problem,
            "leaving": self.agent.leaving,
            **{_REGISTRATION[part]: endpoint.problem for part, endpoint in self.endpoints.items()},
            "kubeletRecord": self.reconciler.problem,
            "node": self.publisher.problem,
            "pods": watch,
            POD_RECORDS: self.reconciler.writer.problem,
            "cdi": self.cdi.problem,
            "memoryLimit": self.limit_problem,
            "overUse": self.over_use.problem,
        }
        return {name: problem for name, problem in parts.items() if problem}


class PluginMetrics(NodeMetrics[ObservedResources]):
    """The plugin's metrics; of calls gcushare_plugin_call_seconds, gcushare_plugin_failed_calls and
    gcushare_plugin_api_requests.
    """

    def __init__(self) -> None:
        super().__init__(
            "gcushare-device-plugin",
            "gcushare_plugin",
            CALLS,
            "Time of the kubelet's calls, the wait for a pod included, by call and outcome (ok, the kind of "
            "error, or defect).",
            "Calls of the kubelet that were refused or failed.",
            _LATENCY_BUCKETS_S,
        )

    def read(self, observed: ObservedResources) -> Iterator[Metric]:
        """Read the state of registrations and records."""
        yield from _registration_metrics(observed)
        yield from _record_metrics(observed)


def _registration_metrics(observed: ObservedResources) -> Iterator[Metric]:
    names, endpoints = ("vendor", "node", "resource"), observed.endpoints.values()
    labels = [(observed.vendor, observed.node, endpoint.resource) for endpoint in endpoints]
    is_read, times = ([each.is_read for each in endpoints], [each.registrations for each in endpoints])
    text = "1 while the kubelet reads the list."
    yield gauge("gcushare_plugin_registered", text, names, zip(labels, is_read, strict=True))
    text = "Registrations with the kubelet."
    yield counter("gcushare_plugin_registrations", text, names, zip(labels, times, strict=True))


def _record_metrics(observed: ObservedResources) -> Iterator[Metric]:
    labels = (observed.vendor, observed.node)
    names = ("vendor", "node")
    reconciler, writer = observed.reconciler, observed.reconciler.writer
    for name, text, value in (
        ("gcushare_plugin_record_writes", "Records written on pods.", writer.writes),
        ("gcushare_plugin_record_corrections", "Records that were corrected.", writer.corrections),
        ("gcushare_plugin_record_write_failures", "Record writes that failed.", writer.failed_writes),
        ("gcushare_plugin_kubelet_record_reads", "Reads of the kubelet's own record.", reconciler.checks),
        ("gcushare_plugin_kubelet_record_failures", "Failed reads of the kubelet's record.", reconciler.failed_checks),
    ):
        yield counter(name, text, names, [(labels, value)])
    age_s = observed.watch_age_s()
    for name, text, number in (
        ("gcushare_plugin_pods", "Pods of this node that ask for cards.", len(observed.store.entries)),
        (
            "gcushare_plugin_unconfirmed_allocations",
            "Allocations that the kubelet has not shown yet.",
            observed.store.pending_allocations,
        ),
        (
            "gcushare_plugin_foreign_containers",
            "Containers that hold device ids of another plugin.",
            observed.agent.foreign_containers,
        ),
        (
            "gcushare_plugin_watch_age_seconds",
            "Since the API server last proved that the view of the pods is current; NaN before the first list.",
            math.nan if age_s is None else age_s,
        ),
    ):
        yield gauge(name, text, names, [(labels, number)])
