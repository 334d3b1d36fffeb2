"""Answers /metrics from the program's own registry. The process-wide default registry is not used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar

from aiohttp import web
from prometheus_client import CollectorRegistry, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gcushare._version import __version__
from gcushare.runtime.http.answers import Cause
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.http.tls import CertificateEnd

FamilyT = TypeVar("FamilyT", GaugeMetricFamily, CounterMetricFamily)


def family(
    kind: type[FamilyT], name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> FamilyT:
    """A family of gauges or counters with these samples: the values of the labels, and the number."""
    found = kind(name, text, labels=labels)
    for values, number in samples:
        found.add_metric(values, number)
    return found


gauge, counter = partial(family, GaugeMetricFamily), partial(family, CounterMetricFamily)


def make_registry(program: str) -> CollectorRegistry:
    """Return a new registry with the program's name and version."""
    registry = CollectorRegistry()
    build = Info("gcushare_build", "The program that answers and its version.", registry=registry)
    build.info({"program": program, "version": __version__})
    return registry


def metrics_route(registry: CollectorRegistry) -> web.RouteDef:
    """Return the route that serves the registry in the format that the scraper accepts."""

    async def answer(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    return web.get("/metrics", answer)


class HasCertificates(Protocol):
    """A source of certificates' ends: a server, or the component that issues certificates."""

    @property
    def certificate_ends(self) -> tuple[CertificateEnd, ...]:
        """The present certificates' ends."""


class CertificateCollector(Collector):
    """When certificates end, as of the scrape; no series over plain HTTP. ``owners`` may grow."""

    def __init__(self, owners: Sequence[HasCertificates]) -> None:
        self._owners = owners

    def collect(self) -> Iterator[Metric]:
        yield gauge(
            "gcushare_tls_certificate_not_after_timestamp_seconds",
            "The earliest end among the certificates of a TLS file in use, in seconds since 1970.",
            ("purpose", "file"),
            (
                ((each.purpose.value, str(each.file)), each.not_after.timestamp())
                for owner in self._owners
                for each in owner.certificate_ends
            ),
        )


class RejectedCollector(Collector):
    """Connections and requests that servers rejected before a handler was called. ``servers`` may grow."""

    def __init__(self, servers: Sequence[RunningServer]) -> None:
        self._servers = servers

    def collect(self) -> Iterator[Metric]:
        counts = Counter(dict.fromkeys(Cause, 0))
        for server in self._servers:
            counts.update(server.rejected)
        yield counter(
            "gcushare_turned_away",
            "Connections and requests that no handler saw, by cause.",
            ("cause",),
            (((cause.value,), count) for cause, count in counts.items()),
        )
