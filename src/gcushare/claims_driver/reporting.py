"""What the driver shows of itself: metrics, ``/status``, ``/healthz`` and ``/readyz``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gcushare._version import __version__
from gcushare.cards.health import CardsSnapshot
from gcushare.claims_driver.inventory_writer import InventoryWriter
from gcushare.claims_driver.node_agent import NodeAgent
from gcushare.claims_driver.prepared_claims import PreparedClaims
from gcushare.claims_driver.registration import Registration
from gcushare.claims_driver.service import CALLS
from gcushare.claims_driver.slice_publisher import SlicePublisher
from gcushare.core.cards import Health as CardHealth
from gcushare.core.cards import Inventory
from gcushare.kube.connection.transport import RequestReport
from gcushare.node.cdi import CdiSpecPublisher
from gcushare.runtime.health import Health
from gcushare.runtime.metrics import make_registry
from gcushare.wire.contracts import CLAIMS_DRIVER

_LATENCY_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_CARD_LABELS = ("vendor", "node", "card", "uuid", "model")
POLL_GRACE_S = 300.0
"""A library may take a minute to open, and rests between attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The parts whose state is shown. ``recovery`` says why the checkpoint is not usable yet, "" if it is."""

    vendor: str
    node: str
    agent: NodeAgent
    prepared: PreparedClaims
    publisher: SlicePublisher
    writer: InventoryWriter
    registration: Registration
    cdi: CdiSpecPublisher
    cards: Callable[[], CardsSnapshot]
    recovery: Callable[[], str]

    def problems(self) -> dict[str, str]:
        """What is not as it should be, by part."""
        found = {
            "checkpoint": self.recovery(),
            "cards": self.agent.problem,
            "slices": self.publisher.problem,
            "inventory": self.writer.problem,
            "registration": self.registration.problem,
            "cdi": self.cdi.problem,
        }
        return {part: problem for part, problem in found.items() if problem}


class DriverMetrics(Collector):
    """The driver's metrics: calls and requests are counted as they end, the rest is read at each scrape."""

    def __init__(self) -> None:
        self.registry = make_registry(CLAIMS_DRIVER, __version__)
        self._calls = Histogram(
            "gcushare_claims_driver_call_seconds",
            "Time of the kubelet's calls for each claim, by call and outcome (ok, the kind of error, or defect).",
            ("call", "outcome"),
            buckets=_LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self._requests = Counter(
            "gcushare_claims_driver_api_requests",
            "Requests to the API server, by verb, resource and status code (0: no answer).",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        for call in CALLS:
            self._calls.labels(call, "ok")
        self._observed: Observed | None = None

    def observe_request(self, report: RequestReport) -> None:
        """Count one request to the API server."""
        self._requests.labels(report.verb, report.resource, str(report.code)).inc()

    def observe_call(self, call: str, seconds: float, error: str) -> None:
        """Count one claim of a call of the kubelet."""
        self._calls.labels(call, error or "ok").observe(seconds)

    def follow(self, observed: Observed) -> None:
        """Show these parts from now on."""
        self._observed = observed
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Read the state of now."""
        seen = self._observed
        if seen is None:
            return
        labels = (seen.vendor, seen.node)
        gauges = (
            ("gcushare_claims_driver_prepared_claims", "Claims that are prepared.", len(seen.prepared.claims)),
            ("gcushare_claims_driver_slices", "ResourceSlices that stand in the cluster.", seen.publisher.published),
            (
                "gcushare_claims_driver_slices_current",
                "1 if the ResourceSlices say what they should.",
                int(seen.publisher.is_current),
            ),
            (
                "gcushare_claims_driver_registered",
                "1 if the kubelet has registered the driver.",
                int(not seen.registration.problem),
            ),
        )
        for name, text, value in gauges:
            family = GaugeMetricFamily(name, text, labels=("vendor", "node"))
            family.add_metric(labels, value)
            yield family
        rounds = CounterMetricFamily(
            "gcushare_claims_driver_slice_rounds", "Rounds of writes of the slices.", labels=("vendor", "node")
        )
        rounds.add_metric(labels, seen.publisher.rounds)
        yield rounds
        if seen.agent.inventory is not None:
            yield from _card_metrics(seen, seen.agent.inventory)


def _card_metrics(seen: Observed, inventory: Inventory) -> Iterator[Metric]:
    healthy = GaugeMetricFamily("gcushare_claims_driver_card_healthy", "1 if the card is healthy.", labels=_CARD_LABELS)
    total = GaugeMetricFamily(
        "gcushare_claims_driver_card_memory_bytes", "Memory of the card that claims may hold.", labels=_CARD_LABELS
    )
    held = GaugeMetricFamily(
        "gcushare_claims_driver_card_prepared_bytes", "Memory of the card that claims hold.", labels=_CARD_LABELS
    )
    units: dict[int, int] = {}
    for assignment in seen.prepared.assignments(inventory):
        for grant in assignment.grants:
            share = inventory.units_by_card.get(grant.index, 0) if grant.whole else grant.units
            units[grant.index] = units.get(grant.index, 0) + share
    for card in inventory.cards:
        labels = (seen.vendor, seen.node, str(card.index), card.uuid, card.model)
        healthy.add_metric(labels, int(card.health is CardHealth.HEALTHY))
        total.add_metric(labels, inventory.unit.bytes_of(card.units))
        held.add_metric(labels, inventory.unit.bytes_of(units.get(card.index, 0)))
    yield from (healthy, total, held)


def describe(seen: Observed) -> dict[str, Any]:
    """The document of ``/status``."""
    inventory = seen.agent.inventory
    return {
        "vendor": seen.vendor,
        "node": seen.node,
        "version": __version__,
        "problems": seen.problems(),
        "unit": inventory.unit.name if inventory else "",
        "order": list(seen.agent.order),
        "cards": [
            {
                "index": card.index,
                "uuid": card.uuid,
                "units": card.units,
                "health": card.health.value,
                "reason": card.reason,
                "cordoned": card.cordoned,
            }
            for card in (inventory.cards if inventory else ())
        ],
        "claims": [
            {
                "claim": claim.key,
                "uid": claim.uid,
                "isComplete": claim.is_complete,
                "devices": [
                    {"device": each.device, "memoryBytes": each.memory_bytes, "whole": each.whole}
                    for each in claim.devices
                ],
            }
            for claim in sorted(seen.prepared.claims.values(), key=lambda claim: claim.key)
        ],
        "slices": {"published": seen.publisher.published, "isCurrent": seen.publisher.is_current},
    }


def make_health(seen: Observed, cards_check: Callable[[], Any]) -> Health:
    """Return the checks behind /healthz and /readyz; ``cards_check`` fails if the cards are polled no more."""
    health = Health()
    health.add_live("registration task", seen.registration.pulse.check)
    health.add_live("cards task", cards_check)
    health.add_ready("registration socket", seen.registration.probe)

    async def check_problems() -> str | None:
        return "; ".join(f"{part}: {problem}" for part, problem in seen.problems().items()) or None

    health.add_ready("driver", check_problems)
    return health
