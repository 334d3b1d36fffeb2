"""What every program of a node shows of its cards and pods: metrics that read the present state at each scrape.

Gauges are read from the inventory, the pods and the monitor at that moment, so no figure has a second copy. The names
are the same for resources and claims, so that one alert rule or panel is right for both.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from prometheus_client import Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Card, CardUse, Health, Inventory, InventoryCard
from gcushare.node.cdi import CdiSpecPublisher
from gcushare.node.driver_limits.pods import DriverLimits
from gcushare.node.mps.watch import MpsWatch
from gcushare.node.over_use.evictor import EvictionCause, Outcome
from gcushare.node.over_use.parts import OverUseParts
from gcushare.node.pod_use import PodMemoryMonitor, granted_bytes
from gcushare.node.pods import NO_SIZES, NodePods
from gcushare.runtime.metrics import counter, gauge, make_registry

_CARD_LABELS = ("vendor", "node", "card", "uuid", "model")
_POD_LABELS = ("vendor", "node", "card", "pod_namespace", "pod_name")
"""Not ``namespace`` and ``pod``: Prometheus overwrites these labels with those of the scraped pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCards(ABC):
    """The components whose state is shown. ``cards`` is the card monitor's present state.

    ``inventory`` is what the node offers, with the holders that no record names; None before the first. ``pod_use`` is
    None if it is not enabled.
    """

    vendor: str
    node: str
    node_group: str
    inventory: Callable[[], Inventory | None]
    pods: NodePods
    cards: Callable[[], CardsSnapshot]
    pod_use: PodMemoryMonitor | None
    over_use: OverUseParts
    cdi: CdiSpecPublisher
    mps: MpsWatch | None
    driver_limits: DriverLimits | None

    @abstractmethod
    def problems(self) -> dict[str, str]:
        """What is not as it should be, by part."""

    @property
    def limit_problem(self) -> str:
        """Why memory is not limited though it should be; "" if all is well."""
        limits = self.driver_limits or self.mps
        return limits.problem if limits is not None else ""


T = TypeVar("T", bound=ObservedCards)


class CallObserver(Protocol):
    """Called after each call of the kubelet: its name, seconds, and the error's class name, "" on success."""

    def __call__(self, call: str, seconds: float, error: str) -> None: ...


class NodeMetrics(Collector, Generic[T]):
    """One program's metrics. Calls and requests are recorded when they end; the rest is read at each scrape."""

    def __init__(
        self, program: str, prefix: str, calls: Sequence[str], times: str, failures: str, buckets: Sequence[float]
    ) -> None:
        """``prefix`` begins the metrics' names; ``times`` and ``failures`` are the help texts of the calls' metrics."""
        self.registry = make_registry(program)
        self._calls = Histogram(
            f"{prefix}_call_seconds", times, ("call", "outcome"), buckets=buckets, registry=self.registry
        )
        self._requests = Counter(
            f"{prefix}_api_requests",
            "Requests to the API server, by verb, resource and status code (0: no answer).",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self._failed_calls = dict.fromkeys(calls, 0)
        self._failures = (f"{prefix}_failed_calls", failures)
        self._observed: T | None = None

    def observe_request(self, verb: str, resource: str, code: int) -> None:
        """Record a request to the API server."""
        self._requests.labels(verb, resource, str(code)).inc()

    def observe_call(self, call: str, seconds: float, error: str) -> None:
        """Record a call of the kubelet."""
        self._calls.labels(call, error or "ok").observe(seconds)
        self._failed_calls[call] += bool(error)

    def follow(self, observed: T) -> None:
        """Show the state of these components from now on."""
        self._observed = observed
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Read the present state."""
        if (seen := self._observed) is None:
            return
        yield from _card_metrics(seen)
        yield _pod_metric(seen)
        yield from _use_metrics(seen)
        yield from _pod_use_metrics(seen)
        yield from _unattributed_metrics(seen)
        yield from _over_use_metrics(seen)
        yield from self.read(seen)
        failed = (((seen.vendor, seen.node, call), times) for call, times in self._failed_calls.items())
        yield counter(*self._failures, ("vendor", "node", "call"), failed)

    @abstractmethod
    def read(self, observed: T) -> Iterator[Metric]:
        """Read the metrics that only this program has."""


def _card_metrics(observed: ObservedCards) -> Iterator[Metric]:
    inventory = observed.inventory()
    sizes = inventory.units_by_card if inventory is not None else NO_SIZES
    held, of_others = observed.pods.held_units(sizes), observed.pods.unrecorded_units(sizes)
    cards = [(_labels(observed, each), each) for each in (inventory.cards if inventory is not None else ())]

    def size(units: int) -> int:
        return inventory.unit.bytes_of(units) if inventory is not None else 0

    def of_card(name: str, text: str, read: Callable[[InventoryCard], float]) -> Metric:
        return gauge(name, text, _CARD_LABELS, ((labels, read(card)) for labels, card in cards))

    yield of_card("gcushare_card_units", "Units that a card offers.", lambda card: card.units)
    yield of_card("gcushare_card_granted_units", "Units that pods hold.", lambda card: held.get(card.index, 0))
    yield of_card("gcushare_card_granted_bytes", "Bytes that pods hold.", lambda card: size(held.get(card.index, 0)))
    yield of_card("gcushare_card_memory_bytes", "The card's whole memory.", lambda card: card.memory_bytes)
    yield of_card("gcushare_card_reserved_units", "Units kept back.", lambda card: card.reserved_units)
    yield of_card("gcushare_card_reserved_bytes", "Bytes kept back.", lambda card: size(card.reserved_units))
    yield of_card(
        "gcushare_card_healthy", "1 where new pods may come as to health.", lambda card: card.health is Health.HEALTHY
    )
    yield of_card("gcushare_card_cordoned", "1 where an admin cordoned the card.", lambda card: card.cordoned)
    yield of_card(
        "gcushare_card_unrecorded_units",
        "Units that the kubelet gave to pods that no record names: their request is none that is granted, or they "
        "are not seen.",
        lambda card: of_others.get(card.index, 0),
    )


def _pod_metric(observed: ObservedCards) -> Metric:
    inventory = observed.inventory()
    held: dict[tuple[str, ...], float] = {}
    pods = observed.pods.everyone

    def add(uid: str, index: int, size: float) -> None:
        ref = pods[uid].ref
        key = (observed.vendor, observed.node, str(index), ref.namespace, ref.name)
        held[key] = held.get(key, 0) + size

    if inventory is not None:
        for uid, entry in pods.items():
            for index, units in entry.units_by_card(inventory.units_by_card).items():
                add(uid, index, inventory.unit.bytes_of(units))
        # So that the sum over pods is what the card gave out.
        for uids, counts in observed.pods.shared():
            for uid, (index, units) in itertools.product(uids, counts.items()):
                size = inventory.unit.bytes_of(units)
                add(uid, index, size / len(uids) - size)
    text = "Bytes that a pod holds of a card; of a claim that several pods share, an equal part."
    return gauge("gcushare_pod_granted_bytes", text, _POD_LABELS, held.items())


def _use_metrics(observed: ObservedCards) -> Iterator[Metric]:
    found = observed.cards()
    uses = [(_labels(observed, each), found.uses[each.index]) for each in found.cards if each.index in found.uses]

    def of_card(name: str, text: str, read: Callable[[CardUse], float | None]) -> Metric:
        samples = ((labels, value) for labels, use in uses if (value := read(use)) is not None)
        return gauge(name, text, _CARD_LABELS, samples)

    yield of_card("gcushare_card_memory_used_bytes", "Bytes really in use.", lambda use: use.memory_used_bytes)
    yield of_card("gcushare_card_temperature_celsius", "Temperature.", lambda use: use.temperature_celsius)
    yield of_card("gcushare_card_power_watts", "Power draw.", lambda use: use.power_watts)
    yield of_card("gcushare_card_power_limit_watts", "Power limit that is set.", lambda use: use.power_limit_watts)
    yield of_card("gcushare_card_utilization_percent", "Utilization.", lambda use: use.utilization_percent)


def _pod_use_metrics(observed: ObservedCards) -> Iterator[Metric]:
    """The real use of pods, and with the same labels what each pod may use.

    Unlike what the ledger counts, that is all the bytes of a whole card, and 0 of a card that the pod does not hold.
    """
    found = observed.pod_use.latest if observed.pod_use is not None else None
    if found is None:
        return
    # Two pods with one name are one series, because the end of the first may be seen after the start of the second.
    used: dict[tuple[str, ...], int] = {}
    granted: dict[tuple[str, ...], int] = {}
    limits: dict[tuple[str, ...], int] = {}
    busy: dict[tuple[str, ...], float] = {}
    by_driver: dict[tuple[str, ...], int] = {}
    pods = observed.pods.everyone
    for uid, cards in found.by_pod.items():
        entry = pods[uid]
        inventory = observed.inventory()
        may_use = granted_bytes(entry, inventory)
        limit = inventory.unit.bytes_of(entry.limit) if inventory is not None else 0
        for index, size in cards.items():
            key = (observed.vendor, observed.node, str(index), entry.ref.namespace, entry.ref.name)
            used[key] = used.get(key, 0) + size
            granted[key] = granted.get(key, 0) + may_use.get(index, 0)
            if (uid, index) in found.by_driver:
                by_driver[key] = 1
            if limit and index in may_use:
                limits[key] = limits.get(key, 0) + limit
            if (percent := found.utilization.get(uid, {}).get(index)) is not None:
                busy[key] = busy.get(key, 0.0) + percent
    for name, text, samples in (
        ("gcushare_pod_memory_used_bytes", "Bytes of a card that a pod's processes use.", used),
        (
            "gcushare_pod_memory_used_by_driver",
            "1 where the driver counts the bytes that a pod uses of a card. No series: they are the sum over "
            "processes.",
            by_driver,
        ),
        ("gcushare_pod_memory_granted_bytes", "Bytes of a card that a pod may use.", granted),
        (
            "gcushare_pod_memory_limit_bytes",
            "Bytes of a card that a pod may use while no other pod needs them. No series: only those it was granted.",
            limits,
        ),
        (
            "gcushare_pod_utilization_percent",
            "Percent of a card's time that a pod's processes use. No series: the library does not sample processes.",
            busy,
        ),
    ):
        yield gauge(name, text, _POD_LABELS, samples.items())


def _unattributed_metrics(observed: ObservedCards) -> Iterator[Metric]:
    found, last = observed.pod_use.latest if observed.pod_use is not None else None, observed.cards()
    if found is None:
        return
    unattributed = (
        (_labels(observed, each), found.unattributed[each.index])
        for each in last.cards
        if each.index in found.unattributed and each.index not in last.gone
    )
    yield gauge(
        "gcushare_card_memory_unattributed_bytes",
        "Bytes used by processes that belong to no pod of this node.",
        _CARD_LABELS,
        unattributed,
    )


def _over_use_metrics(observed: ObservedCards) -> Iterator[Metric]:
    """Which pods are over their grant and by how much, which are idle, and the outcomes of evictions.

    Nothing where it is not known what pods use.
    """
    parts, where = observed.over_use, (observed.vendor, observed.node)
    if parts.watch is None:
        return
    sums: dict[tuple[str, ...], int] = {}
    pods = observed.pods.everyone
    for uid, cards in parts.watch.over.items():
        ref = pods[uid].ref
        for index, each in cards.items():
            key = (*where, str(index), ref.namespace, ref.name)
            sums[key] = sums.get(key, 0) + each.figures.excess
    yield gauge(
        "gcushare_pod_over_use_bytes",
        "Bytes of a card that a pod uses beyond its grant, while it is over: above the tolerance in several polls. No "
        "series: it is not.",
        _POD_LABELS,
        sums.items(),
    )
    yield counter(
        "gcushare_plugin_over_uses",
        "Times that a pod began to be over its grant.",
        ("vendor", "node"),
        [(where, parts.watch.began)],
    )
    if parts.idle is not None:
        yield gauge(
            "gcushare_pod_idle_seconds",
            "How long a pod has not used its cards, once that is longer than --idle-after. No series: it is not idle.",
            ("vendor", "node", "pod_namespace", "pod_name"),
            [((*where, each.pod.namespace, each.pod.name), each.idle_s) for each in parts.idle.idle.values()],
        )
    if (evictor := parts.evictor) is not None:
        for cause, name, what in (
            (EvictionCause.OVER_USE, "over_use", "that is over its grant"),
            (EvictionCause.IDLE, "idle", "that is idle"),
        ):
            yield counter(
                f"gcushare_plugin_{name}_evictions",
                f"Decisions to evict a pod {what}, by outcome: evicted, refused (by a disruption budget), gone, "
                "failed, rehearsed (--dry-run).",
                ("vendor", "node", "outcome"),
                [((*where, outcome.value), evictor.outcomes[cause, outcome]) for outcome in Outcome],
            )


def _labels(observed: ObservedCards, card: Card) -> tuple[str, ...]:
    return (observed.vendor, observed.node, str(card.index), card.uuid, card.model)
