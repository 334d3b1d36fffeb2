"""What is shown of resources: metrics, ``/status``, ``/healthz`` and ``/readyz``.

Readiness calls the plugin's own sockets as the kubelet does; liveness checks its tasks' progress. The document of
``/status`` is also shown by ``--status`` and ``gcushare cards``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.device_plugin.kubelet.registration import Endpoint
from gcushare.device_plugin.kubelet.server import CALLS
from gcushare.device_plugin.node.agent import NodeAgent
from gcushare.device_plugin.node.publisher import CardsPublisher
from gcushare.device_plugin.pods.pod import PodEntry
from gcushare.device_plugin.pods.reconciler import PERIOD_S, AllocationReconciler
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.card_and_pod_metrics import NodeMetrics, ObservedCards
from gcushare.node.pods import NO_SIZES, CardCounts
from gcushare.node.status import describe_node, make_checks
from gcushare.runtime.health import CounterHeartbeat, HealthChecks
from gcushare.runtime.metrics import counter, gauge
from gcushare.wire.documents.plugin_status import PluginStatus, UnreadableStatus

_REGISTRATION = {SERVES_MEMORY: "registration", SERVES_WHOLE: "wholeRegistration"}
POD_RECORDS = "podRecords"
"""The name of the problem that concerns single pods, not the whole node."""
RECORD_AGE_S = 3 * PERIOD_S
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
        by_resource, endpoints = ("vendor", "node", "resource"), observed.endpoints.values()
        read = [((observed.vendor, observed.node, each.resource), each.is_read) for each in endpoints]
        yield gauge("gcushare_plugin_registered", "1 while the kubelet reads the list.", by_resource, read)
        times = [((observed.vendor, observed.node, each.resource), each.registrations) for each in endpoints]
        yield counter("gcushare_plugin_registrations", "Registrations with the kubelet.", by_resource, times)
        where, names = (observed.vendor, observed.node), ("vendor", "node")
        reads, writer, store = observed.reconciler, observed.reconciler.writer, observed.store
        for name, text, value in (
            ("gcushare_plugin_record_writes", "Records written on pods.", writer.writes),
            ("gcushare_plugin_record_corrections", "Records that were corrected.", writer.corrections),
            ("gcushare_plugin_record_write_failures", "Record writes that failed.", writer.failed_writes),
            ("gcushare_plugin_kubelet_record_reads", "Reads of the kubelet's own record.", reads.checks),
            ("gcushare_plugin_kubelet_record_failures", "Failed reads of the kubelet's record.", reads.failed_checks),
        ):
            yield counter(name, text, names, [(where, value)])
        age_s = observed.watch_age_s()
        for name, text, number in (
            ("gcushare_plugin_pods", "Pods of this node that ask for cards.", len(store.entries)),
            (
                "gcushare_plugin_unconfirmed_allocations",
                "Allocations that the kubelet has not shown yet.",
                store.pending_allocations,
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
            yield gauge(name, text, names, [(where, number)])


def describe(observed: ObservedResources) -> PluginStatus:
    """Describe the plugin's present state."""
    store, age_s, inventory = observed.store, observed.watch_age_s(), observed.agent.inventory
    sizes = inventory.units_by_card if inventory is not None else NO_SIZES
    return describe_node(
        observed,
        ((entry, _describe_record(entry, sizes)) for _, entry in sorted(store.entries.items())),
        lambda index, whole: _holders(store, index, whole=whole),
        unit=None,
        unreadable_pods=tuple(UnreadableStatus(pod=str(pod.pod), reason=pod.reason) for pod in store.unreadable),
        foreign_containers=observed.agent.foreign_containers,
        unconfirmed_allocations=store.pending_allocations,
        watch_age_seconds=None if age_s is None else round(age_s, 1),
        registrations=sum(endpoint.registrations for endpoint in observed.endpoints.values()),
        corrections=observed.reconciler.writer.corrections,
    )


def _cards_of(entry: PodEntry) -> tuple[int, ...]:
    """The cards that a pod holds, or else those that are reserved for it."""
    return entry.taken_cards or tuple(sorted(entry.promise))


def _holders(store: PodStore, index: int, *, whole: bool) -> list[str]:
    known = (each for each in store.entries.values() if each.is_whole == whole and index in _cards_of(each))
    return [*(str(each.ref) for each in known), *store.unrecorded.users_of(index, whole=whole)]


def _describe_record(entry: PodEntry, sizes: CardCounts) -> dict[str, Any]:
    return {
        "units": entry.request.total_units,
        "recorded_cards": entry.record.card_indexes if entry.record is not None else (),
        "assigned": entry.record.assigned if entry.record is not None else False,
        "held_by_card": dict(sorted(entry.units_by_card(sizes).items())),
        "containers": {name: dict(sorted(counts.items())) for name, counts in entry.held.items()},
        "unconfirmed": tuple(sorted(entry.unconfirmed)),
        "cards": _cards_of(entry),
    }


def make_health(observed: ObservedResources, card_polls: Callable[[], int], poll_interval_s: float) -> HealthChecks:
    """Return the checks of /healthz and /readyz. ``card_polls`` counts the rounds of the cards task."""

    def find_problems() -> dict[str, str]:
        # Not the records of single pods: an author whose record a webhook refuses must not stop a rollout.
        return {part: problem for part, problem in observed.problems().items() if part != POD_RECORDS}

    health = make_checks("plugin", find_problems, card_polls, poll_interval_s)
    for part, endpoint in observed.endpoints.items():
        health.add_live(f"{part} registration task", endpoint.pulse.check)
        health.add_ready(f"{part} socket", endpoint.probe)
    checks = CounterHeartbeat("kubelet record", lambda: observed.reconciler.checks, RECORD_AGE_S)
    health.add_live("record task", checks.check)
    return health
