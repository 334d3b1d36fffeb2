"""The figures of /metrics. The hot path only increments counters; sums over nodes are computed at a scrape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gcushare.core.card_state import CardMode
from gcushare.core.cards import BOTH_MODES
from gcushare.core.totals import ClusterTotals
from gcushare.kube.reflector import Reflector
from gcushare.runtime.metrics import counter, gauge
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
    pending = count_pending(state, services.filters.totals.by_unit().values())
    text = "Pods that ask for cards, by why they wait."
    by_reason = [((vendor, reason.value), pods) for reason, pods in pending.items()]
    yield gauge("gcushare_pods_waiting_by_reason", text, ("vendor", "reason"), by_reason)
    for name, text, value in (
        ("pods_waiting", "Pods that ask for cards and are not bound.", len(state.waiting) + len(state.claiming)),
        (
            "nodes_without_units",
            "Nodes whose cards serve a resource that the kubelet counts as 0.",
            len(state.nodes.without_units),
        ),
        ("nodes_unreadable", "Nodes whose cards cannot be read, or are counted otherwise.", len(state.nodes.problems)),
        ("pods_unreadable", "Bound pods whose cards cannot be read.", len(state.pod_problems)),
        ("reservations", "Grants that no watch event has confirmed.", len(state.ledger.reserved)),
        ("binds_under_way", "Bindings sent or about to be.", binds.under_way),
    ):
        yield gauge(f"gcushare_{name}", text, ("vendor",), [((vendor,), value)])
    for name, text, value in (
        ("bind_conflicts", "Bindings refused because the pod had changed.", binds.sender.conflicts),
        ("bind_unknown_outcomes", "Bindings whose outcome had to be read.", binds.sender.unknown_outcomes),
    ):
        yield counter(f"gcushare_{name}", text, ("vendor",), [((vendor,), value)])
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
        samples = [((vendor, outcome), counters[outcome]) for outcome in outcomes]
        yield counter(f"gcushare_{name}", text, ("vendor", "outcome"), samples)


def _units(vendor: str, cluster: ClusterTotals) -> Iterator[Metric]:
    found = sorted(cluster.by_unit().items())
    for name, figure, text in (
        ("nodes", "nodes", "Nodes with cards."),
        ("cards", "cards", "Cards."),
        ("cards_unusable", "unusable", "Cards that take no new pods: sick or cordoned."),
        ("units_total", "total", "Memory units of all cards."),
        ("units_granted", "granted", "Units that pods hold."),
        ("units_free", "free", "Units that new pods may be given, also on nodes that take no pods now."),
        ("largest_request_units", "largest_free", "The largest request of one card that fits now."),
        ("pods_holding", "pods", "Pods bound to nodes with cards."),
        ("units_unrecorded", "unrecorded", "Units that pods hold without a record of it, as their nodes report them."),
        ("units_unplaced", "unplaced", "Units of bound pods whose card is not known; kept free on every card."),
    ):
        samples = [((vendor, unit), float(getattr(totals, figure))) for unit, totals in found]
        yield gauge(f"gcushare_{name}", text, ("vendor", "unit"), samples)
    modes = [((vendor, unit, mode.value), totals.modes[mode]) for unit, totals in found for mode in CardMode]
    yield gauge("gcushare_cards_by_mode", "Cards by use.", ("vendor", "unit", "mode"), modes)
    text = "Cards closed to a use (memory, whole) for containers of pods deleted by force."
    closed = [((vendor, unit, use), totals.closed[use]) for unit, totals in found for use in BOTH_MODES]
    yield gauge("gcushare_cards_closed", text, ("vendor", "unit", "use"), closed)
    text = "Share of the free units that a request of this many units cannot use."
    lost = [((vendor, unit, str(n)), totals.fragmentation(n)) for unit, totals in found for n in totals.sizes()]
    yield gauge("gcushare_fragmentation", text, ("vendor", "unit", "request"), lost)


@dataclass(eq=False)
class ReplicaCollector(Collector):
    """The figures of this replica: whether it answers the scheduler and on which port, its watches and Events."""

    answers: Callable[[], bool]
    verbs: Verbs
    watches: Mapping[str, Reflector[Any]]
    recorded: Mapping[str, int]

    def collect(self) -> Iterator[Metric]:
        yield gauge("gcushare_leader", "1 if this replica serves the scheduler.", (), [((), self.answers())])
        text = "Whether the scheduler's calls are answered without mutual TLS, on the first port."
        yield gauge("gcushare_extender_open_verbs", text, (), [((), self.verbs.is_plain)])
        text = "Time since the API server last proved the watch cache current; NaN before the first list."
        watches = self.watches.items()
        ages = [((resource,), math.nan if watch.age_s is None else watch.age_s) for resource, watch in watches]
        yield gauge("gcushare_watch_age_seconds", text, ("resource",), ages)
        for name, counted, text in (
            ("lists", "lists", "Full lists read."),
            ("streams", "watches", "Watch streams opened."),
            ("events", "events", "Watch events received."),
            ("failures", "failures", "Lists and streams that broke."),
            ("undecodable", "undecodable", "Objects left out because they could not be read."),
        ):
            samples = [((resource,), watch.counters[counted]) for resource, watch in watches]
            yield counter(f"gcushare_watch_{name}", text, ("resource",), samples)
        events = [((outcome,), self.recorded[outcome]) for outcome in ("posted", "merged", "dropped", "failed")]
        yield counter("gcushare_events", "Events by outcome.", ("outcome",), events)
