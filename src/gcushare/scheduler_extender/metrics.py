"""The figures of /metrics. The hot path only increments counters; sums over nodes are computed at a scrape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gcushare.core.cards import BOTH_MODES
from gcushare.core.nodes import CardMode
from gcushare.kube.events import RecorderCounters
from gcushare.kube.reflector import ReflectorCounters
from gcushare.scheduler_extender.explain.failed_scheduling_events import RefusalCounters
from gcushare.scheduler_extender.explain.pending_reasons import count_pending
from gcushare.scheduler_extender.mutual_tls.ports import FirstPort
from gcushare.scheduler_extender.nodes_needed import NodesNeededService
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.filter import FilterService
from gcushare.scheduler_extender.waking.waker import WakeCounters

_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0)

Count = Callable[[str, float | None, str], None]
"""Counts one answer: its result, its seconds or None, and the reason if it is a refusal or an error."""


class RequestMetrics:
    """Times and results of the scheduler's calls, by vendor and verb."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "gcushare_extender_request_seconds",
            "Time from a call of the scheduler to its answer, without the network.",
            ["vendor", "verb"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._results = Counter(
            "gcushare_extender_results",
            "Answers by result, and refusals and errors by reason.",
            ["vendor", "verb", "result", "reason"],
            registry=registry,
        )
        self._drifts = Counter(
            "gcushare_ledger_drifts",
            "Pods, sums of nodes and orders of nodes that the recount found wrong.",
            ["vendor"],
            registry=registry,
        )

    def drifts_of(self, vendor: str) -> Counter:
        """The counter of one vendor's drifts; it exists, as 0, from the start."""
        return self._drifts.labels(vendor)

    def count_for(self, vendor: str, verb: str, errors: Iterable[str]) -> Count:
        """Make the counter of one verb, with its labels resolved once.

        The series of the reasons in ``errors`` exist, as 0, from the start: Prometheus misses the first error of a
        series that begins with it.
        """
        seconds = self._seconds.labels(vendor, verb)
        counters = {("error", reason): self._results.labels(vendor, verb, "error", reason) for reason in errors}

        def count(result: str, taken_s: float | None, reason: str) -> None:
            if taken_s is not None:
                seconds.observe(taken_s)
            counter = counters.get((result, reason))
            if counter is None:
                counter = counters[result, reason] = self._results.labels(vendor, verb, result, reason)
            counter.inc()

        return count


class VendorCollector(Collector):
    """The figures of one vendor's ledger and bindings."""

    def __init__(
        self, state: VendorState, filters: FilterService, binds: BindService, needs: NodesNeededService
    ) -> None:
        self._state = state
        self._needs = needs
        self._binds = binds
        self._totals = filters.totals

    def collect(self) -> Iterator[Metric]:
        """Compute the figures."""
        yield from self._units()
        reasons = GaugeMetricFamily(
            "gcushare_pods_waiting_by_reason", "Pods that ask for cards, by why they wait.", labels=("vendor", "reason")
        )
        for reason, pods in count_pending(self._state, self._totals.by_unit().values()).items():
            reasons.add_metric((self._state.vendor.name, reason.value), pods)
        yield reasons
        yield from self._nodes_needed()
        state, binds = self._state, self._binds
        for name, text, value in (
            ("pods_waiting", "Pods that ask for cards and are not bound.", len(state.waiting) + len(state.claiming)),
            (
                "nodes_without_units",
                "Nodes whose cards serve a resource that the kubelet counts as 0.",
                len(state.nodes.without_units),
            ),
            (
                "nodes_unreadable",
                "Nodes whose cards cannot be read, or are counted otherwise.",
                len(state.nodes.problems),
            ),
            ("pods_unreadable", "Bound pods whose cards cannot be read.", len(state.pod_problems)),
            ("reservations", "Grants that no watch event has confirmed.", len(state.ledger.reserved)),
            ("binds_under_way", "Bindings sent or about to be.", binds.under_way),
        ):
            gauge = GaugeMetricFamily(f"gcushare_{name}", text, labels=("vendor",))
            gauge.add_metric((state.vendor.name,), value)
            yield gauge
        for name, text, value in (
            ("bind_conflicts", "Bindings refused because the pod had changed.", binds.sender.conflicts),
            ("bind_unknown_outcomes", "Bindings whose outcome had to be read.", binds.sender.unknown_outcomes),
        ):
            counter = CounterMetricFamily(f"gcushare_{name}", text, labels=("vendor",))
            counter.add_metric((state.vendor.name,), value)
            yield counter

    def _units(self) -> Iterator[Metric]:
        figures: Mapping[str, GaugeMetricFamily] = {
            name: GaugeMetricFamily(f"gcushare_{name}", text, labels=("vendor", "unit"))
            for name, text in (
                ("nodes", "Nodes with cards."),
                ("cards", "Cards."),
                ("cards_unusable", "Cards that take no new pods: sick or cordoned."),
                ("units_total", "Memory units of all cards."),
                ("units_granted", "Units that pods hold."),
                ("units_free", "Units that new pods may be given."),
                ("largest_request_units", "The largest request of one card that fits now."),
                ("pods_holding", "Pods bound to nodes with cards."),
                ("units_unrecorded", "Units that pods hold without a record of it, as their nodes report them."),
                ("units_unplaced", "Units of bound pods whose card is not known; kept free on every card."),
            )
        }
        fragmentation = GaugeMetricFamily(
            "gcushare_fragmentation",
            "Share of the free units that a request of this many units cannot use.",
            labels=("vendor", "unit", "request"),
        )
        modes = GaugeMetricFamily("gcushare_cards_by_mode", "Cards by use.", labels=("vendor", "unit", "mode"))
        closed = GaugeMetricFamily(
            "gcushare_cards_closed",
            "Cards closed to a use (memory, whole) for containers of pods deleted by force.",
            labels=("vendor", "unit", "use"),
        )
        vendor = self._state.vendor.name
        for unit, totals in sorted(self._totals.by_unit().items()):
            values = (
                *(totals.nodes, totals.cards, totals.unusable, totals.total, totals.granted, totals.free),
                *(totals.largest_free, totals.pods, totals.unrecorded, totals.unplaced),
            )
            for family, value in zip(figures.values(), values, strict=True):
                family.add_metric((vendor, unit), value)
            for mode in CardMode:
                modes.add_metric((vendor, unit, mode.value), totals.modes[mode])
            for use in BOTH_MODES:
                closed.add_metric((vendor, unit, use), totals.closed[use])
            for size in totals.sizes():
                fragmentation.add_metric((vendor, unit, str(size)), totals.fragmentation(size))
        yield from figures.values()
        yield modes
        yield closed
        yield fragmentation

    def _nodes_needed(self) -> Iterator[Metric]:
        document = self._needs.latest
        for name, text in (
            ("nodes_needed", "Further nodes of a class that the waiting pods need, beyond the room of present nodes."),
            ("nodes_wanted", "Nodes of a class that a scaler should keep: more if needed, else those in use."),
            ("pods_too_large", "Waiting pods that no node of a class can hold, even if it is empty."),
        ):
            family = GaugeMetricFamily(f"gcushare_{name}", text, labels=("vendor", "node_class"))
            for each in document.classes if document is not None else ():
                values = {"nodes_needed": each.nodes, "nodes_wanted": each.wanted, "pods_too_large": each.too_large}
                family.add_metric((self._state.vendor.name, each.node_class), values[name])
            yield family


class WatchFigures(Protocol):
    """The figures of a watch; ``kube.reflector.Reflector`` has them."""

    counters: ReflectorCounters

    @property
    def age_s(self) -> float | None:
        """Seconds since the watch cache was proven current; None before the first proof."""
        ...


class ReplicaCollector(Collector):
    """The figures of this replica: whether it answers the scheduler and on which port, and its watches."""

    def __init__(self, answers: Callable[[], bool], first_port: FirstPort, watches: Mapping[str, WatchFigures]) -> None:
        self._answers = answers
        self._first_port = first_port
        self._watches = watches

    def collect(self) -> Iterable[Metric]:
        """Compute the figures."""
        leading = GaugeMetricFamily("gcushare_leader", "1 if this replica serves the scheduler.")
        leading.add_metric((), int(self._answers()))
        is_open = GaugeMetricFamily(
            "gcushare_extender_open_verbs",
            "Whether the scheduler's calls are answered without mutual TLS, on the first port.",
            value=float(self._first_port.is_open),
        )
        age = GaugeMetricFamily(
            "gcushare_watch_age_seconds",
            "Time since the API server last proved the watch cache current; NaN before the first list.",
            labels=("resource",),
        )
        counters = {
            name: CounterMetricFamily(f"gcushare_watch_{name}", text, labels=("resource",))
            for name, text in (
                ("lists", "Full lists read."),
                ("streams", "Watch streams opened."),
                ("events", "Watch events received."),
                ("failures", "Lists and streams that broke."),
                ("undecodable", "Objects left out because they could not be read."),
            )
        }
        for resource, watch in self._watches.items():
            age.add_metric((resource,), math.nan if watch.age_s is None else watch.age_s)
            seen = watch.counters
            values = (seen.lists, seen.watches, seen.events, seen.failures, seen.undecodable)
            for family, value in zip(counters.values(), values, strict=True):
                family.add_metric((resource,), value)
        return [leading, is_open, age, *counters.values()]


class EventCollector(Collector):
    """The outcomes of Events, of reports of refusals, and of notes that room was found."""

    def __init__(
        self, recorded: RecorderCounters, reports: Mapping[str, RefusalCounters], wakes: Mapping[str, WakeCounters]
    ) -> None:
        self._recorded = recorded
        self._reports = reports
        self._wakes = wakes

    def collect(self) -> Iterator[Metric]:
        """Compute the figures."""
        events = CounterMetricFamily("gcushare_events", "Events by outcome.", labels=("outcome",))
        for outcome in ("posted", "merged", "dropped", "failed"):
            events.add_metric((outcome,), getattr(self._recorded, outcome))
        yield events
        reports = CounterMetricFamily(
            "gcushare_refusal_reports",
            "Refused pods that were explained in an Event and the log, or dropped because too many waited for that.",
            labels=("vendor", "outcome"),
        )
        wakes = CounterMetricFamily(
            "gcushare_room_notes",
            "Waiting pods on which it was noted that room became free, which kube-scheduler had not asked about.",
            labels=("vendor", "outcome"),
        )
        for family, counters, outcomes in (
            (reports, self._reports, ("reported", "dropped")),
            (wakes, self._wakes, ("written", "failed", "unanswered")),
        ):
            for vendor, counts in counters.items():
                for outcome in outcomes:
                    family.add_metric((vendor, outcome), getattr(counts, outcome))
            yield family


class MergedCollector(Collector):
    """Merges the families of one name from several collectors, as the format requires: the vendors share names."""

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterable[Metric]:
        """Compute the figures."""
        families: dict[str, Metric] = {}
        for collector in self._collectors:
            for family in collector.collect():
                known = families.setdefault(family.name, family)
                if known is not family:
                    known.samples.extend(family.samples)
        return families.values()
