"""The figures of /metrics. The hot path only increments counters; sums over nodes are computed at a scrape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gcushare.core.card_state import CardMode
from gcushare.core.cards import BOTH_MODES
from gcushare.core.totals import ClusterTotals
from gcushare.kube.reflector import Reflector
from gcushare.scheduler_extender.explain.pending_reasons import count_pending
from gcushare.scheduler_extender.mutual_tls.mutual_tls_settings import Verbs
from gcushare.scheduler_extender.verbs.dispatch import Services


class VendorCollector(Collector):
    """The figures of each vendor's ledger, waiting pods and bindings."""

    def __init__(self, services: Sequence[Services]) -> None:
        self._services = services

    def collect(self) -> Iterable[Metric]:
        """Compute the figures. The vendors share the families: the format allows one of each name."""
        families: dict[str, Metric] = {}
        for family in chain.from_iterable(map(_figures_of, self._services)):
            known = families.setdefault(family.name, family)
            if known is not family:
                known.samples.extend(family.samples)
        return families.values()


def _figures_of(services: Services) -> Iterator[Metric]:
    state, binds, vendor = services.state, services.binds, services.vendor_name
    yield from _units(vendor, services.filters.totals)
    reasons = Gauge(
        "gcushare_pods_waiting_by_reason", "Pods that ask for cards, by why they wait.", labels=("vendor", "reason")
    )
    for reason, pods in count_pending(state, services.filters.totals.by_unit().values()).items():
        reasons.add_metric((vendor, reason.value), pods)
    yield reasons
    for kind, name, text, value in (
        (Gauge, "pods_waiting", "Pods that ask for cards and are not bound.", len(state.waiting) + len(state.claiming)),
        (
            Gauge,
            "nodes_without_units",
            "Nodes whose cards serve a resource that the kubelet counts as 0.",
            len(state.nodes.without_units),
        ),
        (
            Gauge,
            "nodes_unreadable",
            "Nodes whose cards cannot be read, or are counted otherwise.",
            len(state.nodes.problems),
        ),
        (Gauge, "pods_unreadable", "Bound pods whose cards cannot be read.", len(state.pod_problems)),
        (Gauge, "reservations", "Grants that no watch event has confirmed.", len(state.ledger.reserved)),
        (Gauge, "binds_under_way", "Bindings sent or about to be.", binds.under_way),
        (Counter, "bind_conflicts", "Bindings refused because the pod had changed.", binds.sender.conflicts),
        (Counter, "bind_unknown_outcomes", "Bindings whose outcome had to be read.", binds.sender.unknown_outcomes),
    ):
        family = kind(f"gcushare_{name}", text, labels=("vendor",))
        family.add_metric((vendor,), value)
        yield family
    for name, text, counters, outcomes in (
        (
            "refusal_reports",
            "Refused pods that were explained in an Event and the log, or dropped because too many waited for that.",
            services.reports.counters,
            ("reported", "dropped"),
        ),
        (
            "room_notes",
            "Waiting pods on which it was noted that room became free, which kube-scheduler had not asked about.",
            services.wakes.counters,
            ("written", "failed", "unanswered"),
        ),
    ):
        counted = Counter(f"gcushare_{name}", text, labels=("vendor", "outcome"))
        for outcome in outcomes:
            counted.add_metric((vendor, outcome), counters[outcome])
        yield counted


def _units(vendor: str, cluster: ClusterTotals) -> Iterator[Metric]:
    figures = {
        figure: Gauge(f"gcushare_{name}", text, labels=("vendor", "unit"))
        for name, figure, text in (
            ("nodes", "nodes", "Nodes with cards."),
            ("cards", "cards", "Cards."),
            ("cards_unusable", "unusable", "Cards that take no new pods: sick or cordoned."),
            ("units_total", "total", "Memory units of all cards."),
            ("units_granted", "granted", "Units that pods hold."),
            ("units_free", "free", "Units that new pods may be given."),
            ("largest_request_units", "largest_free", "The largest request of one card that fits now."),
            ("pods_holding", "pods", "Pods bound to nodes with cards."),
            (
                "units_unrecorded",
                "unrecorded",
                "Units that pods hold without a record of it, as their nodes report them.",
            ),
            ("units_unplaced", "unplaced", "Units of bound pods whose card is not known; kept free on every card."),
        )
    }
    fragmentation = Gauge(
        "gcushare_fragmentation",
        "Share of the free units that a request of this many units cannot use.",
        labels=("vendor", "unit", "request"),
    )
    modes = Gauge("gcushare_cards_by_mode", "Cards by use.", labels=("vendor", "unit", "mode"))
    closed = Gauge(
        "gcushare_cards_closed",
        "Cards closed to a use (memory, whole) for containers of pods deleted by force.",
        labels=("vendor", "unit", "use"),
    )
    for unit, totals in sorted(cluster.by_unit().items()):
        for figure, family in figures.items():
            family.add_metric((vendor, unit), getattr(totals, figure))
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


@dataclass(eq=False)
class ReplicaCollector(Collector):
    """The figures of this replica: whether it answers the scheduler and on which port, its watches and Events."""

    answers: Callable[[], bool]
    verbs: Verbs
    watches: Mapping[str, Reflector[Any]]
    recorded: Mapping[str, int]

    def collect(self) -> Iterator[Metric]:
        yield Gauge("gcushare_leader", "1 if this replica serves the scheduler.", value=float(self.answers()))
        yield Gauge(
            "gcushare_extender_open_verbs",
            "Whether the scheduler's calls are answered without mutual TLS, on the first port.",
            value=float(self.verbs.is_plain),
        )
        age = Gauge(
            "gcushare_watch_age_seconds",
            "Time since the API server last proved the watch cache current; NaN before the first list.",
            labels=("resource",),
        )
        for resource, watch in self.watches.items():
            age.add_metric((resource,), math.nan if watch.age_s is None else watch.age_s)
        yield age
        for name, counter, text in (
            ("lists", "lists", "Full lists read."),
            ("streams", "watches", "Watch streams opened."),
            ("events", "events", "Watch events received."),
            ("failures", "failures", "Lists and streams that broke."),
            ("undecodable", "undecodable", "Objects left out because they could not be read."),
        ):
            family = Counter(f"gcushare_watch_{name}", text, labels=("resource",))
            for resource, watch in self.watches.items():
                family.add_metric((resource,), watch.counters[counter])
            yield family
        events = Counter("gcushare_events", "Events by outcome.", labels=("outcome",))
        for outcome in ("posted", "merged", "dropped", "failed"):
            events.add_metric((outcome,), self.recorded[outcome])
        yield events
