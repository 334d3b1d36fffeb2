"""Answer /metrics from a registry that the program owns; the process-wide default registry is not used."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gcushare.runtime.serving import RunningServer


def make_registry(program: str, version: str) -> CollectorRegistry:
    """Return a new registry that already tells which program and version it speaks of."""
    registry = CollectorRegistry()
    build = Info("gcushare_build", "The program that answers and its version.", registry=registry)
    build.info({"program": program, "version": version})
    return registry


def metrics_route(registry: CollectorRegistry) -> web.RouteDef:
    """Return the route that shows the registry in the format that the scraper asks for."""

    async def answer(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    return web.get("/metrics", answer)


class CertificateCollector(Collector):
    """When the certificates that a server works with end, as it has them at the scrape; no series over plain HTTP."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """Make the figure."""
        family = GaugeMetricFamily(
            "gcushare_tls_certificate_not_after_timestamp_seconds",
            "The earliest end among the certificates of a TLS file in use, in seconds since 1970.",
            labels=("purpose", "file"),
        )
        for each in self._server.certificate_ends:
            family.add_metric((each.purpose.value, str(each.file)), each.not_after.timestamp())
        yield family


class TurnedAwayCollector(Collector):
    """What a server turned away before any handler saw it."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """Make the figure."""
        family = CounterMetricFamily(
            "gcushare_turned_away", "Connections and requests that no handler saw, by cause.", labels=("cause",)
        )
        for cause, count in self._server.turned_away.items():
            family.add_metric((cause.value,), count)
        yield family
