"""Answer /metrics from a registry that the program owns; the process-wide default registry is not used."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CollectorRegistry, Info
from prometheus_client.exposition import choose_encoder


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
