"""The plugin's metrics: a collector that reads the plugin's state at each scrape.

Gauges are read from the inventory, the pod store and the monitor at that moment, so no figure has a second copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gcushare._version import __version__
from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Card, CardUse, Health, InventoryCard
from gcushare.device_plugin.kubelet.registration import Endpoint
from gcushare.device_plugin.kubelet.server import CALLS
from gcushare.device_plugin.mps.watch import MpsWatch
from gcushare.device_plugin.node.agent import NodeAgent
from gcushare.device_plugin.node.publisher import Publisher
from gcushare.device_plugin.over_use.evictor import Outcome
from gcushare.device_plugin.over_use.parts import OverUseParts
from gcushare.device_plugin.pods.memory_use import PodMemoryMonitor, granted_bytes
from gcushare.device_plugin.pods.pod import NO_SIZES, peak_per_card
from gcushare.device_plugin.pods.reconciler import AllocationReconciler
from gcushare.device_plugin.pods.store import PodStore
from gcushare.kube.connection.transport import RequestReport
from gcushare.node.cdi import CdiSpecPublisher
from gcushare.runtime.metrics import make_registry

_CARD_LABELS = ("vendor", "node", "card", "uuid", "model")
_POD_LABELS = ("vendor", "node", "card", "pod_namespace", "pod_name")
"""Not ``namespace`` and ``pod``: Prometheus overwrites these labels with those of the scraped pod."""
_LATENCY_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The components whose state is shown. ``cards`` is the card monitor's present state; ``endpoints`` are by mode.

    ``watch_age_s`` is the time since the last answer of the API server that confirmed the view of the pods; None before
    the first list. ``pod_use`` is None if it is not enabled.
    """

    vendor: str
    node: str
    agent: NodeAgent
    store: PodStore
    reconciler: AllocationReconciler
    endpoints: Mapping[str, Endpoint]
    publisher: Publisher
    cdi: CdiSpecPublisher
    cards: Callable[[], CardsSnapshot]
    watch_age_s: Callable[[], float | None]
    pod_use: PodMemoryMonitor | None
    over_use: OverUseParts
    mps: MpsWatch | None


class PluginMetrics(Collector):
    """The plugin's metrics. Calls and requests are recorded when they end; the rest is read at each scrape."""

    def __init__(self) -> None:
        self.registry = make_registry("gcushare-device-plugin", __version__)
        self._calls = Histogram(
            "gcushare_plugin_call_seconds",
            "Time of the kubelet's calls, the wait for a pod included, by call and outcome (ok, the kind of "
            "error, or defect).",
            ("call", "outcome"),
            buckets=_LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self._requests = Counter(
            "gcushare_plugin_api_requests",
            "Requests to the API server, by verb, resource and status code (0: no answer).",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self._failed_calls = dict.fromkeys(CALLS, 0)
        self._observed: Observed | None = None

    def observe_request(self, report: RequestReport) -> None:
        """Record a request to the API server."""
        self._requests.labels(report.verb, report.resource, str(report.code)).inc()

    def observe_call(self, call: str, seconds: float, error: str) -> None:
        """Record a call of the kubelet."""
        self._calls.labels(call, error or "ok").observe(seconds)
        self._failed_calls[call] += bool(error)

    def follow(self, observed: Observed) -> None:
        """Show the state of these components from now on."""
        self._observed = observed
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Read the present state."""
        if self._observed is None:
            return
        yield from _card_metrics(self._observed)
        yield _pod_metric(self._observed)
        yield from _use_metrics(self._observed)
        yield from _pod_use_metrics(self._observed)
        yield from _over_use_metrics(self._observed)
        yield from _registration_metrics(self._observed)
        yield from _record_metrics(self._observed)
        failed = CounterMetricFamily(
            "gcushare_plugin_failed_calls",
            "Calls of the kubelet that were refused or failed.",
            labels=("vendor", "node", "call"),
        )
        for call, times in self._failed_calls.items():
            failed.add_metric((self._observed.vendor, self._observed.node, call), times)
        yield failed


def _gauge(
    name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _card_metrics(observed: Observed) -> Iterator[Metric]:
    inventory = observed.agent.inventory
    sizes = inventory.units_by_card if inventory is not None else NO_SIZES
    held, of_others = observed.store.held_units(sizes), observed.store.unrecorded.units(sizes)
    offered = observed.agent.describe(inventory).cards if inventory is not None else ()
    cards = [(_labels(observed, each), each) for each in offered]

    def size(units: int) -> int:
        return inventory.unit.bytes_of(units) if inventory is not None else 0

    def gauge(name: str, text: str, read: Callable[[InventoryCard], float]) -> Metric:
        return _gauge(name, text, _CARD_LABELS, ((labels, read(card)) for labels, card in cards))

    yield gauge("gcushare_card_units", "Units that a card offers.", lambda card: card.units)
    yield gauge("gcushare_card_granted_units", "Units that pods hold.", lambda card: held.get(card.index, 0))
    yield gauge("gcushare_card_granted_bytes", "Bytes that pods hold.", lambda card: size(held.get(card.index, 0)))
    yield gauge("gcushare_card_memory_bytes", "The card's whole memory.", lambda card: card.memory_bytes)
    yield gauge("gcushare_card_reserved_units", "Units kept back.", lambda card: card.reserved_units)
    yield gauge("gcushare_card_reserved_bytes", "Bytes kept back.", lambda card: size(card.reserved_units))
    yield gauge(
        "gcushare_card_healthy", "1 where new pods may come as to health.", lambda card: card.health is Health.HEALTHY
    )
    yield gauge("gcushare_card_cordoned", "1 where an admin cordoned the card.", lambda card: card.cordoned)
    yield gauge(
        "gcushare_card_unrecorded_units",
        "Units that the kubelet gave to pods that no record names: their request is none that is granted, or they "
        "are not seen.",
        lambda card: of_others.get(card.index, 0),
    )
    closed = (((*labels, c.use, *c.pod.split("/", 1)), c.until) for labels, card in cards for c in card.closures)
    yield _gauge(
        "gcushare_card_closed_until_timestamp_seconds",
        "When a card opens to a use (memory, whole) at the latest, which containers of a pod deleted by force close it "
        "to; 0 while that cannot be said. No series: it is open.",
        (*_CARD_LABELS, "use", "pod_namespace", "pod_name"),
        closed,
    )


def _pod_metric(observed: Observed) -> Metric:
    inventory = observed.agent.inventory
    held: dict[tuple[str, ...], int] = {}
    if inventory is not None:
        sizes = inventory.units_by_card
        for entry in observed.store.entries.values():
            for index, units in peak_per_card(entry, sizes).items():
                key = (observed.vendor, observed.node, str(index), entry.ref.namespace, entry.ref.name)
                held[key] = held.get(key, 0) + inventory.unit.bytes_of(units)
    return _gauge("gcushare_pod_granted_bytes", "Bytes that a pod holds of a card.", _POD_LABELS, held.items())


def _use_metrics(observed: Observed) -> Iterator[Metric]:
    found = observed.cards()
    uses = [(_labels(observed, each), found.uses[each.index]) for each in found.cards if each.index in found.uses]

    def gauge(name: str, text: str, read: Callable[[CardUse], float | None]) -> Metric:
        samples = ((labels, value) for labels, use in uses if (value := read(use)) is not None)
        return _gauge(name, text, _CARD_LABELS, samples)

    yield gauge("gcushare_card_memory_used_bytes", "Bytes really in use.", lambda use: use.memory_used_bytes)
    yield gauge("gcushare_card_temperature_celsius", "Temperature.", lambda use: use.temperature_celsius)
    yield gauge("gcushare_card_power_watts", "Power draw.", lambda use: use.power_watts)
    yield gauge("gcushare_card_power_limit_watts", "Power limit that is set.", lambda use: use.power_limit_watts)
    yield gauge("gcushare_card_utilization_percent", "Utilization.", lambda use: use.utilization_percent)


def _pod_use_metrics(observed: Observed) -> Iterator[Metric]:
    """The real use of pods, and with the same labels what each pod may use.

    Unlike what the ledger counts, that is all the bytes of a whole card, and 0 of a card that the pod does not hold.
    """
    found = observed.pod_use.latest if observed.pod_use is not None else None
    if found is None:
        return
    # Two pods with one name are one series, because the end of the first may be seen after the start of the second.
    used: dict[tuple[str, ...], int] = {}
    granted: dict[tuple[str, ...], int] = {}
    busy: dict[tuple[str, ...], float] = {}
    for uid, cards in found.by_pod.items():
        entry = observed.store.entries[uid]
        may_use = granted_bytes(entry, observed.agent.inventory)
        for index, size in cards.items():
            key = (observed.vendor, observed.node, str(index), entry.ref.namespace, entry.ref.name)
            used[key] = used.get(key, 0) + size
            granted[key] = granted.get(key, 0) + may_use.get(index, 0)
            if (percent := found.utilization.get(uid, {}).get(index)) is not None:
                busy[key] = busy.get(key, 0.0) + percent
    look = observed.cards()
    unattributed = (
        (_labels(observed, each), found.unattributed[each.index])
        for each in look.cards
        if each.index in found.unattributed and each.index not in look.gone
    )
    yield _gauge(
        "gcushare_pod_memory_used_bytes", "Bytes of a card that a pod's processes use.", _POD_LABELS, used.items()
    )
    yield _gauge(
        "gcushare_pod_memory_granted_bytes", "Bytes of a card that a pod may use.", _POD_LABELS, granted.items()
    )
    yield _gauge(
        "gcushare_pod_utilization_percent",
        "Percent of a card's time that a pod's processes use. No series: the library does not sample processes.",
        _POD_LABELS,
        busy.items(),
    )
    yield _gauge(
        "gcushare_card_memory_unattributed_bytes",
        "Bytes used by processes that belong to no pod with cards.",
        _CARD_LABELS,
        unattributed,
    )


def _over_use_metrics(observed: Observed) -> Iterator[Metric]:
    """Which pods are over their grant and by how much, how often that began, and the outcomes of evictions.

    Nothing where it is not known what pods use.
    """
    parts, where = observed.over_use, (observed.vendor, observed.node)
    if parts.watch is None:
        return
    sums: dict[tuple[str, ...], int] = {}
    for uid, cards in parts.watch.over.items():
        ref = observed.store.entries[uid].ref
        for index, each in cards.items():
            key = (*where, str(index), ref.namespace, ref.name)
            sums[key] = sums.get(key, 0) + each.figures.excess
    yield _gauge(
        "gcushare_pod_over_use_bytes",
        "Bytes of a card that a pod uses beyond its grant, while it is over: above the tolerance in several looks. No "
        "series: it is not.",
        _POD_LABELS,
        sums.items(),
    )
    began = CounterMetricFamily(
        "gcushare_plugin_over_uses", "Times that a pod began to be over its grant.", labels=("vendor", "node")
    )
    began.add_metric(where, parts.watch.began)
    yield began
    if parts.evictor is None:
        return
    evictions = CounterMetricFamily(
        "gcushare_plugin_over_use_evictions",
        "Decisions to evict a pod that is over its grant, by outcome: evicted, refused (by a disruption budget), gone, "
        "failed, rehearsed (--dry-run).",
        labels=("vendor", "node", "outcome"),
    )
    for outcome in Outcome:
        evictions.add_metric((*where, outcome.value), parts.evictor.outcomes[outcome])
    yield evictions


def _registration_metrics(observed: Observed) -> Iterator[Metric]:
    names = ("vendor", "node", "resource")
    registered = GaugeMetricFamily("gcushare_plugin_registered", "1 while the kubelet reads the list.", labels=names)
    times = CounterMetricFamily("gcushare_plugin_registrations", "Registrations with the kubelet.", labels=names)
    for endpoint in observed.endpoints.values():
        labels = (observed.vendor, observed.node, endpoint.resource)
        registered.add_metric(labels, endpoint.is_read)
        times.add_metric(labels, endpoint.registrations)
    yield from (registered, times)


def _record_metrics(observed: Observed) -> Iterator[Metric]:
    labels = (observed.vendor, observed.node)
    names = ("vendor", "node")
    counters, written = observed.reconciler.counters, observed.reconciler.writer.counters
    for name, text, value in (
        ("gcushare_plugin_record_writes", "Records written on pods.", written.writes),
        (
            "gcushare_plugin_record_corrections",
            "Records that were corrected.",
            written.corrections,
        ),
        ("gcushare_plugin_record_write_failures", "Record writes that failed.", written.failed_writes),
        ("gcushare_plugin_kubelet_record_reads", "Looks at the kubelet's own record.", counters.checks),
        ("gcushare_plugin_kubelet_record_failures", "Looks that failed.", counters.failed_checks),
    ):
        family = CounterMetricFamily(name, text, labels=names)
        family.add_metric(labels, value)
        yield family
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
        yield _gauge(name, text, names, [(labels, number)])


def _labels(observed: Observed, card: Card) -> tuple[str, ...]:
    return (observed.vendor, observed.node, str(card.index), card.uuid, card.model)
